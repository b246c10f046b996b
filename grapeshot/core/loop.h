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
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/mutate.h"
#include "grapeshot/core/scale.h"
#include "grapeshot/core/worker.h"

namespace grapeshot {

class Shard final : public Worker {
 public:
  Shard(const WorkerSetup& setup, const LoopOptions& options);

  /// One candidate per row.
  [[nodiscard]] Iteration iterate(const Deadline& deadline) override;

  /// Under `fair` the instance's rows go to the others.
  void retire(int64_t instance) override;
  void judged(const Hit& hit, bool confirmed) override;

  [[nodiscard]] const std::vector<int64_t>& active() const override { return active_; }
  [[nodiscard]] int64_t batch() const override { return batch_; }
  [[nodiscard]] int64_t corpus_size() const override { return corpus_.size(); }
  [[nodiscard]] const at::Tensor& best_margin() const override { return best_margin_; }
  [[nodiscard]] const at::Tensor& best_input() const override { return best_input_; }

  /// All of it: the same iterations follow.
  void save(State& state, const std::string& at) const override;
  void load(const State& state, const std::string& at) override;

 private:
  struct Batch;
  struct Judged;

  [[nodiscard]] at::Tensor gone() const;
  [[nodiscard]] at::Device x_device() const;
  [[nodiscard]] Batch draw();
  void draw_paper(Batch& batch);
  void draw_fair(Batch& batch);
  bool begin_lineages();
  void look_up_lineages();
  [[nodiscard]] at::Tensor step_sizes(const RowSpec& spec) const;
  void run_mutation(const Batch& batch, int64_t begin, int64_t end, const Mutation& mutation,
                    const Deadline& deadline, Judged& judged, Iteration& iteration);
  void keep(const Batch& batch, const Judged& judged, const at::Tensor& rows, const at::Tensor& x,
            bool near_miss);
  void keep_paper(const Batch& batch, const Judged& judged);
  void keep_fair(const Batch& batch, const Judged& judged);
  [[nodiscard]] at::Tensor instances_of(const at::Tensor& region) const;
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> remembered() const;
  [[nodiscard]] std::vector<Made> made_by(const Judged& judged, const int64_t* which) const;
  void note_best(const Batch& batch, const Judged& judged, Iteration& iteration);
  void propose(const Batch& batch, const Judged& judged, std::vector<int64_t> violating,
               const int64_t* of, const float* margin, Iteration& iteration);

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
  bool bfloat16_;
  bool drops_tokens_;  ///< some mutation of masks is among them
  Rng rng_;
  Corpus corpus_;
  SharedViolations own_violations_;
  SharedViolations* violations_;
  HashSet proposed_;
  std::vector<int64_t> confirmed_;  ///< [I] hits that were
  std::vector<int64_t> active_;     ///< instances that want findings, ascending
  at::Tensor is_active_;            ///< [I] bool
  at::Tensor best_margin_, best_input_;

  // Lineages of the fair schedule, one per row; `mutation_` ascends.
  at::Tensor x_;                               ///< [B, D] the current parents
  at::Tensor region_, depth_, id_, mutation_;  ///< [B] int64
  at::Tensor stage_;                           ///< [B] float32, generations so far
  at::Tensor margin_;     ///< [B] float32, what the next generation has to beat
  at::Tensor over_;       ///< [B] bool: begins anew
  RowSpec lineage_spec_;  ///< of region_
  at::Tensor lineage_eta_, lineage_climbs_;
  at::Tensor lineage_instance_;       ///< on the host
  int64_t turn_ = 0;                  ///< whose turn it is among the active instances
  std::vector<int64_t> region_turn_;  ///< [I] the same among an instance's regions
};

/// A Shard, as a campaign asks for it.
[[nodiscard]] std::unique_ptr<Worker> make_shard(const WorkerSetup& setup,
                                                 const LoopOptions& options);

}  // namespace grapeshot
