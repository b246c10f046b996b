// Adaptive scaling (Zhang and Sui, 2026, section 4.3): what only steps per dimension can find.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/io/onnx/model.h"
#include "tests/support/nets.h"
#include "tests/support/properties.h"
#include "tests/support/puzzles.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kBudget = 3000;

// Three inputs of width 1 and three of width 1e-4; the box begins at 0. With u = x / width the
// output is the sum over the inputs of how far u is from the band [at - 0.04, at + 0.04], and 0
// violates.
struct Bands {
  std::vector<float> widths = {1.f, 1.f, 1.f, 1e-4f, 1e-4f, 1e-4f};
  std::vector<float> at = {0.65f, 0.35f, 0.65f, 0.35f, 0.65f, 0.35f};

  [[nodiscard]] Net net() const {
    at::Tensor w = at::zeros({6, 12}), b = at::zeros({12});
    for (int64_t i = 0; i < 6; ++i) {
      const auto k = static_cast<size_t>(i);
      for (const int64_t side : {0, 1}) {  // u - at - 0.04 and at - 0.04 - u
        const float sign = side == 0 ? 1.f : -1.f;
        w.select(0, i).select(0, 2 * i + side).fill_(sign / widths[k]);
        b.select(0, 2 * i + side).fill_(-sign * at[k] - 0.04f);
      }
    }
    Net out({1, 6});
    out.constant("w", w).constant("b", b).constant("v", at::ones({12, 1}));
    out.add("Gemm", {"x", "w", "b"}, "far")
        .add("Relu", {"far"}, "out")
        .add("MatMul", {"out", "v"}, "y");
    return out;
  }

  [[nodiscard]] Property property() const {
    return testing::property(6, 1,
                             {{box(std::vector<float>(6, 0.f), widths), {{{below(0, 0.001)}}}}});
  }
};

LoopOptions with_scale(const std::string& scale, bool paper) {
  LoopOptions options = test_options(0);
  if (paper) apply_mode(options, "batch-ani");
  options.scale = scale;
  return options;
}

}  // namespace

TEST_CASE("puzzle: bands in wide and in narrow dimensions, under the paper's schedule") {
  // From the centre every band is 0.11 to 0.19 widths away.
  // ani: a gradient candidate takes ten steps of 0.02 widths in every dimension and stops in each
  // band,
  //   where that dimension's gradient is 0. One such candidate is enough.
  // iso: the mean width is 0.5, a step is 0.01. That is 100 times a narrow box, so that every step
  // lands
  //   on one of its ends; noise of 0.025 meets a band of 8e-6 once in 10^4 times, three bands
  //   never.
  // fixed: steps of 0.002 are still 20 narrow boxes, and carry the wide dimensions 0.02 in all.
  const Bands bands;
  const onnx::OnnxModel net(bands.net().graph());
  const Property property = bands.property();
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    CAPTURE(seed);
    Metered adaptive(net, kBudget);
    const Attempt ani = attempt(adaptive, property, with_scale("ani", true), seed);
    CHECK(ani.found);
    CHECK(ani.passes < kBudget);
    for (const char* scale : {"iso", "fixed"}) {
      CAPTURE(scale);
      Metered model(net, kBudget);
      const Attempt other = attempt(model, property, with_scale(scale, true), seed);
      CHECK(!other.found);
      CHECK(other.passes >= kBudget);
    }
  }
}

TEST_CASE("puzzle: the same bands under the default schedule and mutations") {
  const Bands bands;
  const onnx::OnnxModel net(bands.net().graph());
  const Property property = bands.property();
  for (const uint64_t seed : {1, 2}) {
    CAPTURE(seed);
    Metered model(net, kBudget);
    CHECK(attempt(model, property, with_scale("ani", false), seed).found);
  }
}

TEST_CASE("puzzle: without narrow dimensions all scales arrive") {
  // The same net with equal widths: what stops the others is the widths, not the bands.
  Bands bands;
  bands.widths = std::vector<float>(6, 0.1f);
  const onnx::OnnxModel net(bands.net().graph());
  const Property property = bands.property();
  for (const uint64_t seed : {1, 2}) {
    for (const char* scale : {"ani", "iso", "fixed"}) {
      CAPTURE(seed);
      CAPTURE(scale);
      Metered model(net, kBudget);
      CHECK(attempt(model, property, with_scale(scale, true), seed).found);
    }
  }
}
