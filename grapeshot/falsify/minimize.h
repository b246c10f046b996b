// grapeshot/falsify/minimize.h: counterexamples as close to an original as can be found.
//
// A norm is one function and one row. What it returns is a counterexample by core/confirm.h, never
// farther from the original than what it began with.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/core/confirm.h"
#include "grapeshot/core/model.h"
#include "grapeshot/core/property.h"

namespace grapeshot::falsify {

struct Smaller {
  at::Tensor x;  ///< [D]
  Confirmation confirmation;
  double distance = 0., before = 0.;  ///< in the norm
  int64_t tries = 0;                  ///< inputs, or searches, that were tried
};

/// What there is to make smaller; all outlive the call.
struct Oversized {
  const Model& model;
  const Property& property;
  at::Tensor x, original;  ///< [D] float32; x is a counterexample
  uint64_t seed = 0;
  double seconds = 10.;
  const std::atomic<bool>* stop = nullptr;
};

struct Norm {
  std::string_view name;  ///< as typed after --norm
  std::string_view summary;
  double (*distance)(const at::Tensor& x, const at::Tensor& original);
  Smaller (*minimize)(const Oversized& finding);
};

/// linf, l2, l1, l0.
[[nodiscard]] std::span<const Norm> norms();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const Norm& find_norm(std::string_view name);

}  // namespace grapeshot::falsify
