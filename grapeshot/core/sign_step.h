// grapeshot/core/sign_step.h: what a gradient step does to its rows besides the network's passes,
// in one walk over the memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace grapeshot {

/// How far a step goes: scale * row * eta, or scale * row * range * (hi - lo) where `range` is
/// given, which is then what eta is made of: computed on the way, it need not be read from memory.
struct StepSize {
  at::Tensor eta;  ///< broadcasts to [N, D]
  double range;    ///< 0: eta is not a share of every range
  at::Tensor row;  ///< [N], or undefined for 1
};

/// x [N, D] becomes clamp(x + size * sign(gradient), lo, hi). A gradient that is NaN moves nothing.
void sign_step(at::Tensor& x, const at::Tensor& gradient, const StepSize& size, double scale,
               const at::Tensor& lo, const at::Tensor& hi);

/// Where margin [N] is smaller than best_margin: x [N, D] and margin become the row's best.
void keep_better(at::Tensor best_x, at::Tensor best_margin, const at::Tensor& x,
                 const at::Tensor& margin);

}  // namespace grapeshot
