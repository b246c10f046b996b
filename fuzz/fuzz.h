// fuzz/fuzz.h: what every fuzz target asks of a reader.
//
// A target is one function, LLVMFuzzerTestOneInput, in fuzz/<name>.cpp and one row of
// fuzz/CMakeLists.txt. clang links it with libFuzzer to find inputs (`./dev fuzz`), g++ with
// replay.cpp to run those of fuzz/regressions/<name>/ again (`./dev test`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "grapeshot/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace grapeshot::fuzz {

/// The name of the input in messages.
inline const std::string kPath = "fuzz-input";

inline std::string_view bytes(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Ends the process, which is a finding, unless `holds`.
inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "property violated: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// What `read` returns, nothing when it refuses the input as a reader should: by an Error that
/// names the file and does not call itself a bug. Every other exception is a finding.
template <class Read>
auto accepted(Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error& error) {
    require(error.code() != ErrorCode::kInternal, error.what());
    require(std::string_view(error.what()).starts_with(kPath), error.what());
    return std::nullopt;
  }
}

}  // namespace grapeshot::fuzz
