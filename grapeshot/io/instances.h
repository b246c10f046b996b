// grapeshot/io/instances.h: VNN-COMP's instances.csv.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace grapeshot {

struct InstanceRow {
  std::string model, spec;  ///< absolute, as resolve_file found them (perhaps NAME.gz)
  double timeout_s = 0.;
  int64_t line = 0;  ///< in the csv, from 1
};

/// Rows `onnx,vnnlib,timeout`; paths are relative to the csv; empty lines are skipped, a header of
/// that name too. Every row is checked (three fields, both files there, a positive timeout) before
/// any is returned; the first wrong one throws kParse "path:line: ...".
[[nodiscard]] std::vector<InstanceRow> parse_instances(std::string_view text,
                                                       const std::string& csv_path);

/// The same of a file; throws as read_file does besides.
[[nodiscard]] std::vector<InstanceRow> read_instances(const std::string& csv_path);

}  // namespace grapeshot
