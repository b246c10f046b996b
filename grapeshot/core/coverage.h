// grapeshot/core/coverage.h: which parts of a network the inputs so far have exercised.
//
// A criterion turns what a batch does to a network's taps into a gain per row and keeps a
// cumulative value. It is one class in criteria_<group>.cpp and one row of the table there.
//
// Threads: an object belongs to whoever holds its lock; the loop's lanes share one per model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"
#include "grapeshot/core/options.h"
#include "grapeshot/core/profile.h"
#include "grapeshot/core/state.h"

namespace grapeshot {

/// What a row has to do to be interesting; kBestInput is for `nc` and `nc-scaled` alone.
enum class CoverageStrategy {
  kGlobal,     ///< GlobalCov: fire a neuron that no input has fired; value = share of all neurons
               ///< fired
  kBestInput,  ///< BestInputCov: fire a larger share alone than any single input; value = that
               ///< share
};

struct CoverageOptions {
  CoverageStrategy strategy = CoverageStrategy::kGlobal;
  double tau = 0.1;  ///< a neuron fires when |a| > tau
  CriterionOptions more = {};
};

/// What a criterion is made for.
struct CriterionSetup {
  std::vector<std::string> taps =
      {};  ///< names, for reference statistics and messages; may be empty
  std::vector<int64_t> neurons = {};  ///< of every tap
  CoverageOptions options = {};
  const Profile* profile = nullptr;  ///< reference statistics of the model, where there are some
  std::string model = "the model";   ///< its name, for messages
  std::vector<SequenceTap> recurrent = {}, attention = {};  ///< as Model has them
};

/// For the taps of `model` that counted_taps() names; options and profile are left to the caller.
[[nodiscard]] CriterionSetup criterion_setup(const Model& model, bool every_tap);

/// One batch, as Trace has it; by tap of the setup, undefined or empty where not wanted.
struct Observation {
  at::Tensor y = {};  ///< [N, K], before a final softmax where the caller has that
  std::vector<at::Tensor> activations = {};  ///< [N, neurons]
  std::vector<at::Tensor> means = {};        ///< [N, neurons]
  std::vector<at::Tensor> extremes = {};     ///< [N, 2]
  // By layer, as Trace has them; empty where not wanted.
  std::vector<at::Tensor> states = {};     ///< [N, steps, units]
  std::vector<at::Tensor> attention = {};  ///< [N, heads, queries, keys]
};

class Criterion {
 public:
  virtual ~Criterion() = default;
  /// Takes in one batch. Returns the gain [N], float32 on the host, >= 0; > 0 means interesting. A
  /// row's gain is what it has beyond all earlier batches.
  virtual at::Tensor update(const Observation& seen) = 0;
  /// In [0, 1], or a number that only grows where CriterionRow::share says that it is none.
  [[nodiscard]] virtual double value() const = 0;
  /// Whether no input can gain any more, so that activations need not be computed.
  [[nodiscard]] virtual bool complete() const = 0;
  /// Whether that tap can change anything.
  [[nodiscard]] virtual bool wants(size_t /*tap*/) const { return !complete(); }
  virtual void save(State& state, const std::string& at) const = 0;
  virtual void load(const State& state, const std::string& at) = 0;
};

struct CriterionRow {
  std::string_view name, summary;
  std::unique_ptr<Criterion> (*make)(const CriterionSetup& setup);
  // What it looks at besides the outputs.
  bool activations = false, means = false, extremes = false;
  bool profiled = false;   ///< compares with reference statistics
  bool share = true;       ///< its value is a share of something
  bool repeatable = true;  ///< the same batch again gains nothing
  // Layers without which there is nothing to look at.
  bool states = false, attention = false;

  /// Adds what it looks at to what is recorded.
  void add_to(Wanted& wanted) const;
};

[[nodiscard]] std::span<const CriterionRow> criteria();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const CriterionRow& find_criterion(std::string_view name);

/// The criterion, after checking that the setup has what it needs; throws Error{kInvalidArgument}.
[[nodiscard]] std::unique_ptr<Criterion> make_criterion(const CriterionRow& row,
                                                        const CriterionSetup& setup);

}  // namespace grapeshot
