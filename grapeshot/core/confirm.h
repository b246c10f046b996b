// grapeshot/core/confirm.h: whether a proposed counterexample holds, checked again and exactly.
//
// Independent of the batched passes: the graph as read, one row, in float32 without flushing of
// denormals and in float64; the property by core/property.h in place of the tensors of core/spec.h.
#pragma once

#include <span>
#include <vector>

#include "grapeshot/core/model.h"
#include "grapeshot/core/property.h"

namespace grapeshot {

struct Confirmation {
  Verdict verdict32, verdict64;  ///< of the float32 and the float64 outputs
  std::vector<double> y32, y64;  ///< the outputs
  double rounding =
      0.;              ///< what float32 may be off by: from the two, and 2e-6 of the largest output
  bool holds = false;  ///< both violate: the claim of `check` and `replay`
  bool clear = false;  ///< holds, by more than `rounding` or with outputs free of rounding:
                       ///< another order of summation will agree
};

/// `x` has model.inputs() entries; inside no region, nothing holds.
[[nodiscard]] Confirmation confirm(const Model& model, const Property& property,
                                   std::span<const float> x);

}  // namespace grapeshot
