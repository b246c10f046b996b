// grapeshot/proc/child.h: another program, run to its end or to a limit.
#pragma once

#include <string>
#include <vector>

#include "grapeshot/base/deadline.h"

namespace grapeshot {

struct ChildResult {
  int status = 0;          ///< exit status; 128 + n when signal n ended it, also where we sent it
  bool timed_out = false;  ///< it was killed at the limit
  double seconds = 0.;     ///< from before its start to its end
  std::string out, err;    ///< what it wrote, at most kMostOutput bytes each
};

constexpr size_t kMostOutput = size_t{1} << 20;

/// Runs `command` (the first is the program's path) with standard input closed, in a process group
/// of its own, which is killed when `limit_s` is over or `stop` becomes true. Thread-safe. Throws
/// Error{kSystem} when it cannot be started.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& command, double limit_s,
                                    const std::atomic<bool>* stop = nullptr);

/// The path of this program.
[[nodiscard]] std::string own_program();

}  // namespace grapeshot
