#include "grapeshot/io/onnx/bit_loops.h"

#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/core/rng.h"

using namespace grapeshot;        // NOLINT(google-build-using-namespace)
using namespace grapeshot::onnx;  // NOLINT(google-build-using-namespace)

namespace {

at::Tensor coins(at::IntArrayRef sizes, Rng& rng) {
  return at::rand(sizes, rng.generator()).lt(0.5).to(at::kFloat) * 2. - 1.;
}

}  // namespace

TEST_CASE("pack_bits: weights of one size for each unit, none of them 0") {
  CHECK(pack_bits(at::tensor({1.f, -1.f, 1.f, -2.f, 2.f, 2.f}).view({2, 3})));
  CHECK(!pack_bits(at::tensor({1.f, -1.f, 1.5f}).view({1, 3})));
  CHECK(!pack_bits(at::tensor({0.f, 0.f}).view({1, 2})));
  CHECK(!pack_bits(at::tensor({1.f, 0.f}).view({1, 2})));
  CHECK(!pack_bits(at::full({1, 2}, std::numeric_limits<float>::infinity())));
  CHECK(!pack_bits(at::full({1, 2}, std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("bit_product: exactly the sum of products, of any number of terms and units") {
  Rng rng(uint64_t{1});
  for (const auto& [rows, terms, units] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                              {3, 7, 5},
                                                                              {2, 64, 8},
                                                                              {4, 65, 9},
                                                                              {5, 800, 64},
                                                                              {2, 1023, 43},
                                                                              {0, 5, 3},
                                                                              {3, 128, 40}}) {
    CAPTURE(terms);
    CAPTURE(units);
    const at::Tensor x = coins({rows, terms}, rng), w = coins({units, terms}, rng);
    const at::Tensor sizes = at::arange(1, units + 1, at::kFloat).unsqueeze(1);
    const at::Tensor bias = at::arange(units, at::kFloat) - 3.;
    const std::optional<BitWeights> packed = pack_bits(w * sizes);
    REQUIRE(packed);
    CHECK(at::equal(bit_product(*packed, bias, x), x.mm((w * sizes).t()) + bias));
  }
}

TEST_CASE("bit_convolution: exactly torch's, with strides and kernels of any shape") {
  Rng rng(uint64_t{2});
  for (const ConvPlan& plan :
       {ConvPlan{8, 3, 1, 1}, ConvPlan{16, 32, 2, 2}, ConvPlan{32, 64, 5, 5},
        ConvPlan{24, 9, 3, 2, 2, 1}, ConvPlan{64, 64, 3, 3}, ConvPlan{72, 130, 1, 3, 1, 2}}) {
    CAPTURE(plan.channels);
    REQUIRE(suits_bits(plan));
    const at::Tensor x = coins({3, plan.channels, 9, 8}, rng);
    const at::Tensor w = coins({plan.filters, plan.channels, plan.rows, plan.columns}, rng);
    const at::Tensor bias = at::arange(plan.filters, at::kFloat);
    const auto packed = pack_bits(w.permute({0, 2, 3, 1}).flatten(1));
    REQUIRE(packed);
    const at::Tensor y =
        at::convolution(x, w, bias, {plan.down, plan.right}, {0, 0}, {1, 1}, false, {0, 0}, 1);
    for (const at::Tensor& order : {x, x.contiguous(at::MemoryFormat::ChannelsLast)}) {
      CHECK(at::equal(bit_convolution(plan, *packed, bias, order), y));
    }
  }
  CHECK(!suits_bits({12, 3, 1, 1}));
  CHECK(!suits_bits({16, 3, 3, 3, 1, 1, 1, 0, 0, 0}));
}
