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
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/ledger.h"
#include "grapeshot/core/loop.h"
#include "grapeshot/core/state.h"

namespace grapeshot {

struct CampaignInstance {
  const Property* property = nullptr;
  at::Tensor original;  ///< [D] float32 in the first region's box; undefined: the box's centre
  /// Instances of one number >= 0 say the same of the outputs: a finding of one counts for every
  /// other whose regions hold its input, which is not searched any more.
  int64_t family = -1;
};

struct CampaignModel {
  const Model* model = nullptr;
  std::vector<CampaignInstance> instances;  ///< numbered through over all models of the campaign
  const Profile* profile = nullptr;         ///< for criteria that compare with it
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
  /// Called between iterations with all that the campaign has to remember, at most every
  /// `checkpoint_s` seconds and at the end, while every lane waits.
  std::function<void(const State& state)> keep = nullptr;
  double checkpoint_s = 5.;
  const State* resume = nullptr;  ///< what `keep` was given: the campaign goes on from there
};

/// Called from the lanes, one call at a time. What they throw ends the campaign and reaches its
/// caller.
class CampaignObserver {
 public:
  virtual ~CampaignObserver() = default;
  virtual void on_finding(const Finding& finding) = 0;
  virtual void on_progress(const Progress& progress) = 0;
  /// Something that the user should know.
  virtual void on_note(const std::string& /*text*/) {}
};

struct CampaignResult {
  Progress totals;
  std::vector<InstanceResult> instances;
  std::vector<int64_t> batch;      ///< rows per shard, per model
  int64_t lanes = 0, threads = 1;  ///< and threads of each
  bool interrupted = false;        ///< `stop` was set
};

/// Runs until the budget is spent, every instance is broken (unless keep_going), or `stop` is set.
/// Throws Error{kInvalidArgument} when a property does not fit its model, kParse when `resume` is
/// of another campaign.
///
/// With one lane, a budget of candidates and workers that remember all they know (core/loop.h) a
/// campaign that was resumed ends as one that never stopped, also when what it kept is older.
[[nodiscard]] CampaignResult run_campaign(const std::vector<CampaignModel>& models,
                                          const LoopOptions& options, CampaignObserver& observer,
                                          const std::atomic<bool>& stop,
                                          const CampaignParts& parts = {});

}  // namespace grapeshot
