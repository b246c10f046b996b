// grapeshot/io/data/image.h: pixels of PNG and JPEG files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace grapeshot::data {

/// 8 bits a channel, [height, width, channels] in row-major order. 1 channel is grey, 2 grey and
/// alpha, 3 RGB, 4 RGB and alpha.
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::string pixels;
};

[[nodiscard]] bool is_png(std::string_view head);
[[nodiscard]] bool is_jpeg(std::string_view head);

/// Palettes become colours, fewer bits than 8 become 8; gamma and profiles are left alone, as in
/// Pillow. Throws kParse "path: ..." for a damaged file, kUnsupported for 16 bits or CMYK, and for
/// more pixels than max_file_mib() of numbers.
[[nodiscard]] Image decode_image(std::string_view bytes, const std::string& path);

}  // namespace grapeshot::data
