// grapeshot/io/onnx/graph.h: an ONNX file as nodes and constants, as read: nothing is run or
// changed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

namespace grapeshot::onnx {

struct Attribute {
  std::string name;
  int64_t i = 0;
  float f = 0.f;
  std::string s;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  at::Tensor tensor;   ///< undefined unless the attribute is a tensor
  bool graph = false;  ///< holds a subgraph, which no supported operator reads
};

struct Node {
  std::string op, domain;  ///< domain "" is ai.onnx
  std::string name;        ///< as in the file, or "#<position>" when that is empty
  std::vector<std::string> inputs, outputs;  ///< "" where an optional one is left out
  std::vector<Attribute> attributes;

  [[nodiscard]] const Attribute* find(std::string_view attribute) const;
  [[nodiscard]] int64_t i(std::string_view attribute, int64_t otherwise) const;
  [[nodiscard]] float f(std::string_view attribute, float otherwise) const;
  [[nodiscard]] std::string_view s(std::string_view attribute, std::string_view otherwise) const;
  [[nodiscard]] std::vector<int64_t> ints(std::string_view attribute,
                                          std::vector<int64_t> otherwise) const;
};

struct Port {
  std::string name;
  std::vector<int64_t> shape;  ///< a symbolic or missing dimension is -1
  bool float32 = true;         ///< the element type is float32
  bool has_shape = false;
};

struct Graph {
  std::string path;   ///< for messages
  int64_t opset = 0;  ///< of ai.onnx
  int64_t opset_ml = 0;
  std::vector<Node> nodes;
  std::unordered_map<std::string, at::Tensor>
      constants;                      ///< initializers, float64/32, integers, bool
  std::vector<Port> inputs, outputs;  ///< inputs without the initializers
};

/// Reads a serialised ModelProto. Throws Error{kParse, "path: ..."} when the bytes are no ONNX
/// model, are cut off, or an initializer's size does not fit its shape; kUnsupported for external
/// data, sparse tensors and element types other than float, double, int32/64, uint8 and bool.
[[nodiscard]] Graph parse_graph(std::string_view bytes, const std::string& path);

}  // namespace grapeshot::onnx
