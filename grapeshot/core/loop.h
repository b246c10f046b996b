// grapeshot/core/loop.h: the loop of one model: draw, mutate, run, judge, keep.
//
// A shard owns a batch of rows, a corpus and a random stream; a campaign runs shards on lanes. One
// iteration makes one candidate per row. A gradient candidate costs T forward and backward passes
// and one forward pass, which serves verdict and coverage together; the iterates are judged from
// their gradient passes.
//
// "Tensor-Based Batch Fuzzing with Adaptive Perturbation Scaling for Deep Neural Networks", Zhang
// and Sui, 2026, Algorithms 2-5, under the schedule `paper`; docs/design.md says what `fair` does.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/corpus.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/core/model.h"
#include "grapeshot/core/mutate.h"
#include "grapeshot/core/options.h"
#include "grapeshot/core/scale.h"
#include "grapeshot/core/spec.h"

namespace grapeshot {

/// Coverage of one model, shared by its shards.
class SharedCoverage {
 public:
  SharedCoverage(const Model& model, const LoopOptions& options);

  /// Indices of the model's taps to record, empty when nothing can be gained any more.
  [[nodiscard]] std::vector<int64_t> wanted();
  /// The gain [N] of the driving criterion, undefined when there is none.
  [[nodiscard]] at::Tensor update(const std::vector<at::Tensor>& activations);
  /// Name and value of every criterion, the driving one first.
  [[nodiscard]] std::vector<std::pair<std::string, double>> values();

 private:
  std::mutex mutex_;
  std::vector<int64_t> taps_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Criterion>> criteria_;
  bool drives_ = true;  ///< whether the first one drives, or all are only reported
};

/// Inputs of one model that violated so far, shared by its shards.
class SharedViolations {
 public:
  /// How many of the rows [n, D] are new.
  [[nodiscard]] int64_t insert(const at::Tensor& x);

 private:
  std::mutex mutex_;
  HashSet seen_;
};

/// An input that violates by the batched float32 evaluation; not yet confirmed.
struct Hit {
  int64_t instance = 0, region = 0;  ///< of the shard's SpecTensors
  at::Tensor x;                      ///< [D]
  float margin = 0.f;
  int64_t iteration = 0, row = 0, parent = 0;
  std::string mutation;
};

struct Iteration {
  int64_t candidates = 0;      ///< rows that a mutation made
  int64_t inputs_checked = 0;  ///< rows whose verdict was computed, iterates included
  int64_t violations = 0;      ///< candidates that violate
  int64_t distinct_violations = 0;
  std::vector<int64_t> per_instance;  ///< [I] candidates
  int64_t cost = 0;  ///< multiply-adds of all passes, a backward pass counted as two forward ones
  std::vector<Hit> hits;  ///< at most a few per instance that still wants findings, best first
};

/// What a shard works on; everything outlives it and may be shared between shards.
struct ShardSetup {
  const Model* model = nullptr;
  const SpecTensors* specs = nullptr;
  Head head = Head::kOutputs;  ///< kLogits only where no property looks at more than differences
  at::Tensor originals;        ///< [R, D], inside their boxes
  SharedCoverage* coverage = nullptr;
  uint64_t seed = 0;                       ///< of this shard
  std::vector<int64_t> instances;          ///< the ones to work on
  SharedViolations* violations = nullptr;  ///< null: the shard counts for itself
  int64_t corpus_bytes = int64_t{64} << 20;
};

class Shard {
 public:
  Shard(const ShardSetup& setup, const LoopOptions& options);

  /// One candidate per row. Returns early, with what was done, when `deadline` expires.
  [[nodiscard]] Iteration iterate(const Deadline& deadline);

  /// `instance` needs no more findings; under `fair` its rows go to the others.
  void retire(int64_t instance);

  /// Instances that still want findings.
  [[nodiscard]] int64_t unbroken() const { return static_cast<int64_t>(active_.size()); }
  [[nodiscard]] const std::vector<int64_t>& active() const { return active_; }
  [[nodiscard]] int64_t batch() const { return batch_; }
  [[nodiscard]] int64_t corpus_size() const { return corpus_.size(); }

  /// The smallest margin seen per instance [I] float32 (+inf: none yet) and its input [I, D].
  [[nodiscard]] const at::Tensor& best_margin() const { return best_margin_; }
  [[nodiscard]] const at::Tensor& best_input() const { return best_input_; }

 private:
  struct Batch;
  struct Judged;

  [[nodiscard]] Batch draw();
  void draw_paper(Batch& batch);
  void draw_fair(Batch& batch);
  void begin_lineages();
  void run_mutation(const Batch& batch, int64_t begin, int64_t end, const Mutation& mutation,
                    const Deadline& deadline, Judged& judged, Iteration& iteration);
  void keep_paper(const Batch& batch, const Judged& judged);
  void keep_fair(const Batch& batch, const Judged& judged);
  [[nodiscard]] at::Tensor energy(const Judged& judged) const;
  void note_best(const Batch& batch, const Judged& judged, Iteration& iteration);

  const Model* model_;
  const SpecTensors* specs_;
  SharedCoverage* coverage_;
  LoopOptions options_;
  std::vector<WeightedMutation> mutations_;
  const Scale* scale_;
  bool paper_;
  Head head_;
  uint64_t seed_;
  int64_t batch_, micro_, iteration_ = 0;
  Rng rng_;
  Corpus corpus_;
  SharedViolations own_violations_;
  SharedViolations* violations_;
  HashSet proposed_;
  std::vector<int64_t> active_;  ///< instances that want findings, ascending
  at::Tensor is_active_;         ///< [I] bool
  at::Tensor best_margin_, best_input_;

  // Lineages of the fair schedule, one per row.
  at::Tensor x_;                               ///< [B, D] the current parents
  at::Tensor region_, depth_, id_, mutation_;  ///< [B] int64
  at::Tensor stage_;                           ///< [B] float32, generations so far
  at::Tensor margin_;                 ///< [B] float32, what the next generation has to beat
  at::Tensor over_;                   ///< [B] bool: begins anew
  int64_t turn_ = 0;                  ///< whose turn it is among the active instances
  std::vector<int64_t> region_turn_;  ///< [I] the same among an instance's regions
};

/// Rows that one gradient pass of `model` handles well: their activations fit a core's cache.
[[nodiscard]] int64_t micro_batch(const Model& model);

/// The size of equal pieces, the last one perhaps smaller, of at most `most` of `rows` rows each.
[[nodiscard]] int64_t even_pieces(int64_t rows, int64_t most);

}  // namespace grapeshot
