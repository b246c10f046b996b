// grapeshot/core/worker.h: what runs on a lane of a campaign, one iteration after another.
//
// A worker proposes inputs for instances of one model. The fuzzing loop (core/loop.h) is one kind,
// the portfolio of attacks (falsify/portfolio.h) another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/core/corpus.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/core/model.h"
#include "grapeshot/core/options.h"
#include "grapeshot/core/spec.h"
#include "grapeshot/core/state.h"

namespace grapeshot {

/// Coverage of one model, shared by its workers.
class SharedCoverage {
 public:
  /// Throws Error{kInvalidArgument} where a criterion lacks what it needs.
  SharedCoverage(const Model& model, const LoopOptions& options, const Profile* profile = nullptr);

  /// What to record of the model's taps; nothing when nothing can be gained any more.
  [[nodiscard]] Wanted wanted();
  /// The gain [N] of the driving criterion for what was `wanted`; undefined when there is no such
  /// criterion.
  [[nodiscard]] at::Tensor update(const Wanted& wanted, const Trace& trace);
  /// Whether some criterion is not complete.
  [[nodiscard]] bool open();
  /// Name and value of every criterion, the driving one first.
  [[nodiscard]] std::vector<std::pair<std::string, double>> values();

  void save(State& state, const std::string& at);
  void load(const State& state, const std::string& at);

 private:
  std::mutex mutex_;
  std::vector<int64_t> taps_;
  struct Named {
    const CriterionRow* row;
    std::unique_ptr<Criterion> criterion;
  };
  std::vector<Named> criteria_;
  bool drives_ = true;  ///< whether the first one drives, or all are only reported
};

/// Inputs of one model that violated so far, shared by its workers.
class SharedViolations {
 public:
  /// How many of the `rows` [n] int64 of x [N, D] are new.
  [[nodiscard]] int64_t insert(const at::Tensor& x, const at::Tensor& rows);

  void save(State& state, const std::string& at);
  void load(const State& state, const std::string& at);

 private:
  std::mutex mutex_;
  HashSet seen_;
};

/// An input that violates by the batched float32 evaluation; not yet confirmed.
struct Hit {
  int64_t instance = 0, region = 0;  ///< of the worker's SpecTensors
  at::Tensor x;                      ///< [D]
  float margin = 0.f;
  int64_t iteration = 0, row = 0, parent = 0;
  std::string mutation = {};
  bool is_nan = false;  ///< not a violation: an output is NaN
};

/// What one mutation, or attack, has made.
struct Made {
  std::string_view by;     ///< its name, of a table
  int64_t candidates = 0;  ///< rows
  int64_t gains = 0;       ///< of them, with a gain of the criterion that drives
};

struct Iteration {
  int64_t candidates = 0;      ///< rows that a mutation made
  int64_t inputs_checked = 0;  ///< rows whose verdict was computed, iterates included
  int64_t violations = 0;      ///< candidates that violate
  int64_t distinct_violations = 0;
  std::vector<int64_t> per_instance;  ///< [I] candidates
  std::vector<Made> made;             ///< the candidates by what made them
  int64_t cost = 0;  ///< multiply-adds of all passes; a backward pass to the inputs takes as many
  double seconds = 0.;    ///< with the confirmation of its hits
  double network_s = 0.;  ///< of them, within the network's passes below
  std::vector<Hit> hits;  ///< at most a few per instance that still wants findings, best first
  std::vector<int64_t> exhausted;  ///< instances of which every input has been tried
  bool cut_short = false;          ///< the deadline came before its end
  int64_t fewer_rows = 0;          ///< memory ran out: passes have this many rows from here on

  // Passes of the network that the iteration accounts for: Model's, with cost and time.
  [[nodiscard]] at::Tensor forward(const Model& model, const at::Tensor& x, Head head);
  [[nodiscard]] Trace trace(const Model& model, const at::Tensor& x, Head head,
                            const Wanted& wanted);
  [[nodiscard]] Gradient gradient(const Model& model, const at::Tensor& x, Head head,
                                  const Surrogate& surrogate, const Cotangent& cotangent);
};

/// What a worker works on; everything outlives it and may be shared between workers.
struct WorkerSetup {
  const Model* model = nullptr;
  const SpecTensors* specs = nullptr;
  Head head = Head::kOutputs;  ///< kLogits only where no property looks at more than differences
  at::Tensor originals;        ///< [R, D], inside their boxes
  SharedCoverage* coverage = nullptr;
  uint64_t seed = 0;                       ///< of this worker
  std::vector<int64_t> instances;          ///< the ones to work on
  SharedViolations* violations = nullptr;  ///< null: the worker counts for itself
  int64_t corpus_bytes = int64_t{64} << 20;
  int64_t pass_rows = 0;  ///< rows of a pass at most; 0: what micro_batch() says
  bool bfloat16 = false;  ///< gradient passes run in it, and only propose
};

/// Not thread-safe: a lane at a time.
class Worker {
 public:
  virtual ~Worker() = default;

  /// A short piece of work. Returns early, with what was done, when `deadline` expires.
  [[nodiscard]] virtual Iteration iterate(const Deadline& deadline) = 0;

  /// `instance` needs no more findings.
  virtual void retire(int64_t instance) = 0;

  /// What became of a hit: it counts as a finding, or it was not confirmed.
  virtual void judged(const Hit& /*hit*/, bool /*confirmed*/) {}

  /// Instances that still want findings, ascending.
  [[nodiscard]] virtual const std::vector<int64_t>& active() const = 0;
  [[nodiscard]] int64_t unbroken() const { return static_cast<int64_t>(active().size()); }
  [[nodiscard]] virtual int64_t batch() const = 0;  ///< rows
  [[nodiscard]] virtual int64_t corpus_size() const = 0;

  /// The smallest margin seen per instance [I] float32 (+inf: none yet) and its input [I, D].
  [[nodiscard]] virtual const at::Tensor& best_margin() const = 0;
  [[nodiscard]] virtual const at::Tensor& best_input() const = 0;

  /// Between two iterations. A worker made from the same setup that loads it goes on as this one
  /// would, as far as its class says.
  virtual void save(State& state, const std::string& at) const = 0;
  virtual void load(const State& state, const std::string& at) = 0;
};

using MakeWorker =
    std::function<std::unique_ptr<Worker>(const WorkerSetup& setup, const LoopOptions& options)>;

/// Rows that one gradient pass of `model` handles well: their activations fit a core's cache.
[[nodiscard]] int64_t micro_batch(const Model& model);

/// The size of equal pieces, the last one perhaps smaller, of at most `most` of `rows` rows each.
[[nodiscard]] int64_t even_pieces(int64_t rows, int64_t most);

}  // namespace grapeshot
