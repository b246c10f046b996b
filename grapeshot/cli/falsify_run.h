// grapeshot/cli/falsify_run.h: the search for one counterexample within a time limit, for `falsify`
// and `verify`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/session.h"
#include "grapeshot/core/campaign.h"

namespace grapeshot::cli {

/// What came of it.
struct FalsifyAnswer {
  const Problem& problem;  ///< without models where the time was over before they were read
  CampaignResult result;
  std::optional<Finding> finding;
  double start_up_s = 0.;
  bool late = false;  ///< the time was over before the first input
  std::string
      answer;  ///< "sat"; "unknown": there was nothing left to try, or an interrupt; "timeout"
  std::string words;  ///< the violation in the specification's own, "" without

  [[nodiscard]] InstanceResult instance() const {
    return result.instances.empty() ? InstanceResult() : result.instances[0];
  }
};

struct FalsifyRun {
  ProblemFiles files;  ///< one specification
  std::string confirm = "auto", attacks = "all";
  double timeout = 60.;  ///< seconds from the start of the process to the answer
  uint64_t seed = 0;
  int64_t threads = 0;  ///< 0: all cores
  bool quiet = false;   ///< no progress on stderr
};

/// Reads the files, searches and calls `report` once, by the time limit even where something cannot
/// be stopped (from another thread then); returns what it returns. Throws as load_problem does.
int falsify_in_time(const FalsifyRun& run, const std::function<int(const FalsifyAnswer&)>& report);

/// The same for a program that called, which hears of progress and ends the work by itself: the
/// limit counts from the call, and what cannot be stopped is waited for.
void falsify(const FalsifyRun& run, const Session& session,
             const std::function<void(const FalsifyAnswer&)>& report);

}  // namespace grapeshot::cli
