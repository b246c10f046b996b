#include "grapeshot/io/onnx/surrogate.h"

#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include "grapeshot/core/rng.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::step_function;
using onnx::StepKind;

namespace {

constexpr StepKind kKinds[] = {StepKind::kSign, StepKind::kStep, StepKind::kRound,
                               StepKind::kFloor};

// What the gradient `weight` of the result becomes in front of the step function.
at::Tensor gradient(const at::Tensor& x, StepKind kind, Surrogate surrogate,
                    const at::Tensor& weight) {
  const c10::AutoGradMode grad(true);
  at::Tensor leaf = x.detach().clone().requires_grad_(true);
  step_function(leaf, kind, surrogate).backward(weight);
  return leaf.grad();
}

}  // namespace

TEST_CASE("step_function: the values, with and without history") {
  const at::Tensor x = vector({-1.5f, -0.5f, -0.f, 0.f, 0.5f, 1.5f, 2.5f});
  const std::vector<std::vector<float>> expected = {{-1.f, -1.f, 0.f, 0.f, 1.f, 1.f, 1.f},
                                                    {-1.f, -1.f, 1.f, 1.f, 1.f, 1.f, 1.f},
                                                    {-2.f, 0.f, 0.f, 0.f, 0.f, 2.f, 2.f},
                                                    {-2.f, -1.f, 0.f, 0.f, 0.f, 1.f, 2.f}};
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    for (const Surrogate& surrogate :
         {Surrogate(Surrogate::kLoose), Surrogate(Surrogate::kBounded)}) {
      const at::Tensor y = step_function(x, kKinds[i], surrogate);
      CHECK(floats(y) == expected[i]);
      CHECK(!y.requires_grad());
      const c10::AutoGradMode grad(true);
      const at::Tensor recorded =
          step_function(x.clone().requires_grad_(true), kKinds[i], surrogate);
      CHECK(recorded.requires_grad());
      CHECK(floats(recorded) == expected[i]);
    }
    CHECK(floats(step_function(x.to(at::kDouble), kKinds[i], Surrogate::kLoose)) == expected[i]);
  }
}

TEST_CASE("step_function: what is not a number stays none, but a step needs a side") {
  const at::Tensor x = vector({kNan, kInf, -kInf});
  CHECK(floats(step_function(x, StepKind::kStep, Surrogate::kLoose)) ==
        std::vector<float>{-1.f, 1.f, -1.f});
  CHECK(floats(step_function(x, StepKind::kFloor, Surrogate::kLoose))[1] == kInf);
}

TEST_CASE("step_function: loose gradients pass straight through") {
  const at::Tensor x = vector({-3.f, -0.1f, 0.f, 0.1f, 3.f});
  const at::Tensor weight = vector({1.f, 2.f, 3.f, 4.f, 5.f});
  for (const StepKind kind : kKinds) {
    CHECK(at::equal(gradient(x, kind, Surrogate::kLoose, weight), weight));
  }
}

// |x| up to the mean of its row.
at::Tensor bounded_by_rows(const at::Tensor& weight, const at::Tensor& x) {
  return weight.masked_fill(x.abs() > x.abs().flatten(1).mean(1).view({-1, 1, 1}), 0);
}

TEST_CASE(
    "step_function: bounded gradients of sign and step pass where |x| <= the row's mean |x|") {
  // The mean sizes are (4 + 1 + 2 + 1) / 4 = 2, which itself is inside, and 200: rows that are
  // small or large do not change what their neighbours pass on.
  const at::Tensor x = matrix(2, 4, {-4.f, 1.f, 2.f, -1.f, 500.f, 100.f, -100.f, 100.f});
  const at::Tensor weight = matrix(2, 4, {1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f});
  const std::vector<float> bounded = {0.f, 2.f, 3.f, 4.f, 0.f, 6.f, 7.f, 8.f};
  CHECK(floats(gradient(x, StepKind::kSign, Surrogate::kBounded, weight)) == bounded);
  CHECK(floats(gradient(x, StepKind::kStep, Surrogate::kBounded, weight)) == bounded);
  CHECK(at::equal(gradient(x, StepKind::kRound, Surrogate::kBounded, weight), weight));
  CHECK(at::equal(gradient(x, StepKind::kFloor, Surrogate::kBounded, weight), weight));
}

TEST_CASE("step_function: bounded gradients are the same however the memory lies") {
  Rng rng(uint64_t{1});
  const at::Tensor x = at::randn({3, 5, 7}, rng.generator());
  const at::Tensor weight = at::randn({3, 5, 7}, rng.generator());
  for (const StepKind kind : {StepKind::kSign, StepKind::kStep}) {
    const at::Tensor expected = bounded_by_rows(weight, x);
    CHECK(at::equal(gradient(x, kind, Surrogate::kBounded, weight), expected));
    const auto turned = [](const at::Tensor& t) {
      return t.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
    };
    CHECK(at::equal(gradient(turned(x), kind, Surrogate::kBounded, weight), expected));
    CHECK(at::equal(gradient(x, kind, Surrogate::kBounded, turned(weight)), expected));
    CHECK(at::equal(gradient(x.to(at::kDouble), kind, Surrogate::kBounded, weight.to(at::kDouble)),
                    expected.to(at::kDouble)));
    const at::Tensor gaps = at::randn({3, 5, 14}, rng.generator()).slice(2, 0, 14, 2);
    CHECK(at::equal(gradient(gaps, kind, Surrogate::kBounded, weight),
                    bounded_by_rows(weight, gaps)));
    CHECK(gradient(x.slice(0, 0, 0), kind, Surrogate::kBounded, weight.slice(0, 0, 0)).numel() ==
          0);
  }
}

TEST_CASE("step_function: a window of its own for every row and sign") {
  const at::Tensor x = at::tensor({-2.f, 0.1f, 0.5f, -0.2f, 0.3f, 4.f}).view({2, 3});
  const at::Tensor weight = at::ones_like(x);
  Surrogate windowed(at::tensor({9.f, 0.4f, 9.f, 0.25f}).view({2, 2}));
  windowed.sign = 1;
  CHECK(floats(gradient(x, StepKind::kSign, windowed, weight)) ==
        std::vector<float>{0, 1, 0, 1, 0, 0});
  CHECK(at::equal(gradient(x, StepKind::kRound, windowed, weight), weight));
  windowed.sign = 0;
  CHECK(at::equal(gradient(x, StepKind::kStep, windowed, weight), weight));
}
