// grapeshot/falsify/search.h: what attacks work on: instances of one model, and what is known so
// far.
//
// All passes go through evaluate() and climb(), which judge every row: a violation is never lost,
// whatever an attack was after. Both cut a batch into pieces that fit the cache and stop between
// two of them when there is nothing left to do.
//
// Shapes: n rows, D inputs, K outputs, I instances, R regions. Units: the model's own input units.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/core/worker.h"

namespace grapeshot::falsify {

/// Rows to work on, each for the region that it names.
struct Rows {
  at::Tensor region;    ///< [n] int64
  at::Tensor instance;  ///< [n] int64
  RowSpec spec;

  [[nodiscard]] int64_t size() const { return region.size(0); }
  [[nodiscard]] at::Tensor width() const { return spec.hi - spec.lo; }  ///< [n, D]
};

/// Rows and where they are.
struct Stand {
  Rows rows;
  at::Tensor x;       ///< [n, D]
  at::Tensor margin;  ///< [n] there, +inf where it was never computed
};

struct Climb {
  at::Tensor margin;    ///< [n], +inf where the deadline came first
  at::Tensor gradient;  ///< [n, D] of the loss, which a step increases
};

/// dL/dy [m, K] for the outputs y of rows [begin, begin + m): what a gradient step increases.
using RowLoss = std::function<at::Tensor(const at::Tensor& y, const RowSpec& spec, int64_t begin)>;

/// Minus the margin: of the nearest case, its farthest row.
[[nodiscard]] at::Tensor hinge(const at::Tensor& y, const RowSpec& spec, int64_t begin);

/// At most what margins() can be for outputs in `y`; interval arithmetic, so perhaps far below.
[[nodiscard]] at::Tensor lowest_margins(const Bounds& y, const RowSpec& spec);

/// What is known of an instance without running the model.
struct Features {
  std::vector<int64_t> free;  ///< inputs that may vary in some region
  int64_t regions = 0;
};

class Search {
 public:
  /// Near misses that are kept of every instance.
  static constexpr int64_t kNear = 8;

  /// A batch has at most `most_rows` rows (0: as many as are good), and one per instance at least.
  explicit Search(const WorkerSetup& setup, int64_t most_rows = 0);

  // What an attack reads.

  [[nodiscard]] const Model& model() const { return *setup_.model; }
  [[nodiscard]] const SpecTensors& specs() const { return *setup_.specs; }
  [[nodiscard]] Head head() const { return setup_.head; }
  /// Whether the model has bounds(): looked up once, since it takes a pass.
  [[nodiscard]] bool has_bounds() const;
  [[nodiscard]] const Features& features(int64_t instance) const;
  [[nodiscard]] Rng& rng() { return rng_; }
  [[nodiscard]] const std::vector<int64_t>& active() const { return active_; }
  /// Instances of the round.
  [[nodiscard]] const std::vector<int64_t>& round() const { return round_; }
  /// Rows for a round of so many forward passes (a gradient counts as three), such that a round of
  /// any attack costs about the same: at least one for each instance of the round.
  [[nodiscard]] int64_t rows_for(int64_t passes) const;
  /// Whether the round has to end: time is up, or every instance of it is broken.
  [[nodiscard]] bool over() const;

  /// `count` rows, shared out over the instances of the round and, in turn, over their regions.
  [[nodiscard]] Rows rows(int64_t count);
  /// `count` rows of one instance, over its regions in turn.
  [[nodiscard]] Rows rows_of_instance(int64_t instance, int64_t count);
  /// `which` [n], any numbers >= 0, as a case that the row's region has.
  [[nodiscard]] at::Tensor real_case(const Rows& rows, const at::Tensor& which) const;
  /// Rows for regions [n].
  [[nodiscard]] Rows rows_of(const at::Tensor& region) const;

  /// `count` rows that stand at near misses: the closest inputs of the round's instances, the best
  /// one first, at least one of each. Fresh rows at their originals where nothing was tried yet.
  [[nodiscard]] Stand near(int64_t count) const;
  /// The same of one instance.
  [[nodiscard]] Stand near_of(int64_t instance, int64_t count) const;
  /// The given inputs [n, D]: what the property was built around, or the centre.
  [[nodiscard]] at::Tensor originals(const Rows& rows) const;

  // What an attack does.

  /// Margins [n] of x [n, D], which is in its boxes, moved into its set where it has one.
  at::Tensor evaluate(const at::Tensor& x, const Rows& rows);
  /// Outputs [n, K] of x [n, D], not judged; zeros where time was up.
  [[nodiscard]] at::Tensor outputs(const at::Tensor& x);
  /// Margins with the gradient of a loss, by one forward and one backward pass.
  Climb climb(const at::Tensor& x, const Rows& rows, const RowLoss& loss = hinge);

  /// Gradients of `rows` pass Sign, Round and Floor in another way than last time, until the round
  /// ends: straight through, where the argument is small, and where it can change its sign: within
  /// a few times of how far it moves over the row's box.
  void turn_surrogate(const Rows& rows);

  /// What the attack called `name` keeps from one round to the next for `instance` (-1: for all).
  template <class T>
  T& memory(std::string_view name, int64_t instance) {
    std::any& slot = memory_[{std::string(name), instance}];
    if (!slot.has_value()) slot = T{};
    return *std::any_cast<T>(&slot);
  }

  // What the portfolio does.

  /// A round on these instances begins, of `effort` times the usual work; counts go to `iteration`.
  void begin_round(std::vector<int64_t> instances, double effort, Iteration& iteration,
                   const Deadline& deadline);
  /// Moves what violated to the iteration's hits.
  void end_round(std::string_view attack, int64_t round);
  void retire(int64_t instance);
  /// What the campaign made of a hit.
  void judged(const Hit& hit, bool confirmed);
  /// Whether nothing is free and every region has been tried.
  [[nodiscard]] bool exhausted(int64_t instance) const;
  [[nodiscard]] const at::Tensor& best_margin() const { return best_margin_; }
  [[nodiscard]] const at::Tensor& best_input() const { return best_input_; }
  /// Rows with zero gradients among those of climb() so far, [0, 1]; -1 before the first.
  [[nodiscard]] double dead_gradients() const;

  void save(State& state, const std::string& at) const;
  void load(const State& state, const std::string& at);

  /// Whether some output was NaN.
  [[nodiscard]] bool met_nan() const { return met_nan_; }

 private:
  struct Piece;

  [[nodiscard]] static at::Tensor inside(const at::Tensor& x, const Rows& rows);
  void note(const Piece& piece);
  void keep_near(int64_t instance, int64_t region, const at::Tensor& x, float margin);
  [[nodiscard]] const std::vector<float>& reach_of(int64_t region);
  [[nodiscard]] Stand stand_at(const std::vector<int64_t>& instances, int64_t count) const;

  WorkerSetup setup_;
  int64_t most_rows_;
  Rng rng_;
  int64_t micro_;
  double effort_ = 1.;
  std::vector<Features> features_;
  std::vector<int64_t> active_, round_;
  std::vector<int64_t> region_turn_;  ///< [I]
  int64_t turn_ = 0;
  at::Tensor best_margin_, best_input_;            ///< [I], [I, D]
  at::Tensor near_x_, near_margin_, near_region_;  ///< [I, kNear, D], [I, kNear], [I, kNear]
  std::vector<float> scale_;                       ///< [I] the largest output of the last hit
  std::vector<std::set<int64_t>> tried_;  ///< [I] regions, of instances where nothing is free
  std::map<int64_t, std::vector<float>> reach_;  ///< by region
  SharedViolations own_violations_;
  SharedViolations* violations_ = nullptr;
  std::vector<float> wanted_;  ///< [I] margins that are proposed, at most: see judged()
  std::vector<Hit> hits_;
  std::vector<bool> hit_;                    ///< [I] in this round
  Surrogate surrogate_ = Surrogate::kLoose;  ///< of the round's rows
  int64_t surrogate_turn_ = 0;
  Iteration* iteration_ = nullptr;
  Deadline deadline_;
  std::map<std::pair<std::string, int64_t>, std::any> memory_;
  int64_t gradient_rows_ = 0, dead_rows_ = 0;
  bool met_nan_ = false;
  mutable std::optional<bool> has_bounds_;
};

}  // namespace grapeshot::falsify
