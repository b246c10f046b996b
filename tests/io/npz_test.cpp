#include "grapeshot/io/npz.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "grapeshot/io/file.h"
#include "tests/support/files.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

std::string array(const std::vector<float>& values) {
  const int64_t shape[] = {std::ssize(values)};
  return encode_npy(std::span<const float>(values), shape);
}

// An archive of two arrays, as bytes.
std::string archive() {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.npz");
  write_npz(path, {{"first", array({1.f, 2.f})}, {"second", array(std::vector<float>(4096, 3.f))}});
  return read_file(path);
}

std::string refusal(const std::string& bytes) {
  return message_of(ErrorCode::kParse, [&] { (void)parse_npz(bytes, "x.npz"); });
}

}  // namespace

TEST_CASE("npz: what is written is read, and the same arrays make the same bytes") {
  const std::string bytes = archive();
  const auto arrays = parse_npz(bytes, "x.npz");
  REQUIRE(arrays.size() == 2);
  CHECK(arrays.at("first").values == std::vector<double>{1., 2.});
  CHECK(arrays.at("second").values == std::vector<double>(4096, 3.));
  CHECK(arrays.at("second").shape == std::vector<int64_t>{4096});
  CHECK(bytes == archive());
  CHECK(bytes.size() < 4096);  // packed
}

TEST_CASE("npz: bytes that are none, are cut or damaged are refused with the path") {
  CHECK(refusal("").starts_with("x.npz: is no .npz archive"));
  CHECK(refusal("PK hello").starts_with("x.npz: is no .npz archive"));
  const std::string bytes = archive();
  for (size_t length = 1; length < bytes.size(); length += 7) {
    CHECK(refusal(bytes.substr(0, length)).starts_with("x.npz: "));
  }
  int refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(~bad[at]);
    try {
      (void)parse_npz(bad, "x.npz");  // a time or a comment may change
    } catch (const Error& error) {
      ++refused;
      CHECK(std::string(error.what()).starts_with("x.npz: "));
    }
  }
  CHECK(refused > static_cast<int>(bytes.size() / 2));
}

TEST_CASE("npz: more than the limit allows is refused before it is unpacked") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.npz");
  write_npz(path, {{"zeros", array(std::vector<float>(1 << 19, 0.f))}});  // 2 MiB
  const std::string bytes = read_file(path);
  CHECK(bytes.size() < 65536);
  const uint64_t before = max_file_mib();
  set_max_file_mib(1);
  CHECK(refusal(bytes).find("the archive unpacks to more than 1 MiB") != std::string::npos);
  set_max_file_mib(before);
  CHECK(parse_npz(bytes, "x.npz").at("zeros").values.size() == size_t{1} << 19);
}
