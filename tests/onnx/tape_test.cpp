// The gradient of a whole program, against autograd's of the same program.
#include <algorithm>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>

#include "grapeshot/core/rng.h"
#include "grapeshot/io/onnx/bind.h"
#include "grapeshot/io/onnx/lower.h"
#include "grapeshot/io/onnx/program.h"
#include "tests/support/operators.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::onnx;     // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

struct Loaded {
  Network network, lowered;
};

Loaded load(const Graph& graph) {
  Loaded out;
  out.network = bind(graph);
  std::vector<int64_t> shape = out.network.input_shape;
  shape.insert(shape.begin(), 2);
  Rng rng(uint64_t{1});
  const Recording recording = fold_constants(out.network, at::rand(shape, rng.generator()));
  out.lowered = lower(out.network, recording);
  return out;
}

// Residual blocks with their sums read twice, in NCHW, or with Transposes around each convolution.
Net residual(bool transposes) {
  Net net(transposes ? std::vector<int64_t>{1, 8, 8, 3} : std::vector<int64_t>{1, 3, 8, 8});
  net.constant("w1", weights({16, 3, 3, 3}, 1)).constant("b1", weights({16}, 2));
  net.constant("w2", weights({16, 16, 3, 3}, 3)).constant("b2", weights({16}, 4));
  net.constant("w3", weights({24, 16, 1, 1}, 5)).constant("b3", weights({24}, 6));
  net.constant("w5", weights({16, 3, 3, 3}, 8)).constant("b5", weights({16}, 9));
  net.constant("w4", weights({24 * 4 * 4, 5}, 7)).constant("half", at::tensor({0.5f}));
  net.constant("shape", at::tensor({1, -1}, at::kLong));
  std::string x = "x";
  if (transposes) {
    net.add("Transpose", {"x"}, "t", {integers("perm", {0, 3, 1, 2})});
    x = "t";
  }
  const auto pads = integers("pads", {1, 1, 1, 1});
  // A sum that is cut, of two that are packed.
  net.add("Conv", {x, "w1", "b1"}, "c1", {pads}).add("Conv", {x, "w5", "b5"}, "c5", {pads});
  net.add("Add", {"c1", "c5"}, "s0").add("Relu", {"s0"}, "r1");
  net.add("Conv", {"r1", "w2", "b2"}, "c2", {pads}).add("Add", {"c2", "r1"}, "s1");
  net.add("Relu", {"s1"}, "r2").add("Conv", {"r2", "w2", "b2"}, "c3", {pads});
  net.add("Mul", {"c3", "half"}, "m").add("Add", {"r2", "m"}, "s2").add("Sub", {"s2", "r1"}, "d");
  net.add("MaxPool", {"d"}, "p", {integers("kernel_shape", {2, 2}), integers("strides", {2, 2})});
  net.add("Conv", {"p", "w3", "b3"}, "c4").add("Sigmoid", {"c4"}, "g").add("Mul", {"g", "c4"}, "q");
  net.add("Reshape", {"q", "shape"}, "f").add("MatMul", {"f", "w4"}, "y");
  return net;
}

// The largest difference, as a share of the largest entry; infinity and NaN have to be alike.
double gap(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  if (b.numel() == 0) return 0.;
  const at::Tensor same = a.eq(b).logical_or_(a.isnan().logical_and(b.isnan()));
  const at::Tensor off = at::where(same, at::zeros_like(b), (a - b).abs());
  const at::Tensor finite = at::where(b.isfinite(), b.abs(), at::zeros_like(b));
  return off.max().item<double>() / std::max(finite.max().item<double>(), 1e-30);
}

void compare(const Network& network, const std::string& what, int64_t& compared) {
  const Program program(network);
  if (!program.tapes()) return;
  std::vector<int64_t> shape = network.input_shape;
  shape.insert(shape.begin(), 3);
  const int32_t slot = program.slot(network.output);
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const Surrogate& surrogate :
         {Surrogate(Surrogate::kLoose), Surrogate(Surrogate::kBounded)}) {
      CAPTURE(what);
      CAPTURE(type);
      Rng rng(uint64_t{3});
      const at::Tensor x = at::rand(shape, rng.generator()).to(type);
      at::Tensor of_y, y, expected = at::zeros_like(x);
      {
        const c10::AutoGradMode grad(true);
        const at::Tensor leaf = x.clone().requires_grad_(true);
        y = program.run(leaf, {slot}, surrogate)[0].t;
        if (!y.defined() || !y.is_floating_point()) return;
        of_y = at::randn(y.sizes(), rng.generator()).to(y.scalar_type());
        if (y.requires_grad()) {
          const auto g = torch::autograd::grad({y}, {leaf}, {of_y}, false, false, true);
          if (g[0].defined()) expected = g[0];
        }
      }
      const auto [values, of_x] = program.gradient(
          x, {slot}, surrogate,
          [&](const std::vector<Value>&) { return std::vector<at::Tensor>{of_y}; });
      const double tolerance = type == at::kDouble ? 1e-11 : 2e-5;
      CHECK(gap(values[0].t, y.detach()) <= tolerance);
      CHECK(gap(of_x, expected) <= tolerance);
      ++compared;
    }
  }
}

}  // namespace

TEST_CASE("Program::gradient: a loss of several tensors is the sum of their losses") {
  for (const Net& net : {mlp(), cnn(), residual(true)}) {
    const Loaded loaded = load(net.graph());
    for (const Network* network : {&loaded.network, &loaded.lowered}) {
      const Program program(*network);
      std::vector<int32_t> slots = {program.slot(network->output)};
      for (const BoundNode& bound : network->nodes) {
        const std::string& name = bound.node.outputs[0];
        if (name != network->output) slots.push_back(program.slot(name));
        if (slots.size() == 4) break;
      }
      Rng rng(uint64_t{4});
      std::vector<int64_t> shape = network->input_shape;
      shape.insert(shape.begin(), 3);
      const at::Tensor x = at::rand(shape, rng.generator()).to(at::kDouble);
      std::vector<at::Tensor> weights;
      const auto values = program.run(x, slots, Surrogate::kLoose);
      for (const Value& value : values) {
        weights.push_back(at::randn(value.t.sizes(), rng.generator(), at::kDouble));
      }
      const auto of = [&](const std::vector<int32_t>& wanted,
                          const std::vector<at::Tensor>& cotangents) {
        return program
            .gradient(x, wanted, Surrogate::kLoose,
                      [&](const std::vector<Value>&) { return cotangents; })
            .second;
      };
      at::Tensor sum = at::zeros_like(x);
      for (size_t k = 0; k < slots.size(); ++k) sum = sum + of({slots[k]}, {weights[k]});
      CHECK(gap(of(slots, weights), sum) <= 1e-11);
      const at::Tensor second = of({slots[1]}, {weights[1]});
      weights[1] = at::Tensor();  // no loss of it
      CHECK(gap(of(slots, weights), sum - second) <= 1e-11);
    }
  }
}

TEST_CASE("Program::gradient: autograd's for every operator, as read and lowered") {
  int64_t compared = 0;
  for (const OperatorNet& each : operator_nets()) {
    const Loaded loaded = load(each.graph);
    compare(loaded.network, each.op + " " + each.setting, compared);
    compare(loaded.lowered, each.op + " " + each.setting + ", lowered", compared);
  }
  CHECK(compared > 400);
}

TEST_CASE("Program::gradient: tensors with several readers, sums that are cut, transposes") {
  int64_t compared = 0, packed = 0;
  for (const Net& net : {residual(false), residual(true), mlp(), cnn()}) {
    const Loaded loaded = load(net.graph());
    compare(loaded.network, "as read", compared);
    compare(loaded.lowered, "lowered", compared);
    packed += std::ranges::count_if(
        loaded.lowered.nodes, [](const BoundNode& bound) { return bound.node.op == "PackedConv"; });
  }
  CHECK(compared == 32);
  CHECK(packed >= 4);
}
