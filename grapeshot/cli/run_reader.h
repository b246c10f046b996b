// grapeshot/cli/run_reader.h: a run folder as seen by somebody else, while it grows or afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/cli/standing.h"

namespace grapeshot::cli {

class RunReader {
 public:
  /// Throws Error{kNotFound} when `path` holds no run, kParse for a damaged one.
  explicit RunReader(const std::string& path);

  /// Reads what is new. Whether it runs is told by the lock of the folder; one that does not, and
  /// has written no summary since it last did, was killed. Throws Error{kParse} "path:line: ...".
  const Standing& read();

  /// After read(): state, speed and the latest line, or summary.json once there is one.
  [[nodiscard]] nlohmann::ordered_json to_json() const;

 private:
  void begin();
  void read_stats();
  void take_line(const std::string& text);

  std::filesystem::path path_;
  std::filesystem::file_time_type begun_;  // run.json's
  uintmax_t offset_ = 0;                   // into stats.jsonl
  int64_t line_ = 0;
  Standing standing_;
  nlohmann::ordered_json latest_;
};

/// The folders of the runs that `path` is or that lie in it, in order of their names. Throws
/// Error{kNotFound} where there are none.
[[nodiscard]] std::vector<std::string> run_folders(const std::string& path);

}  // namespace grapeshot::cli
