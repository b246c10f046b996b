#include "grapeshot/core/scale.h"

#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/files.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

// Two rows of three coordinates; the ranges are 1, 2, 0 and 4, 0.5, 8.
const std::vector<float> kLo = {0.f, -1.f, 3.f, -2.f, 0.f, 1.f};
const std::vector<float> kHi = {1.f, 1.f, 3.f, 2.f, 0.5f, 9.f};

at::Tensor eta(const char* scale, const ScaleOptions& options) {
  return find_scale(scale).apply(matrix(2, 3, kLo), matrix(2, 3, kHi), options);
}

}  // namespace

TEST_CASE("ani: a share of each range, Eq. 13") {
  CHECK(floats(eta("ani", {.factor = 0.5})) == std::vector<float>{0.5f, 1.f, 0.f, 2.f, 0.25f, 4.f});
  CHECK(eta("ani", {.factor = 0.1}).sizes() == at::IntArrayRef({2, 3}));
  CHECK(floats(eta("ani", {.factor = 1.})) == std::vector<float>{1.f, 2.f, 0.f, 4.f, 0.5f, 8.f});
}

TEST_CASE("iso: one share of the mean range over rows and coordinates, Eq. 12") {
  // (1 + 2 + 0 + 4 + 0.5 + 8) / 6 = 2.58333...
  const at::Tensor step = eta("iso", {.factor = 0.1});
  CHECK(step.numel() == 1);
  CHECK(step.item<double>() == doctest::Approx(0.1 * 15.5 / 6.).epsilon(1e-6));
  CHECK(at::broadcast_tensors({step, matrix(2, 3, kLo)})[0].sizes() == at::IntArrayRef({2, 3}));
}

TEST_CASE("fixed: the step that was asked for, whatever the ranges are") {
  const at::Tensor step = eta("fixed", {.factor = 0.7, .eta = 0.03});
  CHECK(step.numel() == 1);
  CHECK(step.item<float>() == 0.03f);
  CHECK(ScaleOptions{}.eta == 0.01);
  CHECK(ScaleOptions{}.factor == 0.1);
}

TEST_CASE("scales: all steps are >= 0, of the box's type, and broadcast to it") {
  const at::Tensor lo = at::rand({5, 4}) - 1., hi = lo + at::rand({5, 4});
  for (const Scale& scale : scales()) {
    CAPTURE(scale.name);
    CHECK(!scale.summary.empty());
    const at::Tensor step = scale.apply(lo, hi, {});
    CHECK((step.scalar_type() == at::kFloat));
    CHECK(step.expand({5, 4}).ge(0).all().item<bool>());
  }
}

TEST_CASE("find_scale: an unknown name lists the known ones") {
  CHECK(message_of(ErrorCode::kNotFound, [] { (void)find_scale("log"); }) ==
        "no scale is called 'log'; known: fixed, iso, ani");
}
