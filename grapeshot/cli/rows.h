// grapeshot/cli/rows.h: what commands do with a batch of inputs, and files that they write.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"

namespace grapeshot::cli {

/// Classes [N] int64 that `model` predicts for rows x [N, D] float32, by batches as the cache
/// likes.
[[nodiscard]] at::Tensor predictions(const Model& model, const at::Tensor& x);

/// Writes `x` in its own dtype (float32 or float64) and shape as .npy.
void write_tensor(const std::string& path, const at::Tensor& x);

/// Throws Error{kInvalidArgument} when a file at `path` could not be written: before the work, not
/// after it.
void check_can_write(const std::string& path);

}  // namespace grapeshot::cli
