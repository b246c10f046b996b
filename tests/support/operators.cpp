#include "tests/support/operators.h"

#include <utility>

namespace grapeshot::testing {
namespace {

using Attributes = std::vector<onnx::Attribute>;
using Shape = std::vector<int64_t>;

// `op` applied to the input, and to `more` constants.
OperatorNet unary(const std::string& op, const std::string& setting, Shape shape,
                  Attributes attributes = {}, const std::vector<at::Tensor>& more = {},
                  int64_t opset = 13) {
  Net net(std::move(shape), opset);
  std::vector<std::string> inputs = {"x"};
  for (const at::Tensor& t : more) {
    inputs.push_back("c" + std::to_string(inputs.size()));
    net.constant(inputs.back(), t);
  }
  net.add(op, inputs, "y", std::move(attributes));
  return {op, setting, net.graph()};
}

void add_arithmetic(std::vector<OperatorNet>& out) {
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    out.push_back(unary(op, "vector", {2, 3}, {}, {weights({3}) + 2.}));
    out.push_back(unary(op, "more axes than the input", {3}, {}, {weights({4, 2, 3}) + 2.}));
    out.push_back(unary(op, "scalar", {1, 2, 2}, {}, {at::tensor(1.5f)}));
    Net both({2, 3});
    both.add("Sigmoid", {"x"}, "s").constant("k", weights({2, 1}) + 3.);
    both.add(op, {"k", "s"}, "t").add(op, {"x", "t"}, "y");
    out.push_back({op, "constant first, and two that depend on the input", both.graph()});
    Net ranks({3});
    ranks.constant("to", at::tensor({1, 3, 1}, at::kLong)).add("Reshape", {"x", "to"}, "r");
    ranks.add("Sigmoid", {"x"}, "s").add(op, {"r", "s"}, "y");
    out.push_back({op, "two of different ranks that depend on the input", ranks.graph()});
  }
}

void add_functions(std::vector<OperatorNet>& out) {
  for (const char* op :
       {"Floor", "Relu", "Round", "Sigmoid", "Sign", "Tanh", "Identity", "Dropout"}) {
    out.push_back(unary(op, "vector", {5}));
    out.push_back(unary(op, "three axes", {2, 3, 2}));
  }
  out.push_back(unary("LeakyRelu", "its own slope", {1, 6}));
  out.push_back(unary("LeakyRelu", "alpha", {1, 6}, {real("alpha", 0.3f)}));
  out.push_back(unary("Softmax", "last axis", {2, 3}));
  out.push_back(unary("Softmax", "axis 0", {2, 3}, {integer("axis", 0)}));
  out.push_back(unary("Softmax", "of the rest, opset 11", {2, 3, 2}, {integer("axis", 1)}, {}, 11));
  out.push_back(unary("Softmax", "of everything, opset 11", {2, 3}, {integer("axis", 0)}, {}, 11));
}

void add_products(std::vector<OperatorNet>& out) {
  out.push_back(unary("MatMul", "a weight matrix", {1, 4}, {}, {weights({4, 3})}));
  out.push_back(unary("MatMul", "several rows of their own", {5, 4}, {}, {weights({4, 3})}));
  out.push_back(unary("MatMul", "a vector", {4}, {}, {weights({4, 3})}));
  out.push_back(unary("MatMul", "by a vector", {2, 4}, {}, {weights({4})}));
  out.push_back(unary("MatMul", "a stack of matrices", {2, 3, 4}, {}, {weights({2, 4, 3})}));
  out.push_back(unary("MatMul", "one matrix by a stack", {3, 4}, {}, {weights({2, 4, 5})}));
  Net left({4, 2});
  left.constant("w", weights({3, 4})).add("MatMul", {"w", "x"}, "y");
  out.push_back({"MatMul", "constant first", left.graph()});
  Net square({3, 3});
  square.add("Tanh", {"x"}, "t").add("MatMul", {"x", "t"}, "y");
  out.push_back({"MatMul", "two that depend on the input", square.graph()});

  out.push_back(unary("Gemm", "plain", {1, 4}, {}, {weights({4, 3})}));
  out.push_back(
      unary("Gemm", "bias", {2, 4}, {integer("transB", 1)}, {weights({3, 4}), weights({3})}));
  out.push_back(unary("Gemm", "alpha, beta, a matrix added", {2, 4},
                      {real("alpha", 0.5f), real("beta", 2.f)},
                      {weights({4, 3}), weights({2, 3})}));
  out.push_back(
      unary("Gemm", "transA", {4, 2}, {integer("transA", 1)}, {weights({4, 3}), weights({3})}));
  Net c({2, 3});
  c.constant("a", weights({2, 4})).constant("b", weights({4, 3}));
  c.add("Gemm", {"a", "b", "x"}, "y", {real("beta", 0.5f)});
  out.push_back({"Gemm", "the input added", c.graph()});
  Net ab({3, 3});
  ab.add("Tanh", {"x"}, "t").add("Gemm", {"t", "x"}, "y", {integer("transB", 1)});
  out.push_back({"Gemm", "two that depend on the input", ab.graph()});
}

void add_windows(std::vector<OperatorNet>& out) {
  out.push_back(unary("Conv", "padded, with a bias", {1, 2, 5, 5}, {integers("pads", {1, 1, 1, 1})},
                      {weights({3, 2, 3, 3}), weights({3})}));
  out.push_back(unary(
      "Conv", "strides, dilations, unequal pads", {1, 2, 7, 6},
      {integers("strides", {2, 1}), integers("dilations", {1, 2}), integers("pads", {0, 1, 1, 2})},
      {weights({3, 2, 3, 2})}));
  out.push_back(unary("Conv", "groups, one axis, a batch of 2", {2, 4, 6}, {integer("group", 2)},
                      {weights({6, 2, 3}), weights({6})}));
  out.push_back(unary("Conv", "SAME_UPPER, three axes", {1, 1, 3, 4, 3},
                      {word("auto_pad", "SAME_UPPER")}, {weights({2, 1, 2, 2, 2})}));
  out.push_back(unary("Conv", "SAME_LOWER, strides", {1, 6, 5, 5},
                      {word("auto_pad", "SAME_LOWER"), integers("strides", {2, 2})},
                      {weights({2, 6, 2, 2})}));
  for (const char* op : {"MaxPool", "AveragePool"}) {
    out.push_back(unary(op, "strides", {1, 2, 6, 6},
                        {integers("kernel_shape", {2, 2}), integers("strides", {2, 2})}));
    out.push_back(unary(op, "padding, a batch of 3, one axis", {3, 2, 5},
                        {integers("kernel_shape", {3}), integers("pads", {1, 1})}));
  }
  out.push_back(unary("MaxPool", "unequal padding, dilations", {1, 1, 6, 6},
                      {integers("kernel_shape", {2, 2}), integers("pads", {0, 1, 1, 1}),
                       integers("dilations", {2, 1})}));
  out.push_back(unary("AveragePool", "unequal padding that counts", {1, 1, 5, 5},
                      {integers("kernel_shape", {2, 2}), integers("pads", {0, 1, 1, 0}),
                       integer("count_include_pad", 1)}));
  out.push_back(unary("GlobalAveragePool", "two axes", {1, 3, 4, 2}));
  out.push_back(unary("GlobalAveragePool", "a batch of 2, one axis", {2, 3, 4}));
  const std::vector<at::Tensor> statistics = {weights({3}, 1), weights({3}, 2), weights({3}, 3),
                                              weights({3}, 4).abs() + 0.1};
  out.push_back(
      unary("BatchNormalization", "images", {1, 3, 2, 2}, {real("epsilon", 0.01f)}, statistics));
  out.push_back(unary("BatchNormalization", "units, a batch of 2", {2, 3}, {}, statistics));
}

void add_shapes(std::vector<OperatorNet>& out) {
  out.push_back(unary("Flatten", "axis 1", {2, 3, 2}));
  out.push_back(unary("Flatten", "axis 0", {2, 3}, {integer("axis", 0)}));
  out.push_back(unary("Flatten", "axis -1", {2, 3, 2}, {integer("axis", -1)}));
  out.push_back(unary("Reshape", "inferred", {1, 6}, {}, {at::tensor({1, 2, -1}, at::kLong)}));
  out.push_back(unary("Reshape", "a copied axis", {2, 6}, {}, {at::tensor({0, 3, 2}, at::kLong)}));
  out.push_back(unary("Reshape", "to a vector", {1, 6}, {}, {at::tensor({-1}, at::kLong)}));
  out.push_back(unary("Transpose", "reversed", {2, 3, 4}));
  out.push_back(unary("Transpose", "perm", {2, 3, 4}, {integers("perm", {1, 0, 2})}));
  for (const bool vector : {false, true}) {
    Net net({1, 3});
    net.add("Constant", {}, "k",
            {vector ? tensor("value", weights({3})) : real("value_float", 0.25f)});
    net.add("Add", {"x", "k"}, "y");
    out.push_back({"Constant", vector ? "tensor" : "number", net.graph()});
  }
}

}  // namespace

std::vector<OperatorNet> operator_nets() {
  std::vector<OperatorNet> out;
  add_arithmetic(out);
  add_functions(out);
  add_products(out);
  add_windows(out);
  add_shapes(out);
  return out;
}

}  // namespace grapeshot::testing
