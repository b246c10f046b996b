#include "grapeshot/falsify/minimize.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kInputs = 20;

// The sum of 20 inputs in [0, 1] is at least 14; the original has 10.
Property at_least_14() {
  return property(kInputs, 1, {{cube(kInputs, 0.f, 1.f), {{{above(0, 14.)}}}}});
}

falsify::Smaller smaller(std::string_view norm, const at::Tensor& x) {
  const FakeModel model = FakeModel::sum(kInputs);
  const Property p = at_least_14();
  const falsify::Oversized finding{model, p, x, at::full({kInputs}, 0.5), 1, 3., nullptr};
  return falsify::find_norm(norm).minimize(finding);
}

}  // namespace

TEST_CASE("minimize linf: every input a little is the closest, and it is found") {
  // From corners of distance 0.5; the least possible is (14 - 10) / 20.
  const falsify::Smaller out = smaller("linf", at::ones({kInputs}));
  CHECK(out.before == doctest::Approx(0.5));
  CHECK(out.confirmation.holds);
  CHECK(out.distance >= 0.2 - 1e-6);
  CHECK(out.distance < 0.203);
}

TEST_CASE("minimize l0: as few inputs as can do it, all the way") {
  // Each gives 0.5 at most: eight are needed.
  const falsify::Smaller out = smaller("l0", at::ones({kInputs}));
  CHECK(out.before == 20);
  CHECK(out.confirmation.holds);
  CHECK(out.distance == 8);
  CHECK((out.x != 0.5).sum().item<int64_t>() == 8);
}

TEST_CASE("minimize: nothing is made worse; an unknown norm lists those there are") {
  const at::Tensor close = at::full({kInputs}, 0.7001);
  const falsify::Smaller out = smaller("linf", close);
  CHECK(out.distance <= out.before);
  CHECK(out.confirmation.holds);
  CHECK_THROWS_WITH_AS((void)falsify::find_norm("l7"),
                       "no norm is called 'l7'; known: linf, l2, l1, l0", Error);
}

TEST_CASE("minimize: ends in time, however little that is") {
  const FakeModel model = FakeModel::sum(kInputs);
  const Property p = at_least_14();
  for (const double seconds : {1e-6, 0.01, 0.3}) {
    const falsify::Oversized finding{
        model, p, at::ones({kInputs}), at::full({kInputs}, 0.5), 1, seconds, nullptr};
    const Clock::time_point start = Clock::now();
    CHECK(falsify::find_norm("linf").minimize(finding).confirmation.holds);
    CHECK(seconds_since(start) < seconds + 1.);
  }
}
