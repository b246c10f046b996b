#include "grapeshot/base/directed.h"

#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// Doubles of few bits, whose sums and products long double holds exactly.
double few_bits(std::mt19937_64& random) {
  const auto mantissa = static_cast<double>(static_cast<int64_t>(random() % 4'000'001) - 2'000'000);
  return std::ldexp(mantissa, static_cast<int>(random() % 17) - 8);
}

}  // namespace

TEST_CASE("directed: what is exact stays as it is") {
  for (const Toward toward : {Toward::kBelow, Toward::kAbove}) {
    CHECK(add(0.5, 0.25, toward) == 0.75);
    CHECK(divide(255., 255., toward) == 1.);
    CHECK(divide(0., 255., toward) == 0.);
    CHECK(divide(-3., 4., toward) == -0.75);
    CHECK(to_float(0.375, toward) == 0.375f);
  }
}

TEST_CASE("directed: both roundings enclose the exact value and are neighbours") {
  CHECK(add(0.1, 0.2, Toward::kBelow) < 0.1L + 0.2L);
  CHECK(add(0.1, 0.2, Toward::kAbove) > 0.1L + 0.2L);
  // Far apart: the small one only shows in the direction.
  CHECK(add(1., 1e-30, Toward::kBelow) == 1.);
  CHECK(add(1., 1e-30, Toward::kAbove) == std::nextafter(1., kFar));
  CHECK(add(1., -1e-30, Toward::kBelow) == std::nextafter(1., -kFar));
  std::mt19937_64 random(5);
  int inexact = 0;
  for (int i = 0; i < 20000; ++i) {
    const double a = few_bits(random), b = std::abs(few_bits(random)) + 0.125;
    const double below = divide(a, b, Toward::kBelow), above = divide(a, b, Toward::kAbove);
    // A product of a double and one of 29 bits is not exact in 64; its remainder is.
    CHECK(std::fma(below, b, -a) <= 0.);
    CHECK(std::fma(above, b, -a) >= 0.);
    CHECK((below == above || std::nextafter(below, kFar) == above));
    inexact += below < above ? 1 : 0;
  }
  CHECK(inexact > 1000);
}

TEST_CASE("directed: tiny quotients and overflow stay on their side") {
  const double tiny = std::numeric_limits<double>::denorm_min();
  CHECK(divide(tiny, 2., Toward::kAbove) > 0.);
  CHECK(divide(tiny, 2., Toward::kBelow) <= 0.);
  CHECK(divide(-tiny, 2., Toward::kBelow) < 0.);
  CHECK(divide(-tiny, 2., Toward::kAbove) >= 0.);
  CHECK(divide(1e300, 1e-300, Toward::kAbove) == kFar);
  CHECK(add(1e308, 1e308, Toward::kAbove) == kFar);
}

TEST_CASE("directed: floats are the closest on their side") {
  CHECK(to_float(0.1, Toward::kBelow) < 0.1);
  CHECK(to_float(0.1, Toward::kAbove) > 0.1);
  CHECK(std::nextafter(to_float(0.1, Toward::kBelow), 1.f) == to_float(0.1, Toward::kAbove));
  CHECK(to_float(1e300, Toward::kBelow) == std::numeric_limits<float>::max());
  CHECK(std::isinf(to_float(1e300, Toward::kAbove)));
}
