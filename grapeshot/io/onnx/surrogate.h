// grapeshot/io/onnx/surrogate.h: step functions whose gradient is zero almost everywhere, with a
// straight-through gradient (Bengio et al., 2013; Hubara et al., 2016) when one is asked for.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"

namespace grapeshot::onnx {

enum class StepKind {
  kSign,   ///< -1, 0, 1
  kStep,   ///< x >= 0 ? 1 : -1, what Sign(Sign(x) + c) computes for 0 < c < 1
  kRound,  ///< half to even
  kFloor,
  kCeil,
};

/// Whether the ONNX operator is one of these: its gradient is a surrogate.
[[nodiscard]] inline bool is_step_operator(std::string_view op) {
  return op == "Sign" || op == "Round" || op == "Floor" || op == "Ceil";
}

/// The step function of `x`, element by element. Where history is recorded, the gradient passes
/// straight through: everywhere (kLoose), or for kSign and kStep only where |x| is at most the mean
/// |x| of its row, the first axis (kBounded), or at most the row's window (kWindowed).
[[nodiscard]] at::Tensor step_function(const at::Tensor& x, StepKind kind,
                                       const Surrogate& surrogate);

/// What the gradient dL/d(step_function(x)) becomes on its way to x.
[[nodiscard]] at::Tensor step_gradient(const at::Tensor& x, StepKind kind,
                                       const Surrogate& surrogate, const at::Tensor& gradient);

}  // namespace grapeshot::onnx
