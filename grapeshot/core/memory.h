// grapeshot/core/memory.h: how much memory tensors take, measured, and what to do with that.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "grapeshot/core/model.h"

namespace grapeshot {

/// Bytes of tensors at most, beyond what was there before, while `work` runs on this thread. What
/// oneDNN takes for itself is not seen.
[[nodiscard]] int64_t peak_tensor_bytes(const std::function<void()>& work);

/// Whether it says that memory ran out, on the host or a device.
[[nodiscard]] bool is_out_of_memory(const std::exception& error);

/// What to say when passes of `model` have no more than `rows` rows from now on.
[[nodiscard]] std::string out_of_memory_note(const Model& model, int64_t rows);

/// Bytes that a gradient pass of `model` takes for a row, with what the loop keeps of the row:
/// measured on one where counting its values says that it may matter for `budget` bytes, else what
/// the count says.
[[nodiscard]] int64_t bytes_per_row(const Model& model, int64_t budget);

/// Rows of a pass: as many as the cache likes (micro_batch) and `budget` bytes allow, 1 at least.
/// Each takes `besides` bytes more than the model's pass.
[[nodiscard]] int64_t rows_within(const Model& model, int64_t budget, int64_t besides = 0);

/// What lanes and shards of a campaign may take.
struct Room {
  int64_t lanes = 1, threads = 1;  ///< lanes, and threads of each
  int64_t corpus_bytes = 0;        ///< of one shard
  int64_t pass_bytes = 0;          ///< of one lane
};

/// Shares `bytes` out: one half to the corpora, a shard per model and one more for each lane that
/// joins another, one half to the lanes' passes. A lane a core, unless so large a network is among
/// `models` that not even one row for each of them fits: then fewer, with several threads each.
[[nodiscard]] Room share_memory(const std::vector<const Model*>& models, int64_t bytes,
                                int64_t cores);

}  // namespace grapeshot
