// grapeshot/io/onnx/interval.h: interval arithmetic over a network: what its output can be for
// boxes of inputs.
//
// Operators that grow with each of their inputs run once on the lower and once on the upper ends;
// linear layers run on centres and radii; products take the extremes of four. Others have no
// interval form. Rounding is left out: the bounds guide a search and prove nothing.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

/// Bounds of tensor `wanted` ([N, shape...] each) for x between lo and hi [N, input_shape...].
[[nodiscard]] std::optional<std::pair<at::Tensor, at::Tensor>> interval(const Network& network,
                                                                        const std::string& wanted,
                                                                        const at::Tensor& lo,
                                                                        const at::Tensor& hi);

}  // namespace grapeshot::onnx
