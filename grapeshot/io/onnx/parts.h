// grapeshot/io/onnx/parts.h: sizes of the parts that an axis is split into, for Split and
// SplitToSequence.
#pragma once

#include <cstdint>
#include <span>

#include "grapeshot/base/error.h"

namespace grapeshot::onnx {

/// Throws Error{kInvalidArgument} unless the parts make up an axis of `size`, none below 0.
inline void check_parts(std::span<const int64_t> parts, int64_t size) {
  int64_t total = 0;
  for (const int64_t part : parts) {
    GRAPESHOT_CHECK(part >= 0 && part <= size - total, kInvalidArgument,
                    "the parts do not fit an axis of ", size);
    total += part;
  }
  GRAPESHOT_CHECK(total == size, kInvalidArgument, "the parts make ", total, " of an axis of ",
                  size);
}

}  // namespace grapeshot::onnx
