// grapeshot/cli/timing.h: how long a model's passes take.
#pragma once

#include <cstdint>

#include "grapeshot/core/model.h"

namespace grapeshot::cli {

/// Seconds of one forward pass over `rows` rows in micro-batches, as the loop makes them, on the
/// calling thread: the fastest of several within about `budget` seconds, at least three.
[[nodiscard]] double forward_seconds(const Model& model, int64_t rows, double budget);

}  // namespace grapeshot::cli
