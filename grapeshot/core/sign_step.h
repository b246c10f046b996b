// grapeshot/core/sign_step.h: what a gradient step does to its rows besides the network's passes,
// in one walk over the memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace grapeshot {

/// x [N, D] becomes clamp(x + scale * step * sign(gradient), lo, hi); `step` broadcasts to [N, D].
/// A gradient that is NaN moves nothing.
void sign_step(at::Tensor& x, const at::Tensor& gradient, const at::Tensor& step, double scale,
               const at::Tensor& lo, const at::Tensor& hi);

/// Where margin [N] is smaller than best_margin: x [N, D] and margin become the row's best.
void keep_better(at::Tensor best_x, at::Tensor best_margin, const at::Tensor& x,
                 const at::Tensor& margin);

}  // namespace grapeshot
