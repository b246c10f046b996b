// grapeshot/io/onnx/graph.h: an ONNX file as nodes and constants, as read: nothing is run or
// changed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

namespace grapeshot::onnx {

struct Body;

struct Attribute {
  std::string name;
  int64_t i = 0;
  float f = 0.f;
  std::string s;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  at::Tensor tensor;                 ///< undefined unless the attribute is a tensor
  std::shared_ptr<const Body> body;  ///< a branch of If, or null
  std::string ref = {};              ///< in a function: the call's attribute that it stands for
};

struct Node {
  std::string op, domain;  ///< domain "" is ai.onnx; calls of the file's functions are written out
  std::string name;        ///< as in the file, or "#<position>" when that is empty
  std::vector<std::string> inputs, outputs;  ///< "" where an optional one is left out
  std::vector<Attribute> attributes;
  std::vector<std::string> captures;  ///< what its subgraphs read from outside

  [[nodiscard]] const Attribute* find(std::string_view attribute) const;
  [[nodiscard]] int64_t i(std::string_view attribute, int64_t otherwise) const;
  [[nodiscard]] float f(std::string_view attribute, float otherwise) const;
  [[nodiscard]] std::string_view s(std::string_view attribute, std::string_view otherwise) const;
  [[nodiscard]] std::vector<int64_t> ints(std::string_view attribute,
                                          std::vector<int64_t> otherwise) const;
};

enum class Container { kSequence, kOptional };

struct Port {
  std::string name;
  std::vector<int64_t> shape;  ///< a symbolic or missing dimension is -1
  bool float32 = true;         ///< a tensor of float32
  bool has_shape = false;
  int32_t element = 1;                     ///< TensorProto.DataType of its tensors
  std::vector<Container> containers = {};  ///< what its tensors are in, the outermost first
};

/// A graph or a subgraph.
struct Body {
  std::vector<Node> nodes;
  std::unordered_map<std::string, at::Tensor>
      constants;                      ///< initializers, float64/32, integers, bool
  std::vector<Port> inputs, outputs;  ///< inputs without the initializers
};

struct Graph : Body {
  std::string path;   ///< for messages
  int64_t opset = 0;  ///< of ai.onnx
  int64_t opset_ml = 0;
};

/// The oldest and the newest opset of ai.onnx that is read.
constexpr int64_t kOldestOpset = 1, kNewestOpset = 26;

/// Reads a serialised ModelProto; external data is looked for in the folder of `path` and nowhere
/// else. Throws Error{kParse, "path: ..."} when the bytes are no ONNX model, are cut off, an
/// initializer's size does not fit its shape, has NaN values or a name that is taken; kUnsupported
/// for sparse tensors, unknown opsets, subgraphs more than 32 deep, strings and complex numbers;
/// kNotFound for external data that is not there.
[[nodiscard]] Graph parse_graph(std::string_view bytes, const std::string& path);

}  // namespace grapeshot::onnx
