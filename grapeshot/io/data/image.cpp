#include "grapeshot/io/data/image.h"

#include <algorithm>
#include <memory>

#include <spng.h>
#include <turbojpeg.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/data/formats_internal.h"

namespace grapeshot::data {
namespace {

Image blank(const std::string& path, uint64_t height, uint64_t width, int64_t channels) {
  check_numbers(path, height, width * static_cast<uint64_t>(channels));
  Image out{static_cast<int64_t>(height), static_cast<int64_t>(width), channels, {}};
  out.pixels.resize(height * width * static_cast<uint64_t>(channels));
  return out;
}

// What spng writes for a PNG, and how many channels that has.
struct PngForm {
  int format;
  int64_t channels;
};

PngForm form_of(spng_ctx* png, const spng_ihdr& head) {
  switch (head.color_type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
      return {head.bit_depth < 8 ? SPNG_FMT_G8 : SPNG_FMT_PNG, 1};
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      return {SPNG_FMT_PNG, 2};
    case SPNG_COLOR_TYPE_INDEXED: {
      spng_trns transparent;
      return spng_get_trns(png, &transparent) == 0 ? PngForm{SPNG_FMT_RGBA8, 4}
                                                   : PngForm{SPNG_FMT_RGB8, 3};
    }
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      return {SPNG_FMT_PNG, 4};
    default:
      return {SPNG_FMT_PNG, 3};
  }
}

Image decode_png(std::string_view bytes, const std::string& path) {
  const std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)> png(spng_ctx_new(0), &spng_ctx_free);
  GRAPESHOT_CHECK(png, kSystem, path, ": libspng could not be started");
  const auto check = [&](int status) {
    GRAPESHOT_CHECK(status == 0, kParse, path, ": damaged PNG (", spng_strerror(status), ")");
  };
  constexpr size_t kMostOfChunk = size_t{64} << 20;  // text and profiles, which are not looked at
  check(spng_set_chunk_limits(png.get(), kMostOfChunk, kMostOfChunk));
  check(spng_set_png_buffer(png.get(), bytes.data(), bytes.size()));
  spng_ihdr head;
  check(spng_get_ihdr(png.get(), &head));
  GRAPESHOT_CHECK(head.bit_depth <= 8, kUnsupported, path, ": has ", int{head.bit_depth},
                  " bits a channel; save it with 8");
  const PngForm form = form_of(png.get(), head);
  // zlib makes 1032 bytes of one at most, and a byte is eight pixels at most.
  const double most = static_cast<double>(bytes.size()) * 1032. * 8.;
  GRAPESHOT_CHECK(static_cast<double>(head.width) * head.height <= most, kParse, path,
                  ": damaged PNG (claims ", head.width, " x ", head.height, " pixels in ",
                  bytes.size(), " bytes)");
  Image out = blank(path, head.height, head.width, form.channels);
  size_t size = 0;
  check(spng_decoded_image_size(png.get(), form.format, &size));
  GRAPESHOT_CHECK(size == out.pixels.size(), kInternal, path, ": ", size, " bytes of pixels");
  // Of a palette, alpha comes from a list beside it.
  const int flags = form.format == SPNG_FMT_RGBA8 ? SPNG_DECODE_TRNS : 0;
  check(spng_decode_image(png.get(), out.pixels.data(), size, form.format, flags));
  return out;
}

Image decode_jpeg(std::string_view bytes, const std::string& path) {
  const std::unique_ptr<void, decltype(&tjDestroy)> jpeg(tjInitDecompress(), &tjDestroy);
  GRAPESHOT_CHECK(jpeg, kSystem, path, ": libjpeg-turbo could not be started");
  // A warning is an error too: what it is about is guessed.
  const auto check = [&](int status) {
    GRAPESHOT_CHECK(status == 0, kParse, path, ": damaged JPEG (", tjGetErrorStr2(jpeg.get()), ")");
  };
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, sampling = 0, colours = 0;
  check(tjDecompressHeader3(jpeg.get(), data, bytes.size(), &width, &height, &sampling, &colours));
  GRAPESHOT_CHECK(colours == TJCS_GRAY || colours == TJCS_RGB || colours == TJCS_YCbCr,
                  kUnsupported, path, ": is in CMYK; save it as RGB");
  const bool grey = colours == TJCS_GRAY;
  Image out =
      blank(path, static_cast<uint64_t>(height), static_cast<uint64_t>(width), grey ? 1 : 3);
  auto* pixels = reinterpret_cast<unsigned char*>(out.pixels.data());
  check(tjDecompress2(jpeg.get(), data, bytes.size(), pixels, width, 0, height,
                      grey ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS));
  return out;
}

}  // namespace

bool is_png(std::string_view head) {
  return head.starts_with("\x89PNG\r\n\x1a\n");
}

bool is_jpeg(std::string_view head) {
  return head.starts_with("\xff\xd8\xff");
}

Image decode_image(std::string_view bytes, const std::string& path) {
  if (is_png(bytes)) return decode_png(bytes, path);
  GRAPESHOT_CHECK(is_jpeg(bytes), kParse, path, ": is neither a PNG nor a JPEG file");
  return decode_jpeg(bytes, path);
}

}  // namespace grapeshot::data
