// grapeshot/core/coverage.h: which parts of a network the inputs so far have exercised.
//
// A criterion turns the activations of a batch into a gain per row and keeps a cumulative value. It
// is one class and one row of the table in coverage.cpp.
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

#include "grapeshot/core/state.h"

namespace grapeshot {

/// What a row has to do to be interesting.
enum class CoverageStrategy {
  kGlobal,     ///< GlobalCov: fire a neuron that no input has fired; value = share of all neurons
               ///< fired
  kBestInput,  ///< BestInputCov: fire a larger share alone than any single input; value = that
               ///< share
};

struct CoverageOptions {
  CoverageStrategy strategy = CoverageStrategy::kGlobal;
  double tau = 0.1;  ///< a neuron fires when |a| > tau
};

class Criterion {
 public:
  virtual ~Criterion() = default;
  /// Takes in one batch: activations [N, neurons] per tap, |a| already, undefined for taps that are
  /// not wanted, not all of them. Returns the gain [N], float32, >= 0; > 0 means interesting.
  virtual at::Tensor update(std::span<const at::Tensor> activations) = 0;
  /// In [0, 1].
  [[nodiscard]] virtual double value() const = 0;
  /// Whether no input can gain any more, so that activations need not be computed.
  [[nodiscard]] virtual bool complete() const = 0;
  /// Whether the activations of that tap can change anything.
  [[nodiscard]] virtual bool wants(size_t /*tap*/) const { return !complete(); }
  virtual void save(State& state, const std::string& at) const = 0;
  virtual void load(const State& state, const std::string& at) = 0;
};

struct CriterionRow {
  std::string_view name, summary;
  /// `neurons`: the width of every tap.
  std::unique_ptr<Criterion> (*make)(std::span<const int64_t> neurons,
                                     const CoverageOptions& options);
};

[[nodiscard]] std::span<const CriterionRow> criteria();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const CriterionRow& find_criterion(std::string_view name);

}  // namespace grapeshot
