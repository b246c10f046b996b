// grapeshot/diff/as_published.h: DLFuzz as its released code behaves (Guo, Jiang, Zhao, Chen, Sun,
// 2018; MNIST/gen_diff.py), to compare with numbers that it gave.
//
// Where that departs from the paper: a seed's own prediction becomes what its steps are held
// against; every iterate predicted otherwise counts, however far from the image and outside of the
// range; a seed has to gain less the later its image comes, whatever the step; all seeds of an
// image are one array, which steps change in place; neurons are chosen once for a seed; strategies
// are counted from 0; strategy 3 drives neurons away from the threshold and the others' not at all;
// what is climbed are outputs before a softmax.
//
// Images come one after the other, as published; in a batch of several they advance side by side,
// and each is credited with what none covered before the batch.
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"
#include "grapeshot/core/profile.h"
#include "grapeshot/diff/diff.h"
#include "grapeshot/diff/neurons.h"

namespace grapeshot::diff {

/// Names of the released code, as in "0+2": 0, 1, 2, 3, random, none.
class PublishedStrategies {
 public:
  /// Throws Error{kNotFound}, listing the known names.
  explicit PublishedStrategies(std::string_view text);

  /// As SelectFn has it.
  [[nodiscard]] at::Tensor select(const Neurons& neurons, int64_t count, Rng& rng) const;

 private:
  std::vector<const Strategy*> chosen_;  // a null one is that near the threshold
};

/// Until every image has run out of seeds, the budget is spent or `stop` is set. Observed are
/// iterates that pass what holds without --as-published too; the others are counted.
[[nodiscard]] DiffProgress run_as_published(const Model& model, const at::Tensor& images,
                                            const DiffOptions& options, const Profile* profile,
                                            DiffObserver& observer, const std::atomic<bool>& stop);

}  // namespace grapeshot::diff
