#include "grapeshot/io/onnx/model.h"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"
#include "tests/support/nets.h"
#include "tests/support/onnx_bytes.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::Graph;
using onnx::OnnxModel;

namespace {

std::string refusal(ErrorCode code, const Graph& graph) {
  return message_of(code, [&] { OnnxModel{graph}; });
}

at::Tensor inputs(const OnnxModel& model, int64_t n) {
  return weights({n, model.inputs()}, 99);
}

/// Outputs of one row.
std::vector<float> at_row(const OnnxModel& model, const std::vector<float>& x) {
  const at::Tensor row = vector(x).unsqueeze(0);
  const std::vector<float> y = floats(model.forward(row, Head::kOutputs));
  CHECK(floats(model.evaluate(row)) == y);
  return y;
}

}  // namespace

TEST_CASE("OnnxModel: by hand, a layer with a bias and a ReLU") {
  Net net({1, 2});
  net.constant("w", matrix(2, 2, {1.f, -1.f, 2.f, 0.5f})).constant("b", vector({-1.f, 0.f}));
  net.add("MatMul", {"x", "w"}, "m").add("Add", {"m", "b"}, "a").add("Relu", {"a"}, "y");
  const OnnxModel model(net.graph());
  CHECK(model.name() == "net.onnx");
  CHECK(model.inputs() == 2);
  CHECK(model.outputs() == 2);
  CHECK(model.macs() == 4);
  CHECK(!model.has_logits());
  CHECK(!model.has_surrogates());
  CHECK(model.fallback().empty());
  // 1 + 2 * 2 - 1; -1 + 0.5 * 2.
  CHECK(at_row(model, {1.f, 2.f}) == std::vector<float>{4.f, 0.f});
  CHECK(at_row(model, {-1.f, 0.f}) == std::vector<float>{0.f, 1.f});
}

TEST_CASE("OnnxModel: all unsupported operators are named at once, each with its first node") {
  Net net({1, 2});
  net.add("Foo", {"x"}, "f").add("Relu", {"f"}, "r").add("Bar", {"r"}, "b").add("Foo", {"b"}, "y");
  net.edit().nodes[2].domain = "com.example";
  CHECK(
      refusal(ErrorCode::kUnsupported, net.graph()) ==
      "net.onnx: 2 operators are not supported at opset 13: Foo (node 'f'), com.example.Bar (node "
      "'b'); `grapeshot list operators` shows what is");
}

TEST_CASE("OnnxModel: an operator older than its implementation is not supported") {
  Net net({1, 2}, 6);
  net.add("Add", {"x", "x"}, "y");
  CHECK(refusal(ErrorCode::kUnsupported, net.graph())
            .starts_with("net.onnx: 1 operator is not supported at opset 6: Add (node 'y'); "));
}

TEST_CASE("OnnxModel: nodes that the output does not need are not asked for") {
  Net net({1, 2});
  net.add("Foo", {"x"}, "unused").add("Relu", {"x"}, "y");
  CHECK(at_row(OnnxModel(net.graph()), {-1.f, 3.f}) == std::vector<float>{0.f, 3.f});
}

TEST_CASE("OnnxModel: nodes may come in any order") {
  Net net({1, 2});
  net.constant("k", vector({10.f}));
  net.add("Add", {"r", "k"}, "y").add("Relu", {"x"}, "r");
  Graph graph = net.graph();
  graph.outputs[0].name = "y";
  CHECK(at_row(OnnxModel(graph), {-1.f, 3.f}) == std::vector<float>{10.f, 13.f});
}

TEST_CASE("OnnxModel: a graph with loose ends is refused") {
  Net dangling({1, 2});
  dangling.add("Add", {"x", "nowhere"}, "y");
  CHECK(refusal(ErrorCode::kParse, dangling.graph()) ==
        "net.onnx: node 'y' reads 'nowhere', which nothing writes");

  Net output({1, 2});
  output.add("Relu", {"x"}, "y");
  Graph graph = output.graph();
  graph.outputs[0].name = "z";
  CHECK(refusal(ErrorCode::kParse, graph) == "net.onnx: the output 'z' is written by no node");

  Net cyclic({1, 2});
  cyclic.add("Add", {"x", "c"}, "a").add("Relu", {"a"}, "b").add("Relu", {"b"}, "c");
  CHECK(refusal(ErrorCode::kParse, cyclic.graph()) ==
        "net.onnx: node 'c' depends on its own output");

  Net twice({1, 2});
  twice.add("Relu", {"x"}, "y").add("Sigmoid", {"x"}, "y");
  twice.edit().nodes[1].name = "other";
  CHECK(refusal(ErrorCode::kParse, twice.graph()) ==
        "net.onnx: node 'other' writes 'y', which another node writes too");
}

TEST_CASE("OnnxModel: a node without an input that it needs is refused") {
  Net none({1, 2});
  none.add("Relu", {}, "y");
  CHECK(refusal(ErrorCode::kParse, none.graph()) ==
        "net.onnx: node 'y' (Relu) has 0 inputs, it needs 1");
  Net hole({1, 2});
  hole.constant("b", vector({1.f})).add("Gemm", {"x", "", "b"}, "y");
  CHECK(refusal(ErrorCode::kParse, hole.graph()) ==
        "net.onnx: node 'y' (Gemm) has 1 inputs, it needs 2");
}

TEST_CASE("OnnxModel: an output that no operator computes can be named, not read") {
  Net net({1, 1, 4});
  net.add("MaxPool", {"x"}, "y", {integers("kernel_shape", {2})});
  net.edit().nodes[0].outputs.push_back("");
  CHECK(OnnxModel(net.graph()).outputs() == 3);
  net.edit().nodes[0].op = "Relu";
  net.edit().nodes[0].outputs[1] = "extra";
  CHECK(OnnxModel(net.graph()).outputs() == 4);
  net.add("Sigmoid", {"extra"}, "z");
  CHECK(refusal(ErrorCode::kUnsupported, net.graph()) ==
        "net.onnx: node 'z' reads 'extra', which is not computed");
}

TEST_CASE("OnnxModel: several inputs and outputs are one row each, in the file's order") {
  Net net({1, 2});
  net.add("Relu", {"x"}, "y").add("Concat", {"x2", "x"}, "both", {integer("axis", -1)});
  Graph graph = net.graph();
  graph.inputs.push_back({.name = "x2", .shape = {1, 1}, .float32 = true, .has_shape = true});
  graph.outputs = {{.name = "both", .shape = {}}, {.name = "y", .shape = {}}};
  const OnnxModel model(graph);
  CHECK(model.inputs() == 3);
  CHECK(model.outputs() == 5);
  CHECK(at_row(model, {1.f, -2.f, 3.f}) == std::vector<float>{3.f, 1.f, -2.f, 1.f, 0.f});
  CHECK(model.network().outputs[1].name == "y");
  CHECK(model.network().outputs[1].begin == 3);
}

TEST_CASE("OnnxModel: float32 inputs of a known rank, one at least, and an output") {
  Net net({1, 2});
  net.add("Relu", {"x"}, "y");
  Graph none = net.graph();
  none.inputs.clear();
  CHECK(refusal(ErrorCode::kUnsupported, none) ==
        "net.onnx: the model has 0 inputs and 1 outputs; it needs one of each at least");
  Graph integral = net.graph();
  integral.inputs[0].float32 = false;
  CHECK(refusal(ErrorCode::kUnsupported, integral) == "net.onnx: input 'x' is not float32");
  Graph shapeless = net.graph();
  shapeless.inputs[0].has_shape = false;
  CHECK(refusal(ErrorCode::kUnsupported, shapeless) == "net.onnx: input 'x' has no shape");
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1 << 20, 1 << 20}, {int64_t{1} << 62, 4}}) {
    Graph huge = net.graph();
    huge.inputs[0].shape = shape;
    CHECK(refusal(ErrorCode::kUnsupported, huge) ==
          "net.onnx: input 'x' has more than 268435456 values");
  }
}

TEST_CASE("OnnxModel: shapes that do not fit are refused with the node's name") {
  Net net({1, 2});
  net.constant("w", weights({3, 2})).add("MatMul", {"x", "w"}, "y");
  CHECK(refusal(ErrorCode::kInvalidArgument, net.graph())
            .starts_with("net.onnx: node 'y' (MatMul, opset 13): "));
  Net reshape({1, 5});
  reshape.constant("shape", indices({1, 2, -1})).add("Reshape", {"x", "shape"}, "y");
  CHECK(refusal(ErrorCode::kInvalidArgument, reshape.graph()) ==
        "net.onnx: node 'y' (Reshape, opset 13): 5 values do not fit the shape");
}

TEST_CASE("OnnxModel: symbolic dimensions are 1") {
  Net net({-1, 3});
  net.add("Relu", {"x"}, "y");
  const OnnxModel model(net.graph());
  CHECK(model.input_shape() == std::vector<int64_t>{1, 3});
  CHECK(model.output_shape() == std::vector<int64_t>{1, 3});
}

TEST_CASE("OnnxModel: a batch of 1 baked into Reshape and Flatten holds any number of rows") {
  Net net({1, 2, 3});
  net.constant("flat", indices({1, 6})).constant("back", indices({1, 3, 2}));
  net.constant("w", weights({6, 6}));
  net.add("Reshape", {"x", "flat"}, "f").add("MatMul", {"f", "w"}, "m");
  net.add("Reshape", {"m", "back"}, "b").add("Flatten", {"b"}, "y");
  const OnnxModel model(net.graph());
  CHECK(model.fallback().empty());
  const at::Tensor x = inputs(model, 5);
  CHECK(relative_gap(model.forward(x, Head::kOutputs), x.mm(weights({6, 6}))) < 1e-6);
}

TEST_CASE("OnnxModel: inputs without a batch axis, of any rank") {
  Net matrix_input({12, 8});
  matrix_input.constant("w", weights({8, 4})).add("MatMul", {"x", "w"}, "y");
  const OnnxModel rows(matrix_input.graph());
  CHECK(rows.inputs() == 96);
  CHECK(rows.outputs() == 48);
  CHECK(rows.macs() == 12 * 8 * 4);
  const at::Tensor x = inputs(rows, 3);
  CHECK(relative_gap(rows.forward(x, Head::kOutputs),
                     at::matmul(x.reshape({3, 12, 8}), weights({8, 4})).reshape({3, 48})) < 1e-6);

  Net vector_input({4});
  vector_input.constant("w", weights({4, 2}))
      .add("MatMul", {"x", "w"}, "m")
      .add("Relu", {"m"}, "y");
  const OnnxModel flat(vector_input.graph());
  CHECK(flat.inputs() == 4);
  CHECK(flat.outputs() == 2);
  const at::Tensor v = inputs(flat, 6);
  CHECK(relative_gap(flat.forward(v, Head::kOutputs), v.mm(weights({4, 2})).relu()) < 1e-6);

  Net scalar({});
  scalar.constant("two", at::tensor(2.f)).add("Mul", {"x", "two"}, "y");
  const OnnxModel number(scalar.graph());
  CHECK(number.inputs() == 1);
  CHECK(number.outputs() == 1);
  CHECK(floats(number.forward(matrix(3, 1, {1.f, 2.f, 3.f}), Head::kOutputs)) ==
        std::vector<float>{2.f, 4.f, 6.f});
}

TEST_CASE("OnnxModel: a scalar output is one output") {
  Net net({3});
  net.constant("w", vector({1.f, 2.f, 3.f})).add("MatMul", {"x", "w"}, "y");
  const OnnxModel model(net.graph());
  CHECK(model.output_shape().empty());
  CHECK(model.outputs() == 1);
  CHECK(floats(model.forward(matrix(2, 3, {1.f, 1.f, 1.f, 0.f, 0.f, 2.f}), Head::kOutputs)) ==
        std::vector<float>{6.f, 6.f});
}

TEST_CASE("OnnxModel: an output that does not depend on the input is the same for all rows") {
  Net net({1, 2});
  net.constant("k", vector({1.f, -2.f})).add("Relu", {"k"}, "y");
  const OnnxModel model(net.graph());
  const at::Tensor x = inputs(model, 3);
  CHECK(floats(model.forward(x, Head::kOutputs)) ==
        std::vector<float>{1.f, 0.f, 1.f, 0.f, 1.f, 0.f});
  CHECK(floats(model.evaluate(x)) == std::vector<float>{1.f, 0.f, 1.f, 0.f, 1.f, 0.f});
  const Gradient g = model.gradient(x, Head::kOutputs, Surrogate::kLoose,
                                    [](const at::Tensor& y) { return at::ones_like(y); });
  CHECK(at::equal(g.x, at::zeros_like(x)));
  CHECK(model.trace(x, Head::kOutputs, {}).y.sizes() == at::IntArrayRef({3, 2}));
}

TEST_CASE("OnnxModel: the input itself as the output") {
  Net net({1, 2});
  const OnnxModel model(net.graph());
  const at::Tensor x = inputs(model, 3);
  CHECK(at::equal(model.forward(x, Head::kOutputs), x));
  Net named({1, 2});
  named.add("Identity", {"x"}, "y");
  CHECK(at::equal(OnnxModel(named.graph()).forward(x, Head::kOutputs), x));
}

TEST_CASE("OnnxModel: no rows in, no rows out") {
  for (const Net& net : {mlp(), cnn()}) {
    const OnnxModel model(net.graph());
    const at::Tensor x = at::zeros({0, model.inputs()});
    CHECK(model.forward(x, Head::kOutputs).sizes() == at::IntArrayRef({0, model.outputs()}));
    CHECK(model.evaluate(x).sizes() == at::IntArrayRef({0, model.outputs()}));
    const Gradient g = model.gradient(x, Head::kOutputs, Surrogate::kLoose,
                                      [](const at::Tensor& y) { return at::ones_like(y); });
    CHECK(g.x.sizes() == x.sizes());
  }
}

TEST_CASE("OnnxModel: constants computed from constants are folded, and the input's path kept") {
  Net net({1, 2});
  net.constant("a", vector({2.f})).constant("b", vector({3.f}));
  net.add("Mul", {"a", "b"}, "c").add("Constant", {}, "k", {real("value_float", 1.f)});
  net.add("Add", {"c", "k"}, "d").add("Mul", {"x", "d"}, "y");
  const OnnxModel model(net.graph());
  CHECK(model.network().nodes.size() == 1);
  CHECK(at_row(model, {1.f, 10.f}) == std::vector<float>{7.f, 70.f});
}

TEST_CASE("OnnxModel: float64 evaluation agrees with float32, and is finer") {
  for (const Net& net : {mlp(), cnn()}) {
    const OnnxModel model(net.graph());
    const at::Tensor x = inputs(model, 4) / 3.;
    const at::Tensor y64 = model.evaluate(x.to(at::kDouble));
    CHECK((y64.scalar_type() == at::kDouble));
    CHECK(relative_gap(model.evaluate(x), y64) < 1e-5);
    CHECK(relative_gap(model.forward(x, Head::kOutputs), y64) < 1e-5);
    CHECK(!at::equal(model.evaluate(x).to(at::kDouble), y64));
    CHECK(relative_gap(model.forward_unlowered(x.to(at::kDouble)), y64) < 1e-12);
  }
}

TEST_CASE("OnnxModel: gradients agree with finite differences in float64") {
  for (const Net& net : {mlp(), cnn()}) {
    const OnnxModel model(net.graph());
    const int64_t n = 3;
    const at::Tensor x = inputs(model, n) / 3., v = weights({n, model.outputs()}, 4);
    at::Tensor seen;
    const Gradient g =
        model.gradient(x, Head::kOutputs, Surrogate::kLoose, [&](const at::Tensor& y) {
          seen = y;
          return v;
        });
    CHECK(!g.y.requires_grad());
    CHECK(at::equal(seen, g.y));
    CHECK(relative_gap(g.y, model.forward(x, Head::kOutputs)) < 1e-6);
    const at::Tensor wide = x.to(at::kDouble);
    const auto value = [&](const at::Tensor& at) { return (model.evaluate(at) * v).sum(1); };
    for (int64_t k = 0; k < model.inputs(); k += 5) {
      at::Tensor step = at::zeros({1, model.inputs()}, at::kDouble);
      step.select(1, k).fill_(1e-6);
      const at::Tensor slope = (value(wide + step) - value(wide - step)) / 2e-6;
      CHECK(relative_gap(g.x.select(1, k), slope) < 1e-4);
    }
  }
}

TEST_CASE("OnnxModel: logits are what a final softmax over all outputs is applied to") {
  for (const bool whole : {true, false}) {
    Net net({1, 4});
    net.constant("w", weights({4, 6})).constant("shape", indices({1, whole ? 6 : 2, -1}));
    net.add("MatMul", {"x", "w"}, "m").add("Reshape", {"m", "shape"}, "r");
    net.add("Softmax", {"r"}, "y", {integer("axis", 1)});
    const OnnxModel model(net.graph());
    CHECK(model.has_logits() == whole);
    const at::Tensor x = inputs(model, 3);
    if (!whole) {
      CHECK(at::equal(model.forward(x, Head::kLogits), model.forward(x, Head::kOutputs)));
      continue;
    }
    const at::Tensor logits = x.mm(weights({4, 6}));
    CHECK(relative_gap(model.forward(x, Head::kLogits), logits) < 1e-6);
    CHECK(relative_gap(model.trace(x, Head::kLogits, {}).y, logits) < 1e-6);
    CHECK(relative_gap(model.forward(x, Head::kOutputs), at::softmax(logits, 1)) < 1e-6);
    CHECK(relative_gap(model.evaluate(x), at::softmax(logits, 1)) < 1e-6);
    const Gradient g = model.gradient(x, Head::kLogits, Surrogate::kLoose,
                                      [](const at::Tensor& y) { return at::ones_like(y); });
    CHECK(relative_gap(g.y, logits) < 1e-6);
    CHECK(relative_gap(g.x, weights({4, 6}).sum(1).expand({3, 4})) < 1e-6);
  }
}

TEST_CASE("load_model: plain and gzipped files give the same network; errors name the file") {
  const TemporaryFolder folder;
  const std::string bytes = model_bytes(mlp().graph());
  const auto plain = onnx::load_model(folder.write("a.onnx", bytes));
  folder.write("b.onnx.gz", gzip(bytes));
  const auto zipped = onnx::load_model(folder.file("b.onnx"));
  const at::Tensor x = inputs(*plain, 2);
  CHECK(at::equal(plain->evaluate(x), zipped->evaluate(x)));
  CHECK(plain->name().ends_with("a.onnx"));
  const std::string cut =
      folder.write("cut.onnx", std::string_view(bytes).substr(0, bytes.size() / 2));
  CHECK(
      message_of(ErrorCode::kParse, [&] { (void)onnx::load_model(cut); }).starts_with(cut + ": "));
  CHECK(error_of([&] { (void)onnx::load_model(folder.file("none.onnx")); }).code() ==
        ErrorCode::kNotFound);
}

TEST_CASE("OnnxModel: up to opset 12 a softmax is over all that follows its axis") {
  for (const int64_t opset : {11, 13}) {
    Net net({2, 2, 3}, opset);
    net.add("Softmax", {"x"}, "y", {integer("axis", 1)});
    const std::vector<float> y = floats(OnnxModel(net.graph()).evaluate(at::zeros({1, 12})));
    for (const float each : y) CHECK(near(each, opset == 11 ? 1. / 6. : 1. / 2., 1e-6));
  }
}
