// Bounds of networks hold for all inputs in the box, and are exact where only one input moves.
#include "grapeshot/io/onnx/interval.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/io/onnx/model.h"
#include "tests/support/nets.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::OnnxModel;

namespace {

void check_holds(const OnnxModel& model, double radius) {
  const at::Tensor centre = at::rand({5, model.inputs()});
  const at::Tensor lo = centre - radius, hi = centre + radius;
  const auto bounds = model.bounds(lo, hi, Head::kOutputs);
  REQUIRE(bounds.has_value());
  for (int i = 0; i < 50; ++i) {
    const at::Tensor u = at::rand_like(lo);
    const at::Tensor x = at::lerp(lo, hi, i % 2 == 0 ? u : (u < 0.5).to(at::kFloat));
    const at::Tensor y = model.forward(x, Head::kOutputs);
    CHECK((y >= bounds->lo - 1e-4).all().item<bool>());
    CHECK((y <= bounds->hi + 1e-4).all().item<bool>());
  }
  const auto point = model.bounds(centre, centre, Head::kOutputs);
  CHECK(at::allclose(point->lo, model.forward(centre, Head::kOutputs), 1e-4, 1e-4));
}

}  // namespace

TEST_CASE("bounds: a layer, Relu, a difference and products by constants") {
  Net net({1, 6});
  net.constant("w", weights({6, 8}, 1)).constant("b", weights({8}, 2));
  net.constant("v", weights({8, 3}, 3)).constant("s", vector({-2.f, 0.5f, 3.f}));
  net.add("Gemm", {"x", "w", "b"}, "h").add("Relu", {"h"}, "r").add("MatMul", {"r", "v"}, "o");
  net.add("Mul", {"o", "s"}, "m").add("Sigmoid", {"o"}, "g").add("Sub", {"m", "g"}, "y");
  check_holds(OnnxModel(net.graph()), 0.1);
}

TEST_CASE("bounds: a convolution with pooling") {
  Net net({1, 2, 6, 6});
  net.constant("w", weights({4, 2, 3, 3}, 1)).constant("b", weights({4}, 2));
  net.add("Conv", {"x", "w", "b"}, "c").add("Relu", {"c"}, "r");
  net.add("GlobalAveragePool", {"r"}, "p").add("Flatten", {"p"}, "y");
  check_holds(OnnxModel(net.graph()), 0.05);
}

TEST_CASE("bounds: one input alone through a monotone network is exact") {
  Net net({1, 1});
  net.constant("w", vector({3.f}).view({1, 1}));
  net.add("MatMul", {"x", "w"}, "h").add("Tanh", {"h"}, "y");
  const OnnxModel model(net.graph());
  const at::Tensor lo = at::full({1, 1}, -0.5), hi = at::full({1, 1}, 0.25);
  const auto bounds = model.bounds(lo, hi, Head::kOutputs);
  REQUIRE(bounds.has_value());
  CHECK(bounds->lo.item<float>() == doctest::Approx(std::tanh(-1.5)));
  CHECK(bounds->hi.item<float>() == doctest::Approx(std::tanh(0.75)));
}

TEST_CASE("bounds: nothing for an operator without an interval form, nor for x times x") {
  Net sine({1, 3});
  sine.add("Sin", {"x"}, "y");
  const at::Tensor x = at::zeros({1, 3});
  CHECK(!OnnxModel(sine.graph()).bounds(x, x, Head::kOutputs));
  Net square({1, 3});
  square.add("Mul", {"x", "x"}, "y");
  CHECK(!OnnxModel(square.graph()).bounds(x, x, Head::kOutputs));
}
