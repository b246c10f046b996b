// grapeshot/cli/report_flags.h: what `report` and `fuzz` have in common: gates, and the page.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "grapeshot/report/run.h"

namespace grapeshot::cli {

/// When a run makes a continuous integration fail.
struct GateFlags {
  std::string fail_on, baseline;  ///< conditions (report/gate.h), and an earlier run's folder

  [[nodiscard]] bool any() const { return !fail_on.empty(); }
  /// Throws Error for a condition or a baseline that is none, before anything runs.
  void check() const;
  /// Whether the run meets a condition, which is said on stderr.
  [[nodiscard]] bool fails(const report::Run& run) const;
};

void add_gate_flags(CLI::App& app, GateFlags& gate);

/// What a campaign does once it has ended.
struct AfterRun {
  GateFlags gate;
  bool page = true;  ///< writes report.html
};

/// Writes the page, unless told not to, and returns the exit status: `found` without a gate, else
/// whether the run meets it. A page that cannot be written is a note, not an error: the run is
/// done. With `say` a line on stdout names the page.
[[nodiscard]] int finish_run(const std::string& folder, const AfterRun& after, bool say, int found);

}  // namespace grapeshot::cli
