#include "grapeshot/core/confirm.h"

#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/core/denormals.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

Property sum_at_least(double bound) {
  return property(2, 1, {{cube(2, 0.f, 1.f), {{{above(0, bound)}}}}});
}

Confirmation confirm_at(const Model& model, const Property& p, const std::vector<float>& x) {
  return confirm(model, p, x);
}

}  // namespace

TEST_CASE("confirm: what violates in float32 and in float64 holds") {
  const FakeModel model = FakeModel::sum(2);
  const Confirmation c = confirm_at(model, sum_at_least(1.), {0.5f, 0.75f});
  CHECK(c.holds);
  CHECK(c.clear);
  CHECK(c.y32 == std::vector<double>{1.25});
  CHECK(c.y64 == std::vector<double>{1.25});
  CHECK(c.verdict32.margin == -0.25);
  CHECK(c.verdict64.margin == -0.25);
  CHECK(c.rounding == 0.);
  CHECK(model.evaluate_rows == 2);
  CHECK(model.forward_rows == 0);  // the batched passes play no part
}

TEST_CASE("confirm: a tie without rounding is a clear violation") {
  const FakeModel model = FakeModel::sum(2);
  const Confirmation c = confirm_at(model, sum_at_least(1.25), {0.5f, 0.75f});
  CHECK(c.holds);
  CHECK(c.clear);
  CHECK(c.verdict64.margin == 0.);
}

TEST_CASE("confirm: outside of the box nothing holds") {
  const FakeModel model = FakeModel::sum(2);
  const Confirmation c = confirm_at(model, sum_at_least(1.), {1.0000001f, 1.f});
  CHECK(!c.holds);
  CHECK(!c.clear);
  CHECK(c.verdict32.region == -1);
  CHECK(c.y32.size() == 1);
}

TEST_CASE("confirm: only one of the two precisions is not enough") {
  FakeModel model = FakeModel::sum(2);
  for (const at::ScalarType wrong : {at::kFloat, at::kDouble}) {
    model.function = [&](const at::Tensor& x) {
      return at::full({x.size(0), 1}, x.scalar_type() == wrong ? 0. : 5.).to(x.scalar_type());
    };
    const Confirmation c = confirm_at(model, sum_at_least(1.), {0.f, 0.f});
    CHECK(c.verdict32.violates == (wrong == at::kDouble));
    CHECK(c.verdict64.violates == (wrong == at::kFloat));
    CHECK(!c.holds);
    CHECK(!c.clear);
  }
}

TEST_CASE("confirm: a violation within the rounding holds, and is not clear") {
  FakeModel model = FakeModel::sum(2);
  double difference = 0.;
  model.function = [&](const at::Tensor& x) {
    const double y = x.scalar_type() == at::kFloat ? 1. : 1. + difference;
    return at::full({x.size(0), 1}, y, at::kDouble).to(x.scalar_type());
  };
  const auto at_bound = [&](double bound) {
    return confirm_at(model, sum_at_least(bound), {0.f, 0.f});
  };
  difference = 1e-3;
  CHECK(near(at_bound(0.9999).rounding, 4e-3, 1e-8));
  CHECK(at_bound(0.9999).holds);
  CHECK(!at_bound(0.9999).clear);
  CHECK(at_bound(0.99).clear);
  // However close the two are, float32 is not trusted below 2e-6 of the largest output.
  difference = 1e-9;
  CHECK(near(at_bound(0.9999999).rounding, 2e-6, 1e-10));
  CHECK(at_bound(0.9999999).holds);
  CHECK(!at_bound(0.9999999).clear);
  CHECK(at_bound(0.99999).clear);
}

TEST_CASE("confirm: an output that is NaN never holds") {
  FakeModel model = FakeModel::sum(2);
  model.function = [](const at::Tensor& x) { return at::full({x.size(0), 1}, kNan).to(x.dtype()); };
  const Confirmation c = confirm_at(model, sum_at_least(-100.), {0.f, 0.f});
  CHECK(!c.holds);
  CHECK(!c.clear);
}

#if defined(__x86_64__)
TEST_CASE("confirm: keeps denormals on a thread that flushes them while proposing") {
  FakeModel model = FakeModel::sum(2);
  model.function = [](const at::Tensor& x) { return (x.sum(1, true) * 1e-38).mul(1e-4); };
  const Property p = property(2, 1, {{cube(2, 0.f, 1.f), {{{below(0, 0.)}}}}});
  const FlushDenormals flush(true);
  // A denormal output is above 0; flushed to zero it would be a violation.
  const Confirmation c = confirm_at(model, p, {1.f, 0.f});
  CHECK(c.y32[0] > 0.);
  CHECK(!c.holds);
  CHECK(model.function(at::ones({1, 2})).item<float>() == 0.f);  // and flushes again behind it
}
#endif
