// grapeshot/core/campaign.h: all instances of all models at once, on the machine's cores.
//
// Every core is a lane, a thread that runs one single-threaded iteration of some shard after
// another. The shard whose model has had the least work for each of its unbroken instances is next;
// a lane that finds all shards taken opens another one on the same instances, with its own random
// stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/confirm.h"
#include "grapeshot/core/loop.h"

namespace grapeshot {

struct CampaignInstance {
  const Property* property = nullptr;
  at::Tensor original;  ///< [D] float32 in the first region's box; undefined: the box's centre
};

struct CampaignModel {
  const Model* model = nullptr;
  std::vector<CampaignInstance> instances;  ///< numbered through over all models of the campaign
};

/// A confirmed counterexample.
struct Finding {
  int64_t instance = 0, model = 0;
  int64_t region = 0;
  at::Tensor x, original;  ///< [D] float32
  Confirmation confirmation;
  std::optional<bool> opinion;  ///< of the second evaluation, where there was one
  std::string mutation;
  uint64_t shard_seed = 0;  ///< with iteration and row: where in the campaign it came up
  int64_t iteration = 0, row = 0, parent = 0;
  double seconds = 0.;  ///< from the start of the campaign
};

/// Whether somebody else's evaluation of `model`'s input x [D] agrees that it violates `property`;
/// nothing when it cannot tell. Called from the lanes, perhaps several at a time.
using SecondOpinion = std::function<std::optional<bool>(int64_t model, const Property& property,
                                                        const at::Tensor& x)>;

/// What a campaign is made of besides its options.
struct CampaignParts {
  MakeWorker make = make_shard;
  SecondOpinion opinion = nullptr;  ///< of violations that rounding may undo
  bool opinion_on_all = false;      ///< and of the others as well
};

struct Progress {
  double seconds = 0.;
  int64_t instances = 0, broken = 0;
  int64_t candidates = 0, inputs_checked = 0;
  int64_t violations = 0, distinct_violations = 0, findings = 0;
  int64_t borderline = 0;   ///< proposals that rounding may undo, not reported
  double best_margin = 0.;  ///< smallest of the unbroken instances
  int64_t corpus_size = 0;
  double ttfv_s = -1.;  ///< first confirmed violation; -1: none yet
  int64_t cost = 0;     ///< multiply-adds done
  std::vector<std::pair<std::string, double>> coverage;  ///< mean over the models
};

struct InstanceResult {
  int64_t findings = 0;
  double best_margin = 0.;  ///< of the confirmed finding, or the closest input's; +inf: never tried
  int64_t candidates = 0;
  double seconds_to_first = -1.;
  at::Tensor closest;      ///< [D], undefined when never tried
  at::Tensor nan;          ///< [D], an input with a NaN output, confirmed; undefined: none was met
  bool exhausted = false;  ///< every input was tried, none violates
};

/// Called from the lanes, one call at a time. What they throw ends the campaign and reaches its
/// caller.
class CampaignObserver {
 public:
  virtual ~CampaignObserver() = default;
  virtual void on_finding(const Finding& finding) = 0;
  virtual void on_progress(const Progress& progress) = 0;
};

struct CampaignResult {
  Progress totals;
  std::vector<InstanceResult> instances;
  std::vector<int64_t> batch;  ///< rows per shard, per model
  int64_t lanes = 0;
  bool interrupted = false;  ///< `stop` was set
};

/// Runs until the budget is spent, every instance is broken (unless keep_going), or `stop` is set.
/// Throws Error{kInvalidArgument} when a property does not fit its model.
[[nodiscard]] CampaignResult run_campaign(const std::vector<CampaignModel>& models,
                                          const LoopOptions& options, CampaignObserver& observer,
                                          const std::atomic<bool>& stop,
                                          const CampaignParts& parts = {});

}  // namespace grapeshot
