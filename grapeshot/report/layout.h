// grapeshot/report/layout.h: what an input looks like, from its shape.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "grapeshot/report/run.h"

namespace grapeshot::report {

/// An input that is a picture of 1 (grey) or 3 (red, green, blue) channels.
struct ImageLayout {
  int64_t height = 0, width = 0, channels = 1;
  bool channels_last = false;

  /// Where the value of a pixel's channel is in the flat input.
  [[nodiscard]] size_t at(int64_t row, int64_t column, int64_t channel) const {
    return static_cast<size_t>(channels_last ? (row * width + column) * channels + channel
                                             : (channel * height + row) * width + column);
  }
};

/// [1, C, H, W] and [1, H, W, C], [C, H, W] and [H, W, C] with C = 1 or 3, and a flat input of s*s
/// or 3*s*s values with s of 16 or more, such as 784; nothing for sequences and tables. Where both
/// orders would do, channels first.
[[nodiscard]] std::optional<ImageLayout> image_layout(const std::vector<int64_t>& shape);

/// The shapes in which the run's findings are drawn, one each: `input_shape` where it has as many
/// values, an image's of another model of the run for flat inputs of its size, else the model's
/// own.
[[nodiscard]] std::vector<std::vector<int64_t>> drawn_shapes(const Run& run);

}  // namespace grapeshot::report
