// grapeshot/core/ledger.h: what a campaign has come to: of every instance, and in all.
//
// Not thread-safe: it belongs to whoever holds the campaign's lock.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/confirm.h"
#include "grapeshot/core/worker.h"

namespace grapeshot {

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

/// What the candidates of one mutation, or attack, have come to.
struct Yield {
  int64_t candidates = 0;
  int64_t gains = 0;     ///< candidates with a gain of the criterion that drives
  int64_t hits = 0;      ///< inputs proposed as counterexamples
  int64_t findings = 0;  ///< of them, confirmed and counted
};

/// Where the bins of the histogram of margins end; each holds its own end.
inline constexpr std::array kMarginEnds = {
    0., 1e-3, 1e-2, 1e-1, 1., 10., std::numeric_limits<double>::infinity()};

struct Progress {
  double seconds = 0.;
  int64_t instances = 0, broken = 0;
  int64_t candidates = 0, inputs_checked = 0;
  int64_t violations = 0, distinct_violations = 0, findings = 0;
  int64_t borderline = 0;   ///< proposals that rounding may undo, not reported
  double best_margin = 0.;  ///< smallest of the unbroken instances
  std::array<int64_t, kMarginEnds.size()> margins = {};  ///< how many of them, by their closest
  int64_t untried = 0;                                   ///< unbroken, without any input so far
  int64_t corpus_size = 0;
  double ttfv_s = -1.;    ///< first confirmed violation; -1: none yet
  double last_s = -1.;    ///< the latest finding
  int64_t cost = 0;       ///< multiply-adds done
  double lane_s = 0.;     ///< the lanes' time in iterations, verdicts and confirmations included
  double network_s = 0.;  ///< of it, within batched passes of the networks
  std::vector<std::pair<std::string, double>> coverage;  ///< mean over the models
  std::map<std::string, Yield> yields;                   ///< by mutation or attack
  int64_t lanes = 0;
  std::vector<int64_t> batch;  ///< rows per shard, per model
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

class Ledger {
 public:
  Ledger(int64_t instances, int64_t per_instance);

  [[nodiscard]] InstanceResult& of(int64_t instance);
  [[nodiscard]] const InstanceResult& of(int64_t instance) const;
  /// Whether the instance has not had its findings yet.
  [[nodiscard]] bool wants(int64_t instance) const;

  /// Takes in an iteration on the instances from `first` on.
  void count(const Iteration& iteration, int64_t borderline, int64_t first);
  /// Margins [I] and inputs [I, D] that were closest, for the instances from `first` on.
  void closest(int64_t first, const at::Tensor& margins, const at::Tensor& inputs);
  /// Counts a finding, `seconds` into the campaign and `alone_s` after its instance's own start;
  /// false when it is there already or its instance needs no more.
  bool accept(Finding& finding, double seconds, double alone_s);

  /// But for margins, which standing() adds.
  [[nodiscard]] const Progress& totals() const { return totals_; }
  /// The totals with the margins of the instances that have no finding.
  [[nodiscard]] Progress standing() const;
  [[nodiscard]] std::vector<InstanceResult> take_instances() { return std::move(instances_); }

  void save(State& state, const std::string& at) const;
  void load(const State& state, const std::string& at);

 private:
  int64_t per_instance_;
  Progress totals_;
  std::vector<InstanceResult> instances_;
  HashSet reported_;
};

}  // namespace grapeshot
