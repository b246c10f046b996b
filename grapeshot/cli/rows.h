// grapeshot/cli/rows.h: a batch of inputs from a .npy file, and files that commands write.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"

namespace grapeshot::cli {

/// The rows of `path` as float64 [N, D], D = model.inputs(): the file is [N, D...], of any inner
/// shape, or a single row without a row axis. NaN and infinity pass.
/// Throws Error{kInvalidArgument} naming the file when its numbers are not whole rows.
[[nodiscard]] at::Tensor read_rows(const std::string& path, const Model& model);

/// Writes `x` in its own dtype (float32 or float64) and shape as .npy.
void write_tensor(const std::string& path, const at::Tensor& x);

/// Throws Error{kInvalidArgument} when a file at `path` could not be written: before the work, not
/// after it.
void check_can_write(const std::string& path);

}  // namespace grapeshot::cli
