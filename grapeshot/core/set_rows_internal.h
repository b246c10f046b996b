// grapeshot/core/set_rows_internal.h: what steps of gradients and of noise share.
#pragma once

#include <ATen/core/Tensor.h>

#include "grapeshot/core/set_rows.h"

namespace grapeshot {

/// `move` [N, D], longer where no input of a row would reach the next value of the grid: the one
/// that goes farthest then does.
[[nodiscard]] at::Tensor reaching_grid(const at::Tensor& move, const SetRows& set);

}  // namespace grapeshot
