// grapeshot/diff/objective.h: what a step of differential fuzzing makes of the outputs.
//
// An objective is one function and one row of the table in objective.cpp. Shapes: n rows, K
// classes.
#pragma once

#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace grapeshot::diff {

struct Objective {
  std::string_view name, summary;
  /// The gradient [n, K] by the outputs y [n, K] of what is climbed; `of_class` [n, K] are the
  /// weights of the classes.
  at::Tensor (*cotangent)(const at::Tensor& y, const at::Tensor& of_class);
  bool drives_largest;  ///< and the neuron of the largest magnitude, away from 0
};

[[nodiscard]] std::span<const Objective> objectives();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const Objective& find_objective(std::string_view name);

}  // namespace grapeshot::diff
