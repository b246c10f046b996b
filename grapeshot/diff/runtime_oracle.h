// grapeshot/diff/runtime_oracle.h: inputs on which another runtime computes something else.
//
// Candidates go through the lowered graph in their batch, and through the other runtime. Where the
// two are apart both run the row alone, and the graph as read in float64 is the judge.
//
// Shapes: n rows, D inputs, K outputs of the whole network (Head::kOutputs). Errors and differences
// are largest entries, over the magnitude of the largest exact output.
#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"

namespace grapeshot::diff {

/// What outputs in float32 are off by at most where nothing is ill-conditioned: 1024 units of
/// float32's last place.
constexpr double kRounding = 0x1p-13;

/// Outputs [n, K] float64 for x [n, D] float32.
using Outputs = std::function<at::Tensor(const at::Tensor& x)>;

/// One row in both runtimes, alone.
struct Comparison {
  at::Tensor ours, theirs, exact;  ///< [K] float64; exact: the graph as read, in float64
  int64_t our_class = 0, their_class = 0, exact_class = 0;
  double difference = 0.;                   ///< of the two
  double our_error = 0., their_error = 0.;  ///< from the exact outputs
  double gap = 0.;                          ///< between the two largest exact outputs
  /// What is not counted: the tolerance or, where it is more and more than kRounding, what rounding
  /// comes to here: four times the error of the graph as read in float32, or how far the exact
  /// outputs move with changes of the input that are as small as rounding (a step of Sign).
  double limit = 0.;
  bool classes = false;  ///< they differ: the gap is above the limit, or one of the errors is
  bool values = false;   ///< the difference is above the limit

  [[nodiscard]] bool disagree() const { return classes || values; }
};

class RuntimeOracle {
 public:
  /// `model` outlives it.
  RuntimeOracle(const Model& model, Outputs theirs, double tolerance)
      : model_(model), theirs_(std::move(theirs)), tolerance_(tolerance) {}

  /// [n] bool: rows of x [n, D] in which the classes differ, or values by more than the tolerance.
  [[nodiscard]] at::Tensor propose(const at::Tensor& x) const;

  /// x [D]; nothing disagrees where exact outputs are not finite.
  [[nodiscard]] Comparison compare(const at::Tensor& x) const;

 private:
  const Model& model_;
  Outputs theirs_;
  double tolerance_;
};

}  // namespace grapeshot::diff
