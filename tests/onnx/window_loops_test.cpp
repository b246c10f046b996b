#include "grapeshot/io/onnx/window_loops.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

using namespace grapeshot;        // NOLINT(google-build-using-namespace)
using namespace grapeshot::onnx;  // NOLINT(google-build-using-namespace)

namespace {

struct Shape {
  int64_t height, width, channels;
  std::vector<int64_t> kernel, strides, dilations, before;
  bool ceil = false;

  [[nodiscard]] Window window() const { return {kernel, strides, dilations, before, before, ceil}; }
};

const std::vector<Shape> kShapes = {
    {9, 11, 16, {2, 2}, {2, 2}, {1, 1}, {0, 0}},       {9, 11, 17, {3, 2}, {2, 1}, {1, 1}, {1, 1}},
    {12, 7, 24, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true}, {10, 10, 40, {3, 3}, {1, 2}, {2, 1}, {1, 0}},
    {5, 8, 33, {4, 4}, {4, 4}, {1, 1}, {0, 0}, true},  {6, 5, 31, {1, 2}, {1, 1}, {1, 1}, {0, 0}},
    {8, 8, 8, {2, 2}, {2, 2}, {1, 1}, {0, 0}},         {9, 7, 11, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
};

at::Tensor last(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace

TEST_CASE("max_pool_last: torch's maxima, NaN and infinities too") {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  for (const Shape& s : kShapes) {
    CAPTURE(s.channels);
    at::Tensor x = last(at::randn({3, s.channels, s.height, s.width}));
    const at::Tensor odd = at::rand_like(x);
    x.masked_fill_(odd < 0.03, nan).masked_fill_(odd > 0.97, -inf);
    x.select(0, 1).fill_(-inf);
    REQUIRE(is_pooled_last(x, s.window()));
    const at::Tensor y = max_pool_last(x, s.window());
    const at::Tensor expected =
        at::max_pool2d(x, s.kernel, s.strides, s.before, s.dilations, s.ceil);
    CHECK(y.sizes() == expected.sizes());
    CHECK(at::allclose(y, expected, 0., 0., /*equal_nan=*/true));
  }
}

TEST_CASE("max_pool_last_gradient: torch's, of values that differ and of equal ones") {
  for (const Shape& s : kShapes) {
    CAPTURE(s.channels);
    for (const bool equal : {false, true}) {
      at::Tensor x = last(at::randn({3, s.channels, s.height, s.width}));
      if (equal) x = last(x.sign());
      const auto [expected, indices] =
          at::max_pool2d_with_indices(x, s.kernel, s.strides, s.before, s.dilations, s.ceil);
      const at::Tensor g = at::randn_like(expected);
      const at::Tensor wanted = at::max_pool2d_with_indices_backward(
          g, x, s.kernel, s.strides, s.before, s.dilations, s.ceil, indices);
      const at::Tensor y = max_pool_last(x, s.window());
      for (const at::Tensor& order : {g, g.contiguous()}) {
        CHECK(at::allclose(max_pool_last_gradient(x, y, order, s.window()), wanted, 1e-5, 1e-5));
      }
    }
  }
}

TEST_CASE("mean_pool_last: torch's means") {
  for (Shape s : kShapes) {
    s.before = {0, 0};
    s.dilations = {1, 1};
    s.ceil = false;
    const at::Tensor x = last(at::randn({2, s.channels, s.height, s.width}));
    const at::Tensor y = mean_pool_last(x, s.window());
    const at::Tensor expected = at::avg_pool2d(x, s.kernel, s.strides);
    CHECK(y.sizes() == expected.sizes());
    CHECK(at::allclose(y, expected, 1e-5, 1e-6));
  }
}

TEST_CASE("conv_one_channel: torch's convolution, with bias and relu") {
  for (const Shape& s : kShapes) {
    for (const bool relu : {false, true}) {
      CAPTURE(s.channels);
      const at::Tensor x = at::randn({2, 1, s.height, s.width});
      const at::Tensor w = at::randn({s.channels, 1, s.kernel[0], s.kernel[1]});
      const at::Tensor b = relu ? at::randn({s.channels}) : at::Tensor();
      Window window = s.window();
      at::Tensor expected =
          at::convolution(x.to(at::kDouble), w.to(at::kDouble), b.defined() ? b.to(at::kDouble) : b,
                          s.strides, s.before, s.dilations, false, {0, 0}, 1);
      if (relu) expected.relu_();
      if (!is_one_channel(x, w, 1, window)) {
        CHECK((s.channels < 8 || expected.size(3) < 4));  // too narrow for it
        continue;
      }
      const at::Tensor y = conv_one_channel(x, w, b, window, relu);
      CHECK(y.sizes() == expected.sizes());
      CHECK(y.is_contiguous(at::MemoryFormat::ChannelsLast));
      CHECK(at::allclose(y.to(at::kDouble), expected, 1e-5, 1e-5));
    }
  }
}

TEST_CASE("window loops: NaN stays NaN through relu; padding that differs by side") {
  at::Tensor x = at::ones({1, 1, 4, 6});
  x.view({-1}).index_fill_(0, at::tensor({0}, at::kLong), std::nan(""));
  const at::Tensor w = at::ones({16, 1, 2, 2});
  const Window window{{2, 2}, {1, 1}, {1, 1}, {0, 1}, {1, 0}};
  const at::Tensor y = conv_one_channel(x, w, at::Tensor(), window, true);
  const at::Tensor expected = at::conv2d(at::constant_pad_nd(x, {1, 0, 0, 1}), w).relu();
  CHECK(at::allclose(y, expected, 1e-6, 0., /*equal_nan=*/true));
  CHECK(y.isnan().any().item<bool>());
}
