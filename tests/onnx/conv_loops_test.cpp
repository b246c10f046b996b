#include "grapeshot/io/onnx/conv_loops.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/core/rng.h"

using namespace grapeshot;        // NOLINT(google-build-using-namespace)
using namespace grapeshot::onnx;  // NOLINT(google-build-using-namespace)

namespace {

struct Shape {
  ConvPlan plan;
  int64_t images, height, width;
};

// Filters that fill no vector, one, and several; windows of one pixel and of all; strides that
// leave pixels out; padding of all sides or of one.
const std::vector<Shape> kShapes = {
    {{3, 16, 3, 3, 1, 1, 0, 0, 0, 0}, 2, 9, 7},     {{3, 32, 5, 5, 1, 1, 2, 2, 2, 2}, 3, 8, 8},
    {{1, 5, 3, 2, 2, 1, 1, 0, 0, 1}, 2, 7, 6},      {{4, 33, 1, 1, 1, 1, 0, 0, 0, 0}, 2, 5, 5},
    {{16, 64, 2, 2, 1, 1, 0, 0, 0, 0}, 2, 6, 5},    {{7, 80, 3, 3, 2, 3, 1, 2, 0, 1}, 1, 11, 13},
    {{32, 48, 3, 3, 1, 1, 1, 1, 1, 1}, 2, 4, 9},    {{2, 100, 4, 4, 4, 4, 0, 0, 0, 0}, 2, 8, 8},
    {{5, 17, 6, 6, 1, 1, 0, 0, 0, 0}, 3, 6, 6},     {{3, 16, 2, 2, 5, 5, 3, 3, 3, 3}, 1, 7, 7},
    {{130, 130, 1, 3, 1, 2, 0, 1, 0, 1}, 1, 2, 17},
};

struct Numbers {
  at::Tensor x, weight, bias, gradient;
};

Numbers numbers(const Shape& s) {
  Rng rng(uint64_t{1});
  const auto draw = [&](at::IntArrayRef sizes) { return at::randn(sizes, rng.generator()); };
  const ConvPlan& p = s.plan;
  return {draw({s.images, p.channels, s.height, s.width}),
          draw({p.filters, p.channels, p.rows, p.columns}), draw({p.filters}),
          draw({s.images, p.filters, p.out_height(s.height), p.out_width(s.width)})};
}

// torch's, in float64, of the padded image.
at::Tensor padded(const ConvPlan& p, const at::Tensor& x) {
  return at::constant_pad_nd(x.to(at::kDouble), {p.left, p.last, p.top, p.bottom});
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::allclose(a.to(at::kDouble), b, 1e-4, 1e-4, true);
}

}  // namespace

TEST_CASE(
    "conv_forward: torch's convolution, with and without a cut at 0, in any order of memory") {
  for (const Shape& s : kShapes) {
    CAPTURE(s.plan.channels);
    CAPTURE(s.plan.filters);
    const Numbers n = numbers(s);
    const at::Tensor expected =
        at::convolution(padded(s.plan, n.x), n.weight.to(at::kDouble), n.bias.to(at::kDouble),
                        {s.plan.down, s.plan.right}, {0, 0}, {1, 1}, false, {0, 0}, 1);
    const at::Tensor packed = pack_forward(s.plan, n.weight);
    for (const at::Tensor& x : {n.x, n.x.contiguous(at::MemoryFormat::ChannelsLast)}) {
      for (int level = 0; level <= best_conv_level(); ++level) {
        CAPTURE(level);
        CHECK(close(conv_forward(s.plan, packed, n.bias, x, false, level), expected));
        CHECK(close(conv_forward(s.plan, packed, n.bias, x, true, level), expected.clamp_min(0)));
      }
    }
  }
}

TEST_CASE("conv_backward: torch's gradient with respect to the input") {
  for (const Shape& s : kShapes) {
    CAPTURE(s.plan.channels);
    CAPTURE(s.plan.filters);
    const Numbers n = numbers(s);
    const at::Tensor whole = std::get<0>(at::convolution_backward(
        n.gradient.to(at::kDouble), padded(s.plan, n.x), n.weight.to(at::kDouble), std::nullopt,
        {s.plan.down, s.plan.right}, {0, 0}, {1, 1}, false, {0, 0}, 1, {true, false, false}));
    const at::Tensor expected = whole.slice(2, s.plan.top, s.plan.top + s.height)
                                    .slice(3, s.plan.left, s.plan.left + s.width);
    const at::Tensor packed = pack_backward(s.plan, n.weight);
    for (int level = 0; level <= best_conv_level(); ++level) {
      CAPTURE(level);
      for (const bool first : {false, true}) {
        const at::Tensor x =
            conv_backward(s.plan, packed, n.gradient, s.height, s.width, first, level);
        CHECK(close(x, expected));
        if (first && s.plan.channels <= 4) CHECK(x.is_contiguous());
      }
    }
  }
}

TEST_CASE("product_forward, product_backward: torch's products of matrices") {
  Rng rng(uint64_t{2});
  const auto draw = [&](int64_t a, int64_t b) { return at::randn({a, b}, rng.generator()); };
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{15, 300, 43},
                                {1, 64, 64},
                                {33, 5, 1},
                                {7, 1000, 130},
                                {0, 10, 16}}) {
    CAPTURE(m);
    CAPTURE(k);
    CAPTURE(n);
    const at::Tensor x = draw(m, k), w = draw(k, n), b = draw(1, n).flatten(), g = draw(m, n);
    const at::Tensor y = x.to(at::kDouble).mm(w.to(at::kDouble)) + b.to(at::kDouble);
    const at::Tensor padded = at::constant_pad_nd(b, {0, (16 - n % 16) % 16});
    for (const at::Tensor& bias : {b, padded}) {
      CHECK(close(product_forward(pack_product(w), bias, x, n, false), y));
      CHECK(close(product_forward(pack_product(w), bias, x, n, true), y.clamp_min(0)));
    }
    CHECK(close(product_forward(pack_product(w), b, x.t().contiguous().t(), n, false), y));
    CHECK(close(product_backward(pack_product_back(w), g, k),
                g.to(at::kDouble).mm(w.to(at::kDouble).t())));
  }
}

TEST_CASE("conv_forward: NaN goes where its windows are, through a cut at 0 as well") {
  const ConvPlan plan{3, 16, 3, 3};
  at::Tensor x = at::ones({1, 3, 6, 6});
  x.select(1, 0).select(1, 0).select(1, 0).fill_(std::nanf(""));
  const at::Tensor y =
      conv_forward(plan, pack_forward(plan, at::ones({16, 3, 3, 3})), at::zeros({16}), x, true);
  CHECK(y.isnan().sum().item<int64_t>() == 16);
  CHECK(y.select(2, 0).select(2, 0).isnan().all().item<bool>());
}

TEST_CASE("conv_backward: a row that overflows leaves the others alone") {
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor w = at::ones({70, 20});  // 70 inputs fill no vector
  at::Tensor g = at::ones({9, 20});
  g.select(0, 3).fill_(inf);
  g.select(0, 5).fill_(std::nanf(""));
  const at::Tensor x = product_backward(pack_product_back(w), g, 70);
  for (int64_t i = 0; i < 9; ++i) {
    CAPTURE(i);
    const at::Tensor row = x.select(0, i);
    CHECK((i == 3 ? row == inf : i == 5 ? row.isnan() : row == 20).all().item<bool>());
  }
}

TEST_CASE("conv_forward: no image gives none") {
  const ConvPlan plan{3, 16, 3, 3};
  const at::Tensor weight = at::ones({16, 3, 3, 3});
  CHECK(conv_forward(plan, pack_forward(plan, weight), at::zeros({16}), at::zeros({0, 3, 6, 6}),
                     false)
            .sizes() == at::IntArrayRef({0, 16, 4, 4}));
  CHECK(conv_backward(plan, pack_backward(plan, weight), at::zeros({0, 16, 4, 4}), 6, 6).sizes() ==
        at::IntArrayRef({0, 3, 6, 6}));
}
