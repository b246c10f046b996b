// tests/support/files.h: files and errors for tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"

namespace grapeshot::testing {

/// An empty folder that goes with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "grapeshot-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }

  /// Writes a file of that name and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream out(path_ / name, std::ios::binary);
    out << bytes;
    REQUIRE(out.good());
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

/// The bytes of a file as they lie on the disk.
inline std::string stored_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The Error that `work` throws.
template <class Work>
Error error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no grapeshot::Error was thrown");
  return {ErrorCode::kInternal, ""};
}

/// "message" of the Error of that code that `work` throws.
template <class Work>
std::string message_of(ErrorCode code, Work work) {
  const Error error = error_of(work);
  CHECK(error.code() == code);
  return error.what();
}

}  // namespace grapeshot::testing
