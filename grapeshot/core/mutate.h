// grapeshot/core/mutate.h: changes a batch of inputs, all rows at once.
//
// A mutation is one function and one row of the table in mutate.cpp. The command line, the docs and
// the contract tests read that table.
//
// Shapes: N rows in a batch (may be 0), D inputs. Units: the model's own input units.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/core/spec.h"

namespace grapeshot {

/// The gradient [N, D] of the loss at x [N, D]; a higher loss is closer to a violation. One forward
/// and one backward pass; whoever provides it also judges x.
using Objective = std::function<at::Tensor(const at::Tensor& x)>;

/// What a mutation may read besides the batch.
struct MutationContext {
  at::Tensor lo, hi;  ///< [N, D]: the legal box, lo <= hi; bits of masks have x's own value there
  at::Tensor eta;     ///< [N, D] or [1, 1]: the step, >= 0
  double range;       ///< eta is this share of every range, or 0: of another kind
  double share;       ///< s in (0, 1]: eta / s is how far a row may want to go
  at::Tensor stage;   ///< [N] float32: mutations since the row's lineage began, 0 for a fresh one
  bool fresh;         ///< whether some may be
  int64_t steps;      ///< T, gradient steps of one candidate, >= 1
  const Objective* objective;  ///< for mutations with `gradient`, else null
  Rng& rng;                    ///< the only source of randomness: same state, same result
  Deadline deadline;           ///< gradient mutations stop early when it expires
  TokenMasks masks = {};       ///< for mutations with `masks`, which alone may change those inputs
  SetRows set = {};  ///< what rows keep to besides the box: eta is a length where it has a ball
};

/// Returns a changed copy of `x` ([N, D], float32) with every row in its box and set: row i depends
/// on row i of `x` and of the context only. Must not write to `x`, nor wait for the device.
using MutationFn = at::Tensor (*)(const at::Tensor& x, MutationContext& context);

struct Mutation {
  std::string_view name;     ///< as typed after --mutations and --weights
  std::string_view summary;  ///< one sentence for `grapeshot list mutations` and the docs
  MutationFn apply;
  bool gradient;          ///< takes T forward and backward passes
  double paper_weight;    ///< in the set `paper`, 0 when not in it
  double default_weight;  ///< in the set `default`, 0 when not in it
  bool masks = false;     ///< for token masks: left out where there are none
};

/// What mutation `mask` does to a random `share` of the rows, the others as they are.
[[nodiscard]] at::Tensor drop_tokens(const at::Tensor& x, const TokenMasks& masks, double share,
                                     Rng& rng);

/// All mutations, in table order.
[[nodiscard]] std::span<const Mutation> mutations();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const Mutation& find_mutation(std::string_view name);

/// A mutation with its share of the draws.
struct WeightedMutation {
  const Mutation* mutation;
  double weight;  ///< > 0
};

/// `set` is "paper", "default" or names joined by commas; `weights` is "" or name=weight pairs
/// joined by commas, which override the set's own and may take a mutation out (0) or add one.
/// Those for token masks are left out unless `masks`. Throws kNotFound for unknown names,
/// kInvalidArgument for bad numbers or when nothing is left.
[[nodiscard]] std::vector<WeightedMutation> parse_mutations(std::string_view set,
                                                            std::string_view weights,
                                                            bool masks = false);

}  // namespace grapeshot
