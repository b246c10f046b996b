#include "grapeshot/io/data/data.h"

#include <random>
#include <string>

#include <doctest/doctest.h>

#include "grapeshot/io/file.h"
#include "tests/support/files.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

data::DataSet read_bytes(const data::Format& format, std::string_view bytes) {
  MemorySource source(bytes);
  return format.read(source, "some-file", {});
}

}  // namespace

TEST_CASE("data: every format refuses nothing at all and noise, naming the file") {
  std::mt19937 random(3);
  std::string noise;
  for (int i = 0; i < 5000; ++i) noise += static_cast<char>(random());
  for (const data::Format& format : data::formats()) {
    CAPTURE(format.name);
    for (const std::string& bytes : {std::string(), std::string(1, '\0'), noise}) {
      // A file of no record is one of CIFAR's with no row.
      if (bytes.empty() && format.name.starts_with("cifar")) {
        CHECK(read_bytes(format, bytes).rows() == 0);
        continue;
      }
      const Error error = error_of([&] { (void)read_bytes(format, bytes); });
      CHECK(error.code() == ErrorCode::kParse);
      CHECK(std::string(error.what()).starts_with("some-file"));
    }
  }
}

TEST_CASE("data: a header that claims endless rows is refused before memory is taken") {
  const data::Format& idx = data::formats()[2];
  REQUIRE(idx.name == "idx");
  const std::string huge = std::string("\0\0\x08\x03", 4) + std::string(12, '\xff') + "ab";
  CHECK(message_of(ErrorCode::kParse, [&] {
          (void)read_bytes(idx, huge);
        }).starts_with("some-file: claims to hold rows of "));
  const std::string many = std::string("\0\0\x0e\x02\xff\xff\xff\xff\0\0\0\x02", 12) + "ab";
  CHECK(
      message_of(ErrorCode::kParse, [&] { (void)read_bytes(idx, many); }) ==
      "some-file: ends at byte 14; its 4294967295 rows of 16 bytes after byte 12 do not end there");
}

TEST_CASE("data: the name of an array follows that of its archive") {
  const TemporaryFolder folder;
  CHECK(data::find_place("a.npz:x").path == "a.npz");
  CHECK(data::find_place("a.npz:x").array == "x");
  CHECK(data::find_place("a.npz").array.empty());
  CHECK(data::find_place("a.npy:x").path == "a.npy:x");
  // A file of that very name is meant.
  const std::string odd = folder.write("odd.npz:x", "");
  CHECK(data::find_place(odd).path == odd);
}
