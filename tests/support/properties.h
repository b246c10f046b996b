// tests/support/properties.h: specifications built by hand.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "grapeshot/core/property.h"

namespace grapeshot::testing {

/// Y_output <= bound.
inline LinearRow below(int32_t output, double bound) {
  return {.terms = {{output, 1.}}, .bound = bound};
}

/// Y_output >= bound.
inline LinearRow above(int32_t output, double bound) {
  return {.terms = {{output, -1.}}, .bound = -bound};
}

/// Y_low <= Y_high.
inline LinearRow ordered(int32_t low, int32_t high) {
  const Term mine{low, 1.}, other{high, -1.};
  return {.terms = low < high ? std::vector{mine, other} : std::vector{other, mine}, .bound = 0.};
}

inline Box box(std::vector<float> lo, std::vector<float> hi) {
  return {.lo = std::move(lo), .hi = std::move(hi), .nearest = {}, .empty = false};
}

/// [lo, hi] in all of `inputs` coordinates.
inline Box cube(int64_t inputs, float lo, float hi) {
  const auto n = static_cast<size_t>(inputs);
  return box(std::vector<float>(n, lo), std::vector<float>(n, hi));
}

/// Some other output is at least Y_label.
inline std::vector<Case> top1(int32_t label, int32_t outputs) {
  std::vector<Case> cases;
  for (int32_t j = 0; j < outputs; ++j) {
    if (j != label) cases.push_back({{ordered(label, j)}});
  }
  return cases;
}

inline Property property(int64_t inputs, int64_t outputs, std::vector<Region> regions) {
  return {.inputs = inputs, .outputs = outputs, .regions = std::move(regions)};
}

}  // namespace grapeshot::testing
