// grapeshot/base/directed.h: sums and quotients of doubles, rounded in one direction.
//
// The nearest double and the sign of what it leaves out give the directed one, without a change of
// the processor's rounding mode, which compilers do not honour. What is exact stays as it is.
#pragma once

#include <cmath>
#include <limits>

namespace grapeshot {

enum class Toward { kBelow, kAbove };

namespace directed {

// `nearest`, or its neighbour where the exact value is `rest` (its sign counts) away from it.
inline double correct(double nearest, double rest, Toward toward) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (toward == Toward::kAbove) return rest > 0. ? std::nextafter(nearest, kInfinity) : nearest;
  return rest < 0. ? std::nextafter(nearest, -kInfinity) : nearest;
}

}  // namespace directed

/// a + b; infinite where the nearest double is.
[[nodiscard]] inline double add(double a, double b, Toward toward) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  // Knuth's two-sum: what the sum leaves out, exactly.
  const double part = sum - a;
  return directed::correct(sum, (a - (sum - part)) + (b - part), toward);
}

/// a / b for b > 0; may be one step beyond the closest such double where it is denormal.
[[nodiscard]] inline double divide(double a, double b, Toward toward) {
  const double quotient = a / b;
  if (!std::isfinite(quotient)) return quotient;
  if (std::abs(a) < 1e-280 || std::abs(quotient) < 1e-280) {
    // The remainder would round to zero.
    return directed::correct(quotient, a == 0. ? 0. : toward == Toward::kAbove ? 1. : -1., toward);
  }
  return directed::correct(quotient, std::fma(-quotient, b, a), toward);
}

/// The closest float that is not on the other side of `x`; infinite beyond the largest one.
[[nodiscard]] inline float to_float(double x, Toward toward) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto nearest = static_cast<float>(x);
  if (toward == Toward::kAbove) {
    return static_cast<double>(nearest) < x ? std::nextafter(nearest, kInfinity) : nearest;
  }
  return static_cast<double>(nearest) > x ? std::nextafter(nearest, -kInfinity) : nearest;
}

}  // namespace grapeshot
