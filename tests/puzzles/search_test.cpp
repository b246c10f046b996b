// Networks that hide their counterexample from one part of the loop each.
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/io/onnx/model.h"
#include "tests/support/nets.h"
#include "tests/support/properties.h"
#include "tests/support/puzzles.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::OnnxModel;

namespace {

constexpr uint64_t kSeeds[] = {1, 2};

// -1 and 1 in an order that is the same in every run.
at::Tensor pattern(int64_t inputs) {
  return at::where(weights({inputs, 1}, 21) < 0, -1., 1.).to(at::kFloat);
}

LoopOptions paper_options() {
  LoopOptions options = test_options(0);
  apply_mode(options, "batch-ani");
  return options;
}

}  // namespace

TEST_CASE(
    "puzzle: a binarized net without any slope is broken through straight-through gradients") {
  // 24 signs have to match a pattern, and the output says only whether all of them do: 1 or -1.
  // Chance needs 2^24 corners; with the gradients of the two Sign at zero nothing else is left.
  constexpr int64_t kInputs = 24, kBudget = 3000;
  Net net({1, kInputs});
  net.constant("pattern", pattern(kInputs)).constant("most", vector({-23.5f}));
  net.add("Sign", {"x"}, "s")
      .add("MatMul", {"s", "pattern"}, "sum")
      .add("Add", {"sum", "most"}, "d");
  net.add("Sign", {"d"}, "y");
  const OnnxModel model(net.graph());
  CHECK(model.has_surrogates());
  const Property p = property(kInputs, 1, {{cube(kInputs, -1.f, 1.f), {{{above(0, 1.)}}}}});
  for (const uint64_t seed : kSeeds) {
    CAPTURE(seed);
    for (const bool paper : {false, true}) {
      CAPTURE(paper);
      LoopOptions options = paper ? paper_options() : test_options(0);
      options.scale_factor = 0.5;  // a candidate of the paper's crosses the box
      Metered with(model, kBudget);
      CHECK(attempt(with, p, options, seed).found);
      Metered without(model, kBudget);
      without.zero_gradients = true;
      CHECK(!attempt(without, p, options, seed).found);
    }
  }
}

TEST_CASE("puzzle: a saturated softmax is broken through its logits") {
  // The logits differ by 1000 (31 - sum of 32 inputs in [-1, 1]): everywhere but in one corner the
  // softmax is exactly (1, 0) in float32, and so is its gradient 0.
  constexpr int64_t kInputs = 32, kBudget = 3000;
  Net net({1, kInputs});
  net.constant("w", at::cat({-1000. * pattern(kInputs), at::zeros({kInputs, 1})}, 1));
  net.constant("b", vector({31000.f, 0.f}));
  net.add("Gemm", {"x", "w", "b"}, "logits").add("Softmax", {"logits"}, "y");
  const OnnxModel model(net.graph());
  const Property p = property(kInputs, 2, {{cube(kInputs, -1.f, 1.f), top1(0, 2)}});
  for (const uint64_t seed : kSeeds) {
    CAPTURE(seed);
    Metered with(model, kBudget);
    const Attempt through = attempt(with, p, test_options(0), seed);
    REQUIRE(through.found);
    CHECK(through.findings[0].confirmation.y32 == std::vector<double>{0., 1.});
    Metered without(model, kBudget);
    without.hide_logits = true;
    CHECK(!attempt(without, p, test_options(0), seed).found);
  }
}

TEST_CASE("puzzle: one of eight boxes holds the counterexample") {
  // The output is 0.05 minus the distance from the point (50.9, 50.1), in the box [50, 51]^2 alone.
  constexpr int64_t kBudget = 6000;
  Net net({1, 2});
  net.constant("w", matrix(2, 4, {1.f, -1.f, 0.f, 0.f, 0.f, 0.f, 1.f, -1.f}));
  net.constant("b", vector({-50.9f, 50.9f, -50.1f, 50.1f}));
  net.constant("v", matrix(4, 1, {-1.f, -1.f, -1.f, -1.f})).constant("c", vector({0.05f}));
  net.add("Gemm", {"x", "w", "b"}, "d").add("Relu", {"d"}, "r").add("Gemm", {"r", "v", "c"}, "y");
  const OnnxModel model(net.graph());
  std::vector<Region> regions;
  for (int i = 0; i < 8; ++i) {
    const auto lo = static_cast<float>(10 * i);
    regions.push_back({cube(2, lo, lo + 1.f), {{{below(0, -1e6)}}, {{above(0, 0.)}}}});
  }
  const Property p = property(2, 1, regions);
  for (const uint64_t seed : kSeeds) {
    CAPTURE(seed);
    Metered metered(model, kBudget);
    const Attempt a = attempt(metered, p, test_options(0), seed);
    REQUIRE(a.found);
    CHECK(a.findings[0].region == 5);
    CHECK(a.findings[0].confirmation.verdict64.case_index == 1);
    CHECK(contains(regions[5].box, floats(a.findings[0].x)));
    CHECK(floats(a.findings[0].original) == std::vector<float>{50.5f, 50.5f});
  }
}

TEST_CASE("puzzle: a step on the way violates, where the candidate ends does not") {
  // Output 1 beats the label only within 0.025 of 0.7; the weaker output 2 pulls to the right. Nine
  // steps of 0.1 from 0.5 go 0.6, 0.7, 0.8, and then to and fro between 0.7 and 0.8: all candidates
  // end on 0.8.
  Net net({1, 1});
  net.constant("w", matrix(1, 2, {1.f, -1.f})).constant("b", vector({-0.7f, 0.7f}));
  net.constant("v", matrix(2, 3, {0.f, -40.f, 5.f, 0.f, -40.f, -5.f}));
  net.constant("c", vector({0.f, 1.f, -2.5f}));
  net.add("Gemm", {"x", "w", "b"}, "d").add("Relu", {"d"}, "r").add("Gemm", {"r", "v", "c"}, "y");
  const OnnxModel model(net.graph());
  const Property p = property(1, 3, {{cube(1, 0.f, 1.f), top1(0, 3)}});
  LoopOptions options = paper_options();
  options.batch = "auto";
  options.mutations = "gradient";
  options.scale = "fixed";
  options.eta = 0.45;
  options.steps = 9;
  options.criterion = "none";
  for (const uint64_t seed : kSeeds) {
    CAPTURE(seed);
    Metered metered(model, 100);
    const Attempt a = attempt(metered, p, options, seed);
    CHECK(a.totals.violations == 0);
    REQUIRE(a.found);
    CHECK(a.passes == 10);
    CHECK(near(a.findings[0].x.item<float>(), 0.7, 1e-6));
  }
}

TEST_CASE("puzzle: a tie of two integers is a counterexample") {
  // The sum of 16 signs reaches the other output, the constant 16, and never exceeds it.
  constexpr int64_t kInputs = 16, kBudget = 3000;
  Net net({1, kInputs});
  net.constant("w", at::cat({at::zeros({kInputs, 1}), pattern(kInputs)}, 1));
  net.constant("b", vector({16.f, 0.f}));
  net.add("Sign", {"x"}, "s").add("Gemm", {"s", "w", "b"}, "y");
  const OnnxModel model(net.graph());
  const Property p = property(kInputs, 2, {{cube(kInputs, -0.5f, 0.25f), top1(0, 2)}});
  for (const uint64_t seed : kSeeds) {
    CAPTURE(seed);
    Metered metered(model, kBudget);
    const Attempt a = attempt(metered, p, test_options(0), seed);
    REQUIRE(a.found);
    CHECK(a.findings[0].confirmation.verdict64.margin == 0.);
    CHECK(a.findings[0].confirmation.clear);
    CHECK(a.findings[0].confirmation.y32 == std::vector<double>{16., 16.});
  }
}

TEST_CASE(
    "puzzle: a counterexample that is too far for one candidate is reached over kept inputs") {
  // It lies 0.45 widths from the centre; a candidate of the paper's goes 0.2. Neurons that fire one
  // after the other on the way make coverage keep the inputs in between; without it all candidates
  // begin at the original.
  constexpr int64_t kBudget = 6000;
  Net net({1, 1});
  at::Tensor bias = at::zeros({10});
  for (int64_t i = 0; i < 10; ++i)
    bias.select(0, i).fill_(-10. * (0.5 + 0.05 * static_cast<double>(i)));
  net.constant("w", at::full({1, 10}, 10.)).constant("b", bias).constant("v", at::ones({10, 1}));
  net.add("Gemm", {"x", "w", "b"}, "a").add("Relu", {"a"}, "r").add("MatMul", {"r", "v"}, "y");
  const OnnxModel model(net.graph());
  const double bound = floats(model.evaluate(matrix(1, 1, {0.96f})))[0];
  const Property p = property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, bound)}}}}});
  for (const uint64_t seed : kSeeds) {
    CAPTURE(seed);
    LoopOptions options = paper_options();
    Metered with(model, kBudget);
    CHECK(attempt(with, p, options, seed).found);
    options.criterion = "none";
    options.mutations = "gradient,boundary";
    Metered without(model, kBudget);
    CHECK(!attempt(without, p, options, seed).found);
  }
}
