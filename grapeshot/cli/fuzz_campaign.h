// grapeshot/cli/fuzz_campaign.h: a campaign with its run folder, from the first time or again.
#pragma once

#include <nlohmann/json.hpp>

#include "grapeshot/cli/options.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/report_flags.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/cli/session.h"

namespace grapeshot::cli {

/// Runs the campaign, from `resume` on when there is one, and writes all of the folder. `run` is
/// what run.json says besides options, machine and sizes. Returns the summary.
[[nodiscard]] nlohmann::ordered_json run_fuzz(const Problem& problem, const LoopOptions& options,
                                              RunFolder& folder, nlohmann::ordered_json run,
                                              const CommonOptions& common, const State* resume,
                                              const Session& session);

/// Prints what run_fuzz returned, and does what comes after; the exit status.
[[nodiscard]] int print_fuzz(const nlohmann::ordered_json& summary, const CommonOptions& common,
                             const AfterRun& after = {});

}  // namespace grapeshot::cli
