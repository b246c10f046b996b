// grapeshot/core/scale.h: how far a mutation moves each coordinate.
//
// "Tensor-Based Batch Fuzzing with Adaptive Perturbation Scaling", Zhang and Sui, 2026, Eq. 12, 13.
#pragma once

#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace grapeshot {

struct ScaleOptions {
  double factor = 0.1;  ///< s in (0, 1]: the share of a range that one step moves
  double eta = 0.01;    ///< the step of `fixed`, input units
};

/// lo, hi [N, D] to the step eta, broadcastable to [N, D], input units.
using ScaleFn = at::Tensor (*)(const at::Tensor& lo, const at::Tensor& hi,
                               const ScaleOptions& options);

struct Scale {
  std::string_view name, summary;
  ScaleFn apply;
  bool of_each_range;  ///< the step is s times the range of every row and coordinate
};

/// fixed: eta; iso: s times the mean range over all rows and coordinates; ani: s times each range.
[[nodiscard]] std::span<const Scale> scales();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const Scale& find_scale(std::string_view name);

}  // namespace grapeshot
