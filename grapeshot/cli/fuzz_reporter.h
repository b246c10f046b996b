// grapeshot/cli/fuzz_reporter.h: what happens in a campaign, to disk and to the terminal.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "grapeshot/cli/live_view.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/cli/session.h"
#include "grapeshot/core/campaign.h"

namespace grapeshot::cli {

/// What was counted so far: a line of stats.jsonl, and of the summary.
[[nodiscard]] nlohmann::ordered_json fuzz_counts(const Progress& p);

/// Findings to disk at once, progress to stats.jsonl and to whoever watches.
class FuzzReporter final : public CampaignObserver {
 public:
  FuzzReporter(const Problem& problem, RunFolder& folder, uint64_t seed, LiveView& view,
               const Session& session)
      : problem_(problem), folder_(folder), seed_(seed), view_(view), session_(session) {}

  void on_finding(const Finding& finding) override;
  void on_note(const std::string& text) override { view_.note(text); }
  void on_progress(const Progress& p) override;

 private:
  const Problem& problem_;
  RunFolder& folder_;
  uint64_t seed_;
  LiveView& view_;
  const Session& session_;
  double next_stats_ = 0.;
};

}  // namespace grapeshot::cli
