#include "grapeshot/report/picture.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <png.h>

#include "grapeshot/base/error.h"
#include "grapeshot/report/escape.h"

namespace grapeshot::report {
namespace {

// The image of at most kMostSide a side: blocks of it are averaged.
struct Small {
  ImageLayout layout;
  std::vector<double> values;  // in the order of its layout
};

Small shrink(const ImageLayout& from, std::span<const float> x) {
  const int64_t longest = std::max(from.height, from.width);
  const int64_t block = (longest + kMostSide - 1) / kMostSide;
  Small out{{(from.height + block - 1) / block, (from.width + block - 1) / block, from.channels,
             from.channels_last},
            {}};
  std::vector<double> count;
  out.values.resize(static_cast<size_t>(out.layout.height * out.layout.width * from.channels));
  count.resize(out.values.size());
  for (int64_t r = 0; r < from.height; ++r) {
    for (int64_t c = 0; c < from.width; ++c) {
      for (int64_t k = 0; k < from.channels; ++k) {
        const size_t to = out.layout.at(r / block, c / block, k);
        out.values[to] += static_cast<double>(x[from.at(r, c, k)]);
        count[to] += 1.;
      }
    }
  }
  for (size_t i = 0; i < count.size(); ++i) out.values[i] /= count[i];
  return out;
}

uint8_t byte_of(double share) {
  return static_cast<uint8_t>(std::lround(255. * (share > 0. ? std::min(share, 1.) : 0.)));
}

// Pixels row by row, with 1 or 3 bytes each.
std::string data_uri(const ImageLayout& layout, const std::vector<uint8_t>& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(layout.width);
  image.height = static_cast<png_uint_32>(layout.height);
  const bool grey = bytes.size() == static_cast<size_t>(layout.width * layout.height);
  image.format = grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string out(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = out.size();
  const int done =
      png_image_write_to_memory(&image, out.data(), &size, 0, bytes.data(), 0, nullptr);
  GRAPESHOT_CHECK(done != 0, kSystem, "libpng cannot write an image: ", image.message);
  out.resize(size);
  return "data:image/png;base64," + base64(out);
}

// Every channel of every pixel by `shade`.
std::string draw(const Small& small, const std::function<uint8_t(double)>& shade) {
  const ImageLayout& layout = small.layout;
  std::vector<uint8_t> bytes;
  for (int64_t r = 0; r < layout.height; ++r) {
    for (int64_t c = 0; c < layout.width; ++c) {
      for (int64_t k = 0; k < layout.channels; ++k) {
        bytes.push_back(shade(small.values[layout.at(r, c, k)]));
      }
    }
  }
  return data_uri(layout, bytes);
}

}  // namespace

Range range_of(std::span<const float> a, std::span<const float> b) {
  double least = INFINITY, most = -INFINITY;
  for (const std::span<const float> x : {a, b}) {
    for (const float value : x) {
      least = std::min(least, static_cast<double>(value));
      most = std::max(most, static_cast<double>(value));
    }
  }
  if (!(least < most)) return {least - 1., least + 1.};
  if (least >= 0. && most <= 1.) return {0., 1.};
  if (least >= 0. && most > 2. && most <= 255.) return {0., 255.};
  return {least, most};
}

std::string picture(const ImageLayout& layout, std::span<const float> x, const Range& range) {
  return draw(shrink(layout, x), [&](double value) {
    return byte_of((value - range.black) / (range.white - range.black));
  });
}

std::string change_picture(const ImageLayout& layout, std::span<const float> change,
                           double largest) {
  const Small small = shrink(layout, change);
  if (layout.channels == 3) {
    return draw(small, [&](double value) { return byte_of(.5 + .5 * value / largest); });
  }
  // Red and blue of much the same lightness, which also those can tell apart who see no red.
  constexpr double kMore[] = {.79, .18, .16}, kLess[] = {.13, .4, .68}, kNone = .93;
  std::vector<uint8_t> bytes;
  for (const double value : small.values) {
    const double share = std::min(std::abs(value) / largest, 1.);
    for (int k = 0; k < 3; ++k) {
      bytes.push_back(byte_of(kNone + share * ((value > 0. ? kMore : kLess)[k] - kNone)));
    }
  }
  return data_uri(small.layout, bytes);
}

}  // namespace grapeshot::report
