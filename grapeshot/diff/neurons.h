// grapeshot/diff/neurons.h: which neurons a step of differential fuzzing drives, DLFuzz's
// strategies (Guo, Jiang, Zhao, Chen, Sun, 2018, section 3.2).
//
// A strategy is one function and one row of the table in neurons.cpp; `1+3` shares the neurons out
// over several. Shapes: N rows, T neurons of all layers together.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/rng.h"

namespace grapeshot::diff {

/// What is known of the neurons.
struct Neurons {
  at::Tensor hits;      ///< [T] float32: rows that fired it so far
  at::Tensor weight;    ///< [T] float32: mean of its outgoing weights, 0 where nothing is known
  at::Tensor response;  ///< [N, T]: how the rows at hand answer, on the scale of `tau`
  double tau = 0.;      ///< a neuron fires above this
};

/// Neurons to drive, [N, T] float32: 1 up, -1 down, 0 leave alone. About `count` of every row,
/// fewer where there are no more; at least 0.
using SelectFn = at::Tensor (*)(const Neurons& neurons, int64_t count, Rng& rng);

struct Strategy {
  std::string_view name;  ///< as after --strategy: the paper's number
  std::string_view summary;
  SelectFn select;
};

[[nodiscard]] std::span<const Strategy> strategies();

/// Those of "1+3". Throws Error{kNotFound}, listing the known names.
[[nodiscard]] std::vector<const Strategy*> parse_strategies(std::string_view text);

/// [N, T] as SelectFn has it, `count` shared out over `chosen`, the first ones taking more.
[[nodiscard]] at::Tensor select_neurons(const std::vector<const Strategy*>& chosen,
                                        const Neurons& neurons, int64_t count, Rng& rng);

}  // namespace grapeshot::diff
