// tests/support/nets.h: small ONNX networks in memory, without files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/io/onnx/graph.h"

namespace grapeshot::testing {

inline onnx::Attribute integer(std::string name, int64_t value) {
  onnx::Attribute a;
  a.name = std::move(name);
  a.i = value;
  return a;
}

inline onnx::Attribute real(std::string name, float value) {
  onnx::Attribute a;
  a.name = std::move(name);
  a.f = value;
  return a;
}

inline onnx::Attribute word(std::string name, std::string value) {
  onnx::Attribute a;
  a.name = std::move(name);
  a.s = std::move(value);
  return a;
}

inline onnx::Attribute integers(std::string name, std::vector<int64_t> values) {
  onnx::Attribute a;
  a.name = std::move(name);
  a.ints = std::move(values);
  return a;
}

inline onnx::Attribute tensor(std::string name, at::Tensor value) {
  onnx::Attribute a;
  a.name = std::move(name);
  a.tensor = std::move(value);
  return a;
}

/// Weights that are the same in every run: multiples of 1/64 between -1 and 1.
inline at::Tensor weights(const std::vector<int64_t>& shape, uint64_t seed = 1) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  at::Tensor t = at::empty({count});
  uint64_t state = seed;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    t.mutable_data_ptr<float>()[i] = (static_cast<float>(state >> 57) - 64.f) / 64.f;
  }
  return t.reshape(shape);
}

/// A network from "x" on, node by node; the last node's output is the network's.
class Net {
 public:
  explicit Net(std::vector<int64_t> input_shape, int64_t opset = 13) {
    graph_.path = "net.onnx";
    graph_.opset = opset;
    graph_.inputs = {
        {.name = "x", .shape = std::move(input_shape), .float32 = true, .has_shape = true}};
  }

  Net& constant(const std::string& name, const at::Tensor& value) {
    graph_.constants[name] = value.contiguous();
    return *this;
  }

  /// The node is called after its output.
  Net& add(std::string op, std::vector<std::string> inputs, std::string output,
           std::vector<onnx::Attribute> attributes = {}) {
    onnx::Node node;
    node.op = std::move(op);
    node.name = output;
    node.inputs = std::move(inputs);
    node.outputs = {std::move(output)};
    node.attributes = std::move(attributes);
    graph_.nodes.push_back(std::move(node));
    return *this;
  }

  [[nodiscard]] onnx::Graph graph() const {
    onnx::Graph out = graph_;
    if (out.outputs.empty()) {
      const std::string name = out.nodes.empty() ? "x" : out.nodes.back().outputs[0];
      out.outputs = {{.name = name, .shape = {}, .float32 = true, .has_shape = false}};
    }
    return out;
  }

  /// For what the other functions cannot say.
  onnx::Graph& edit() { return graph_; }

 private:
  onnx::Graph graph_;
};

/// 6 inputs, two hidden layers with ReLU, 3 outputs.
inline Net mlp() {
  Net net({1, 6});
  net.constant("w1", weights({6, 8}, 1)).constant("b1", weights({8}, 2));
  net.constant("w2", weights({5, 8}, 3)).constant("b2", weights({5}, 4));
  net.constant("w3", weights({5, 3}, 5));
  net.add("MatMul", {"x", "w1"}, "m1").add("Add", {"m1", "b1"}, "a1").add("Relu", {"a1"}, "r1");
  net.add("Gemm", {"r1", "w2", "b2"}, "g2", {integer("transB", 1)}).add("Relu", {"g2"}, "r2");
  net.add("MatMul", {"r2", "w3"}, "y");
  return net;
}

/// A 2 x 6 x 6 image, Conv, BatchNormalization, ReLU, MaxPool and a fully connected layer of 4
/// units.
inline Net cnn() {
  Net net({1, 2, 6, 6});
  net.constant("w", weights({3, 2, 3, 3}, 1)).constant("b", weights({3}, 2));
  net.constant("scale", weights({3}, 3)).constant("shift", weights({3}, 4));
  net.constant("mean", weights({3}, 5)).constant("variance", weights({3}, 6).abs() + 0.5);
  net.constant("shape", at::tensor({1, -1}, at::kLong));
  net.constant("v", weights({4, 27}, 7)).constant("c", weights({4}, 8));
  net.add("Conv", {"x", "w", "b"}, "conv", {integers("pads", {1, 1, 1, 1})});
  net.add("BatchNormalization", {"conv", "scale", "shift", "mean", "variance"}, "bn");
  net.add("Relu", {"bn"}, "relu");
  net.add("MaxPool", {"relu"}, "pool",
          {integers("kernel_shape", {2, 2}), integers("strides", {2, 2})});
  net.add("Reshape", {"pool", "shape"}, "flat");
  net.add("Gemm", {"flat", "v", "c"}, "y", {integer("transB", 1)});
  return net;
}

}  // namespace grapeshot::testing
