// grapeshot/cli/fuzz_campaign.h: a campaign with its run folder, from the first time or again.
#pragma once

#include <nlohmann/json.hpp>

#include "grapeshot/cli/options.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/report_flags.h"
#include "grapeshot/cli/run_folder.h"

namespace grapeshot::cli {

/// Runs the campaign, from `resume` on when there is one, writes all of the folder and prints the
/// summary. `run` is what run.json says besides options, machine and sizes. Returns the exit
/// status.
[[nodiscard]] int run_fuzz(const Problem& problem, const LoopOptions& options, RunFolder& folder,
                           nlohmann::ordered_json run, const CommonOptions& common,
                           const State* resume, const AfterRun& after = {});

}  // namespace grapeshot::cli
