// grapeshot/diff/constraint.h: in which ways a step of differential fuzzing may change an image
// (DeepXplore: Pei, Cao, Yang, Jana, 2017, section 6.2).
//
// A constraint is one function and one row of the table in constraint.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/rng.h"

namespace grapeshot::diff {

/// Directions [n, D] like the gradients `g` [n, D], of inputs of `shape`, whose last two axes are
/// height and width where the constraint is about places.
using ConstrainFn = at::Tensor (*)(const at::Tensor& g, const std::vector<int64_t>& shape,
                                   Rng& rng);

struct Constraint {
  std::string_view name, summary;
  ConstrainFn apply;
  bool needs_image;  ///< inputs of at least two axes
};

[[nodiscard]] std::span<const Constraint> constraints();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const Constraint& find_constraint(std::string_view name);

}  // namespace grapeshot::diff
