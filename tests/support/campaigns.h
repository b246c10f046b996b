// tests/support/campaigns.h: campaigns on models in memory.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "grapeshot/core/campaign.h"

namespace grapeshot::testing {

/// Keeps what a campaign reports.
class Collector : public CampaignObserver {
 public:
  void on_finding(const Finding& finding) override {
    findings.push_back(finding);
    if (then) then(finding);
  }
  void on_progress(const Progress& progress) override {
    ++reports;
    if (meanwhile) meanwhile(progress);
  }

  std::vector<Finding> findings;
  int64_t reports = 0;
  std::function<void(const Finding&)> then;
  std::function<void(const Progress&)> meanwhile;
};

/// One lane, small batches and corpora, a budget in candidates and, lest a bug hang the tests, in
/// time.
inline LoopOptions test_options(int64_t candidates) {
  LoopOptions options;
  options.seconds = 60.;
  options.candidates = candidates;
  options.threads = 1;
  options.batch = "8";
  options.memory_mib = 16;
  return options;
}

struct Outcome {
  CampaignResult result;
  std::vector<Finding> findings;
};

inline Outcome run(const std::vector<CampaignModel>& models, const LoopOptions& options) {
  Collector collector;
  const std::atomic<bool> stop = false;
  Outcome out;
  out.result = run_campaign(models, options, collector, stop);
  out.findings = std::move(collector.findings);
  return out;
}

/// One model with `properties`, originals in the centres of their boxes.
inline CampaignModel campaign_model(const Model& model, const std::vector<Property>& properties) {
  CampaignModel out{&model, {}};
  for (const Property& each : properties) out.instances.push_back({&each, {}});
  return out;
}

}  // namespace grapeshot::testing
