// A batch gives what its rows give one by one: for every operator, and for networks that are made
// to break that.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/io/onnx/model.h"
#include "tests/support/nets.h"
#include "tests/support/operators.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::OnnxModel;

namespace {

template <class Work>
at::Tensor row_by_row(const at::Tensor& x, Work work) {
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < x.size(0); ++i) rows.push_back(work(x.slice(0, i, i + 1)));
  return at::cat(rows);
}

at::Tensor slope(const OnnxModel& model, const at::Tensor& x) {
  return model
      .gradient(x, Head::kOutputs, Surrogate::kLoose,
                [](const at::Tensor& y) { return at::cos(y); })
      .x;
}

// x minus the mean of the batch: what no row could know.
onnx::Values minus_mean(const onnx::Call& call) {
  const at::Tensor& x = call.in[0].t;
  return {onnx::Value{x - x.mean(0, true), true}};
}

onnx::Network mixing_network() {
  onnx::Network network = OnnxModel(mlp().graph()).network();
  onnx::Node node;
  node.op = "MinusMean";
  node.name = "mix";
  node.inputs = {network.output};
  node.outputs = {"mixed"};
  network.nodes.push_back({node, minus_mean});
  network.output = "mixed";
  return network;
}

}  // namespace

TEST_CASE("operators: each has a summary and a name of its own") {
  std::set<std::string_view> names;
  for (const onnx::Operator& op : onnx::operators()) {
    CAPTURE(op.name);
    CHECK(!op.summary.empty());
    CHECK(names.insert(op.name).second);
  }
}

TEST_CASE("operators: what a row alone decides runs row by row and is named") {
  // Both rows keep two of four values, from their own place on.
  Net net({4});
  net.constant("zero", at::tensor({0}, at::kLong)).constant("two", at::tensor({2}, at::kLong));
  net.add("Slice", {"x", "zero", "two"}, "first").add("ReduceSum", {"first"}, "sum");
  net.add("Cast", {"sum"}, "start", {integer("to", 7)});
  net.add("Add", {"start", "two"}, "end").add("Slice", {"x", "start", "end"}, "y");
  net.edit().nodes[1].attributes = {integer("keepdims", 0)};
  net.edit().nodes[2].inputs = {"sum1"};
  net.edit().nodes.insert(net.edit().nodes.begin() + 2, net.edit().nodes[1]);
  net.edit().nodes[2].op = "Reshape";
  net.edit().nodes[2].name = "sum1";
  net.edit().nodes[2].inputs = {"sum", "one"};
  net.edit().nodes[2].outputs = {"sum1"};
  net.edit().nodes[2].attributes.clear();
  net.constant("one", at::tensor({1}, at::kLong));
  const OnnxModel model(net.graph());
  CHECK(model.islands() == std::vector<std::string>{"'y' (Slice)"});
  CHECK(model.fallback().empty());
  const at::Tensor x = matrix(2, 4, {0.f, 0.f, 3.f, 4.f, 0.5f, 1.f, 7.f, 8.f});
  const at::Tensor y = model.forward(x, Head::kOutputs);
  CHECK(at::equal(y, matrix(2, 2, {0.f, 0.f, 1.f, 7.f})));
  CHECK(at::equal(model.evaluate(x), y));
  CHECK(model.forward(x.slice(0, 0, 0), Head::kOutputs).sizes() == at::IntArrayRef({0, 2}));
}

TEST_CASE("operators: a batch gives what its rows give, values, gradients and float64") {
  for (const OperatorNet& net : operator_nets()) {
    CAPTURE(net.op);
    CAPTURE(net.setting);
    const OnnxModel model(net.graph);
    CHECK(model.fallback().empty());
    const at::Tensor x = weights({7, model.inputs()}, 5) * 3.;
    const at::Tensor alone =
        row_by_row(x, [&](const at::Tensor& row) { return model.evaluate(row); });
    CHECK(alone.sizes() == at::IntArrayRef({7, model.outputs()}));
    CHECK(relative_gap(model.forward_unlowered(x), alone) < 1e-5);
    CHECK(relative_gap(model.forward(x, Head::kOutputs), alone) < 1e-5);
    CHECK(relative_gap(model.trace(x, Head::kOutputs, {}).y, alone) < 1e-5);
    CHECK(relative_gap(alone, model.evaluate(x.to(at::kDouble))) < 1e-5);
    const at::Tensor slopes =
        row_by_row(x, [&](const at::Tensor& row) { return slope(model, row); });
    CHECK(relative_gap(slope(model, x), slopes) < 1e-4);
    // A row's values do not depend on where it stands either.
    CHECK(relative_gap(model.forward(x.flip(0), Head::kOutputs).flip(0), alone) < 1e-5);
  }
}

TEST_CASE("operators: gradients agree with finite differences, surrogates aside") {
  for (const OperatorNet& net : operator_nets()) {
    if (net.op == "Sign" || net.op == "Round" || net.op == "Floor") continue;
    CAPTURE(net.op);
    CAPTURE(net.setting);
    const OnnxModel model(net.graph);
    // Not on a multiple of 1/64, so that ReLU and MaxPool have no kink near.
    const at::Tensor x =
        weights({2, model.inputs()}, 8) * 2. + 0.0078125 * weights({model.inputs()}, 9);
    const at::Tensor v = weights({2, model.outputs()}, 7);
    const at::Tensor g =
        model.gradient(x, Head::kOutputs, Surrogate::kLoose, [&](const at::Tensor&) { return v; })
            .x;
    const at::Tensor wide = x.to(at::kDouble);
    const auto value = [&](const at::Tensor& at) { return (model.evaluate(at) * v).sum(1); };
    for (int64_t k = 0; k < model.inputs(); k += 3) {
      at::Tensor step = at::zeros({1, model.inputs()}, at::kDouble);
      step.select(1, k).fill_(1e-7);
      const at::Tensor finite = (value(wide + step) - value(wide - step)) / 2e-7;
      CHECK(relative_gap(g.select(1, k), finite) < 1e-3);
    }
  }
}

TEST_CASE("OnnxModel: an operator that mixes rows makes the network run row by row") {
  const OnnxModel model(mixing_network());
  CHECK(model.fallback() == "a batch of two rows does not give what the rows give one by one");
  const at::Tensor x = weights({5, 6}, 3);
  const at::Tensor zeros = at::zeros({5, 3});  // of one row nothing is left
  CHECK(at::equal(model.forward(x, Head::kOutputs), zeros));
  CHECK(at::equal(model.forward_unlowered(x), zeros));
  CHECK(at::equal(model.evaluate(x), zeros));
  const Gradient g = model.gradient(x, Head::kOutputs, Surrogate::kLoose,
                                    [](const at::Tensor& y) { return at::ones_like(y); });
  CHECK(at::equal(g.y, zeros));
  CHECK(at::equal(g.x, at::zeros_like(x)));
  const Trace trace = model.trace(x, Head::kOutputs, {0, 1});
  CHECK(at::equal(trace.y, zeros));
  REQUIRE(trace.activations.size() == 2);
  const OnnxModel plain(mlp().graph());
  const Trace expected = plain.trace(x, Head::kOutputs, {0, 1});
  for (size_t k = 0; k < 2; ++k) {
    CHECK(relative_gap(trace.activations[k], expected.activations[k]) < 1e-6);
  }
  CHECK(model.forward(x.slice(0, 0, 0), Head::kOutputs).sizes() == at::IntArrayRef({0, 3}));
}

TEST_CASE("OnnxModel: a step that rounding flips is no reason to run row by row") {
  // Both sides of the Sub are one product but for the rounding of its weights, far below float32's
  // own noise, which depends on the number of rows; float64 sees the difference.
  const at::Tensor a = weights({96, 64}, 1) * 0.37, b = weights({64, 96}, 2) * 0.41;
  Net net({1, 96});
  net.constant("a", a).constant("b", b);
  net.constant("ab", a.to(at::kDouble).mm(b.to(at::kDouble)).to(at::kFloat));
  net.add("MatMul", {"x", "a"}, "xa").add("MatMul", {"xa", "b"}, "xab");
  net.add("MatMul", {"x", "ab"}, "y0").add("Sub", {"xab", "y0"}, "d").add("Sign", {"d"}, "y");
  const OnnxModel model(net.graph());
  CHECK(model.fallback().empty());
  const at::Tensor x = weights({2, 96}, 3) * 0.73;
  WARN(!at::equal(model.forward_unlowered(x), model.evaluate(x)));  // else nothing flips here
}
