// grapeshot/report/picture.h: inputs that are images, as PNG files in data URIs.
#pragma once

#include <span>
#include <string>

#include "grapeshot/report/layout.h"

namespace grapeshot::report {

/// The values that are shown as black and as white.
struct Range {
  double black = 0., white = 1.;
};

/// [0, 1] or [0, 255] where both inputs lie in it, else from their smallest to their largest value.
[[nodiscard]] Range range_of(std::span<const float> a, std::span<const float> b);

/// "data:image/png;base64,..." of an input; images of more than kMostSide pixels a side are
/// averaged down.
[[nodiscard]] std::string picture(const ImageLayout& layout, std::span<const float> x,
                                  const Range& range);

/// The same of a change: grey is none; of one channel more is red and less is blue, of three each
/// shows its own. `largest` is the change that is shown in full colour, above 0.
[[nodiscard]] std::string change_picture(const ImageLayout& layout, std::span<const float> change,
                                         double largest);

constexpr int64_t kMostSide = 128;

}  // namespace grapeshot::report
