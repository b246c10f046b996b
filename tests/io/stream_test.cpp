#include "grapeshot/io/stream.h"

#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/npz.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

std::string counting(size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(i * 7 % 251);
  return out;
}

// Numbers 0, 1, ... in rows of three.
std::string rows_of_three(int64_t rows) {
  std::vector<float> values;
  for (int64_t i = 0; i < 3 * rows; ++i) values.push_back(static_cast<float>(i));
  const int64_t shape[] = {rows, 3};
  return encode_npy(std::span<const float>(values), shape);
}

}  // namespace

TEST_CASE("stream: plain and gzip files give the same bytes in the same pieces") {
  const TemporaryFolder folder;
  const std::string bytes = counting(700'000);
  for (const bool zipped : {false, true}) {
    FileSource source(folder.write(zipped ? "z" : "p", zipped ? gzip(bytes) : bytes));
    CHECK(source.size() == (zipped ? std::nullopt : std::optional<uint64_t>(bytes.size())));
    CHECK(source.head(1000) == bytes.substr(0, 1000));
    CHECK(source.read(10) == bytes.substr(0, 10));
    source.skip(500);
    CHECK(source.read(600) == bytes.substr(510, 600));
    source.skip(600'000);
    CHECK(source.read(kAll) == bytes.substr(601'110));
    CHECK(source.read(1).empty());
    source.skip(5);
    CHECK(source.read(1).empty());
  }
}

TEST_CASE("stream: the name with .gz is found, folders and absent files are refused") {
  const TemporaryFolder folder;
  folder.write("a.gz", gzip("text"));
  CHECK(FileSource(folder.file("a")).read(kAll) == "text");
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
          FileSource source(folder.file(""));
        }).ends_with(": is a folder, not a file"));
  CHECK(message_of(ErrorCode::kNotFound, [&] {
          FileSource source(folder.file("b"));
        }).ends_with("b: no such file"));
}

TEST_CASE("stream: gzip that is cut or damaged is refused, also while it is passed over") {
  const TemporaryFolder folder;
  const std::string zipped = gzip(counting(100'000));
  const std::string cut = folder.write("cut", zipped.substr(0, zipped.size() / 2));
  CHECK(message_of(ErrorCode::kParse, [&] {
          (void)FileSource(cut).read(kAll);
        }).ends_with(": damaged gzip: the file ends before its data does"));
  CHECK(message_of(ErrorCode::kParse, [&] {
          FileSource(cut).skip(kAll);
        }).ends_with(": damaged gzip: the file ends before its data does"));
  std::string bad = zipped;
  bad[bad.size() - 6] = static_cast<char>(~bad[bad.size() - 6]);  // the checksum
  CHECK(message_of(ErrorCode::kParse, [&] {
          (void)FileSource(folder.write("bad", bad)).read(kAll);
        }).find(": damaged gzip (") != std::string::npos);
}

TEST_CASE("stream: more than the limit allows is refused, not what is passed over") {
  const TemporaryFolder folder;
  const std::string path = folder.write("zeros", gzip(std::string(3 << 20, '\0')));
  const uint64_t before = max_file_mib();
  set_max_file_mib(1);
  CHECK(message_of(ErrorCode::kParse, [&] {
          (void)FileSource(path).read(kAll);
        }).ends_with(": unpacks to more than 1 MiB; --max-file-mib allows more"));
  FileSource source(path);
  source.skip((3 << 20) - 10);
  CHECK(source.read(kAll).size() == 10);
  set_max_file_mib(before);
}

TEST_CASE("npy: rows are read without those before and behind them") {
  const std::string bytes = rows_of_three(100);
  MemorySource source(bytes);
  const NpyArray part = read_npy_rows(source, "x.npy", 10, 12);
  CHECK(part.shape == std::vector<int64_t>{2, 3});
  CHECK(part.values == std::vector<double>{30, 31, 32, 33, 34, 35});
  CHECK(source.read(kAll).size() == 88 * 3 * 4);
  MemorySource beyond(bytes);
  CHECK(read_npy_rows(beyond, "x.npy", 100, 200).shape == std::vector<int64_t>{0, 3});
  // What is missing behind the wanted rows is not noticed, what is missing of them is.
  MemorySource cut(std::string_view(bytes).substr(0, bytes.size() - 500));
  CHECK(read_npy_rows(cut, "x.npy", 0, 5).values.size() == 15);
  MemorySource short_of(std::string_view(bytes).substr(0, bytes.size() - 500));
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_npy_rows(short_of, "x.npy", 0, 99); }) ==
        "x.npy: the file ends before its last number");
}

TEST_CASE("npy: a header that claims endless rows takes no memory for them") {
  std::string bytes = rows_of_three(1);
  const std::string claim = "(4611686018427387904, 4611686018427387904, ), }";
  bytes.replace(bytes.find("(1, 3, ), }"), claim.size(), claim);
  MemorySource source(bytes);
  CHECK(message_of(ErrorCode::kParse, [&] {
          (void)read_npy_rows(source, "x.npy", 5, 7);
        }).starts_with("x.npy: a row of it is larger than "));
}

TEST_CASE("npz: rows of one array by its name") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.npz");
  write_npz(path, {{"first", rows_of_three(50)}, {"second", rows_of_three(2)}});
  const std::string bytes = read_file(path);
  CHECK(parse_npz_rows(bytes, "a.npz", "first", 49, 90).values ==
        std::vector<double>{147, 148, 149});
  CHECK(message_of(ErrorCode::kNotFound, [&] {
          (void)parse_npz_rows(bytes, "a.npz", "third", 0, 1);
        }) == "a.npz: holds no array 'third'; it has first, second");
  for (size_t length = 1; length < bytes.size(); length += 7) {
    CHECK_THROWS_AS((void)parse_npz_rows(bytes.substr(0, length), "a.npz", "first", 0, 9), Error);
  }
}
