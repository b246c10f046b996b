// fuzz/instances.cpp: VNN-COMP's instances.csv.
#include "grapeshot/io/instances.h"

#include <cmath>

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const auto rows =
      fuzz::accepted([&] { return parse_instances(fuzz::bytes(data, size), fuzz::kPath); });
  if (!rows) return 0;
  fuzz::require(!rows->empty(), "there is an instance");
  int64_t line = 0;
  for (const InstanceRow& row : *rows) {
    fuzz::require(row.line > line, "lines count up");
    line = row.line;
    fuzz::require(std::isfinite(row.timeout_s) && row.timeout_s > 0., "a timeout is positive");
    for (const std::string& path : {row.model, row.spec}) {
      fuzz::require(path.starts_with('/'), "paths are absolute");
      fuzz::require(path.find('\0') == std::string::npos, "a path is what the system opens");
    }
  }
  return 0;
}
