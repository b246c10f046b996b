// grapeshot/core/board.h: how a campaign stands: its models, workers and results, and how they are
// remembered.
//
// Not thread-safe: it belongs to whoever holds the campaign's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "grapeshot/base/deadline.h"
#include "grapeshot/core/campaign.h"

namespace grapeshot {

/// One model with what its workers share.
struct Group {
  const Model* model = nullptr;
  const Profile* profile = nullptr;
  int64_t first = 0;  ///< campaign number of its first instance
  std::vector<CampaignInstance> instances;
  std::optional<SpecTensors> specs;
  at::Tensor originals;  ///< [R, D]
  std::unique_ptr<SharedCoverage> coverage;
  std::unique_ptr<SharedViolations> violations = std::make_unique<SharedViolations>();
  Head head = Head::kOutputs;
  std::vector<int64_t> retired;  ///< in this order, for workers to catch up with
  int64_t pass_rows = 0;
  bool bfloat16 = false;
  int64_t unbroken = 0, cost = 0, shards = 0;
};

[[nodiscard]] int64_t count_instances(const std::vector<CampaignModel>& models);

/// A worker and what the campaign knows of it.
struct Unit {
  size_t group = 0;
  std::unique_ptr<Worker> worker;  ///< null when its time is over
  uint64_t seed = 0;
  std::vector<int64_t> instances;  ///< that it was made for
  size_t caught_up = 0;            ///< of group.retired
  int64_t corpus_size = 0;
  bool busy = false;
};

/// A finding that waits for a clearer one.
struct Reserve {
  size_t group = 0;
  Hit hit;
  Finding finding;
  Clock::time_point since;
  int64_t since_candidates = 0;
};

/// The centre of each region's box, or what the instance brought along, [R, D], inside.
[[nodiscard]] at::Tensor region_originals(const Group& group);

/// The finding as one of the instances of its family that it breaks as well; each is judged
/// exactly.
[[nodiscard]] std::vector<Finding> of_family(const Group& group, const Finding& finding);

struct Board {
  std::vector<Group> groups;  ///< workers point into them
  std::list<Unit> units = {};
  std::vector<std::pair<int64_t, int64_t>> pending =
      {};                                   ///< (group, instance) that wait for their turn
  std::map<int64_t, Reserve> reserve = {};  ///< by instance
  Ledger ledger;

  /// All of it but what only the campaign itself knows.
  [[nodiscard]] Progress standing() const;

  /// Instances of the group that want findings, ascending; all that are left where it keeps going.
  [[nodiscard]] std::vector<int64_t> wanting(const Group& group, bool keep_going) const;

  /// Between iterations. Instances that are given a time each (`one_by_one`) begin theirs anew.
  void save(State& state, bool one_by_one) const;

  /// What a loaded board is made with: a worker of a group with a seed, on some of its instances;
  /// and the finding that a hit of a worker with a seed is, if it is one.
  using MakeUnit =
      std::function<Unit&(size_t group, uint64_t seed, std::vector<int64_t> instances)>;
  using Examine =
      std::function<std::optional<Finding>(const Group& group, uint64_t seed, const Hit& hit)>;

  /// Into the board of a campaign that has just begun. Throws Error{kParse} when it is another one.
  void load(const State& state, const MakeUnit& make, const Examine& examine);

 private:
  [[nodiscard]] Group& group_at(int64_t g);
};

}  // namespace grapeshot
