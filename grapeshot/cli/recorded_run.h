// grapeshot/cli/recorded_run.h: a run folder (see run_folder.h) as a report shows it.
#pragma once

#include <cstdint>
#include <string>

#include "grapeshot/report/run.h"

namespace grapeshot::cli {

struct RunParts {
  bool inputs = false;             ///< read Finding::original and input
  bool constraints = false;        ///< and constraints, of the deepest finding of every instance
  int64_t most_findings = 10'000;  ///< read; of every instance one before any second one
};

/// What there is of a run of `fuzz` or `diff`, also of one that was killed or still goes on. Throws
/// Error{kNotFound} when `path` holds no run, kParse naming the file that is damaged.
[[nodiscard]] report::Run read_run(const std::string& path, const RunParts& parts);

}  // namespace grapeshot::cli
