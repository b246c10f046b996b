// grapeshot/cli/diff_limits.h: the limits of `diff` as its options and its images have them.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "grapeshot/cli/data_rows.h"
#include "grapeshot/diff/diff.h"

namespace grapeshot::cli {

/// Limits are given in the units of the data, and hold in those of the network: one factor and one
/// offset for all inputs, rounded inwards. Throws Error{kInvalidArgument} for rows that have more,
/// and for a grid in other units.
void to_network_units(diff::DiffOptions& options, const DataRows& rows);

/// Of every input, [D] bool: `frozen` is as FreeInputs has it, but the same for all rows.
[[nodiscard]] at::Tensor frozen_inputs(const std::string& frozen, const DataRows& rows);

/// Fills in the range, where none was given. Throws Error{kInvalidArgument} naming `data` where
/// images [N, D] do not keep to it, or to the grid.
void check_range(diff::Limits& limits, const at::Tensor& images, const std::string& data);

}  // namespace grapeshot::cli
