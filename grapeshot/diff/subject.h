// grapeshot/diff/subject.h: a model under differential fuzzing, with what is known of its neurons.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/core/worker.h"
#include "grapeshot/diff/diff.h"
#include "grapeshot/diff/neurons.h"
#include "grapeshot/diff/objective.h"

namespace grapeshot::diff {

class Subject {
 public:
  /// Throws Error{kInvalidArgument} where a criterion lacks what it needs.
  Subject(const Model& model, const DiffOptions& options, const Profile* profile);

  struct Look {
    at::Tensor y;         ///< [n, K], before a final softmax
    at::Tensor label;     ///< [n] int64, the prediction
    at::Tensor finite;    ///< [n] bool, all outputs
    at::Tensor response;  ///< [n, T], means scaled by the least and largest of their layer
    at::Tensor means;     ///< [n, T] as they are
    at::Tensor gain;      ///< [n] of the criterion
  };
  /// A forward pass of x [n, D] that counts for coverage. Where memory runs out it, and every later
  /// pass, goes by pieces of half as many rows.
  [[nodiscard]] Look look(const at::Tensor& x);

  /// The gradient [n, D] of the objective with of_class [n, K], plus lambda times neurons that the
  /// strategies choose by what was seen of x.
  [[nodiscard]] at::Tensor climb(const at::Tensor& x, const at::Tensor& of_class, const Look& seen,
                                 Rng& rng);

  /// The gradient [n, D] of a loss with the slopes `of_outputs` and, by the neurons' means,
  /// `driven` [n, T].
  [[nodiscard]] at::Tensor gradient(const at::Tensor& x, const at::Tensor& driven,
                                    const Cotangent& of_outputs) const;

  /// What strategies choose by.
  [[nodiscard]] Neurons known(const Look& seen) const {
    return {hits_, weight_, seen.response, options_.tau};
  }

  /// The prediction of x [D] by the graph as read, alone; -1 where float32 and float64 differ or an
  /// output is not finite.
  [[nodiscard]] int64_t prediction(const at::Tensor& x) const;

  /// Whether x [D] gives an output that is NaN or infinite by the graph as read, alone, in float32.
  [[nodiscard]] bool overflows(const at::Tensor& x) const;

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] int64_t neurons() const { return neurons_; }
  [[nodiscard]] SharedCoverage& coverage() { return coverage_; }
  /// The rows of a pass from here on, when memory has run out since this was last asked; else 0.
  [[nodiscard]] int64_t fewer_rows() { return std::exchange(fewer_rows_, 0); }

 private:
  [[nodiscard]] Look look_at_once(const at::Tensor& x);
  /// Calls work(begin, end) for pieces of `rows`; one that runs out of memory comes again, smaller.
  void in_pieces(int64_t rows, const std::function<void(int64_t begin, int64_t end)>& work);

  const Model& model_;
  const DiffOptions& options_;
  SharedCoverage coverage_;
  std::vector<const Strategy*> chosen_;
  const Objective* objective_;
  std::vector<int64_t> taps_;
  int64_t neurons_ = 0;
  int64_t most_rows_ = std::numeric_limits<int64_t>::max(), fewer_rows_ = 0;  // of a pass
  at::Tensor hits_, weight_;                                                  // [T]
};

}  // namespace grapeshot::diff
