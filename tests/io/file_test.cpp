#include "grapeshot/io/file.h"

#include <filesystem>
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/files.h"
#include "tests/support/gzip.h"

using grapeshot::ErrorCode;
using grapeshot::read_file;
using grapeshot::resolve_file;
using grapeshot::sha256;
using grapeshot::sha256_file;
using grapeshot::write_file;
using grapeshot::testing::error_of;
using grapeshot::testing::gzip;
using grapeshot::testing::message_of;
using grapeshot::testing::stored_bytes;
using grapeshot::testing::TemporaryFolder;

TEST_CASE("resolve_file: NAME comes before NAME.gz") {
  const TemporaryFolder folder;
  const std::string plain = folder.write("a", "1");
  folder.write("a.gz", "2");
  folder.write("b.gz", "3");
  CHECK(resolve_file(plain) == plain);
  CHECK(resolve_file(folder.file("b")) == folder.file("b.gz"));
  CHECK(message_of(ErrorCode::kNotFound, [&] { (void)resolve_file(folder.file("c")); }) ==
        folder.file("c") + ": no such file");
  CHECK(message_of(ErrorCode::kNotFound, [&] { (void)resolve_file(plain + "/below"); }) ==
        plain + "/below: no such file");
}

TEST_CASE("read_file: gzip is known by its first bytes, not by its name") {
  const TemporaryFolder folder;
  const std::string text(300000, 'x');
  CHECK(read_file(folder.write("a.txt", text)) == text);
  CHECK(read_file(folder.write("zipped.txt", gzip(text))) == text);
  CHECK(read_file(folder.write("plain.gz", "text")) == "text");
  CHECK(read_file(folder.write("empty", "")).empty());
  folder.write("b.gz", gzip("from b.gz"));
  CHECK(read_file(folder.file("b")) == "from b.gz");
}

TEST_CASE("read_file: the members of a gzip are joined, zeros behind it are padding") {
  const TemporaryFolder folder;
  CHECK(read_file(folder.write("two.gz", gzip("one, ") + gzip("two"))) == "one, two");
  CHECK(read_file(folder.write("padded.gz", gzip("one") + std::string(100, '\0'))) == "one");
}

TEST_CASE("read_file: a damaged gzip is named") {
  const TemporaryFolder folder;
  std::string text;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) text += static_cast<char>('a' + random() % 20);
  const std::string zipped = gzip(text);

  const std::string cut = folder.write("cut.gz", zipped.substr(0, zipped.size() / 2));
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_file(cut); }) ==
        cut + ": damaged gzip: the file ends before its data does");
  const std::string trailed = folder.write("trailed.gz", zipped + "abc");
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_file(trailed); }) ==
        trailed + ": damaged gzip: 3 bytes that are no gzip follow its end");
  std::string broken = zipped;
  broken[broken.size() - 6] = static_cast<char>(broken[broken.size() - 6] ^ 1);  // in the CRC
  const std::string flipped = folder.write("flipped.gz", broken);
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_file(flipped); }) ==
        flipped + ": damaged gzip (incorrect data check)");
}

TEST_CASE("read_file: every truncation of a gzip is an error") {
  const TemporaryFolder folder;
  const std::string zipped = gzip("a short text, a short text, a short text");
  for (size_t size = 2; size < zipped.size(); ++size) {
    const std::string path = folder.write("cut.gz", zipped.substr(0, size));
    CHECK(error_of([&] { (void)read_file(path); }).code() == ErrorCode::kParse);
  }
}

TEST_CASE("read_file: no more than the limit is read or unpacked, and the message names the flag") {
  const TemporaryFolder folder;
  const std::string bomb = folder.write("bomb.gz", gzip(std::string(10000000, '\0')));
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_file(bomb, 9); }) ==
        bomb + ": unpacks to more than 9 MiB; --max-file-mib allows more");
  CHECK(read_file(bomb, 10).size() == 10000000);
  const std::string plain = folder.write("plain", std::string((2 << 20) + 1, ' '));
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_file(plain, 2); }) ==
        plain + ": holds more than 2 MiB; --max-file-mib allows more");
  CHECK(read_file(plain, 3).size() == (2 << 20) + 1);
}

TEST_CASE("read_file: a gzip of gzips that claims gigabytes ends at the limit, not in memory") {
  const auto resident_mib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  const TemporaryFolder folder;
  // 10 GiB as 160 members of 64 MiB, and the 10 MB of that packed again.
  const std::string member = gzip(std::string(64 << 20, '\0'));
  std::string stored;
  for (int i = 0; i < 160; ++i) stored += member;
  const std::string inner = folder.write("inner.gz", stored);
  const std::string outer = folder.write("outer.gz", gzip(stored));
  const auto before = resident_mib();
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_file(inner, 32); }) ==
        inner + ": unpacks to more than 32 MiB; --max-file-mib allows more");
  CHECK(resident_mib() - before < 200);
  CHECK(std::filesystem::file_size(outer) < 100000);
  CHECK(read_file(outer, 32) == stored);  // one layer only
}

TEST_CASE("read_file: a size that the end of a gzip lies about is not believed") {
  const TemporaryFolder folder;
  const std::string zipped = gzip("two") + std::string(4, '\0') + "\xff\xff\xff\xff";
  const std::string path = folder.write("liar.gz", zipped);
  CHECK(message_of(ErrorCode::kParse, [&] {
          (void)read_file(path);
        }).starts_with(path + ": damaged gzip"));
}

TEST_CASE("read_file: a folder is no file") {
  const TemporaryFolder folder;
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] { (void)read_file(folder.file("")); }) ==
        folder.file("") + ": is a folder, not a file");
}

TEST_CASE("write_file: replaces the file whole and leaves nothing else behind") {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old, and longer than the new one");
  write_file(path, "new");
  CHECK(stored_bytes(path) == "new");
  const std::string zeros("a\0b", 3);
  write_file(folder.file("other"), zeros);
  CHECK(stored_bytes(folder.file("other")) == zeros);
  size_t files = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder.file("")))
    ++files;
  CHECK(files == 2);
}

TEST_CASE("write_file: a place that cannot be written is named and nothing half written stays") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("no/such/folder/out");
  CHECK(message_of(ErrorCode::kSystem, [&] { write_file(missing, "x"); }) ==
        missing + ": cannot be written (No such file or directory)");
  std::filesystem::create_directory(folder.file("taken"));
  CHECK(message_of(ErrorCode::kSystem, [&] { write_file(folder.file("taken"), "x"); }) ==
        folder.file("taken") + ": cannot be written (Is a directory)");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.file("")), {}) == 1);
}

TEST_CASE("sha256_file: the digest is of the stored bytes") {
  const TemporaryFolder folder;
  CHECK(sha256_file(folder.write("empty", "")) ==
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_file(folder.write("abc", "abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string zipped = gzip("abc");
  folder.write("zipped.gz", zipped);
  folder.write("copy", zipped);
  CHECK(sha256("abc") == sha256_file(folder.file("abc")));
  CHECK(sha256_file(folder.file("zipped")) == sha256_file(folder.file("copy")));
  CHECK(message_of(ErrorCode::kNotFound, [&] { (void)sha256_file(folder.file("none")); }) ==
        folder.file("none") + ": no such file");
}
