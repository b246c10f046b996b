// fuzz/gzip.cpp: gzip of one or more members, and what zlib packs.
#include <string>

#include <zlib.h>

#include "fuzz/fuzz.h"
#include "grapeshot/io/file.h"

namespace {

constexpr uint64_t kMaxMib = 1;

std::string pack(std::string_view bytes) {
  z_stream stream{};
  using grapeshot::fuzz::require;
  require(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib packs");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const std::string input(fuzz::bytes(data, size));
  const auto out = fuzz::accepted([&] { return unzip(input, fuzz::kPath, kMaxMib); });
  fuzz::require(!out || out->size() <= kMaxMib << 20, "the limit holds");

  const std::string_view start = std::string_view(input).substr(0, size / 2);
  const std::string_view rest = std::string_view(input).substr(size / 2);
  fuzz::require(unzip(pack(start) + pack(rest), fuzz::kPath, kMaxMib) == input,
                "what was packed is unpacked");
  return 0;
}
