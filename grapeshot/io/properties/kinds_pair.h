// grapeshot/io/properties/kinds_pair.h: what properties of two runs have in common.
//
// y are the first run's K outputs, the first of the pair's; z the second run's, the next K; then
// comes what the pair's relation adds.
#pragma once

#include "grapeshot/io/properties/kinds.h"

namespace grapeshot::properties {

using Span = std::span<const float>;
using Outputs = std::span<const double>;
/// What became of the outputs, "class 1 -> 0".
using Change = std::function<std::string(Outputs y, Outputs z)>;

struct Comparison {
  std::vector<Case> cases;  ///< that violate
  Change change;
};

/// The same class, the same side of 'threshold', or the same output within 'tolerance'; sets the
/// pair's relation.
[[nodiscard]] Comparison same_decision(const Reader& reader, Pair& pair);

/// Of a file's network, the second run on the same inputs.
[[nodiscard]] Pair pair_of(const Subject& subject);

/// All outputs of the network of two runs.
[[nodiscard]] int64_t outputs_of(const Pair& pair);

/// "sex 0 -> 1, age 30 -> 40", of the `features` that differ.
[[nodiscard]] std::string differences(const std::vector<std::string>& names,
                                      const std::vector<int64_t>& features, Span x, Span second);

/// Who it is (by the box's row, see whose(); the texts are literals), what was changed, what came
/// of it.
[[nodiscard]] Words words_of_pair(const Pair& pair, std::vector<int64_t> rows,
                                  std::function<std::string(Span x, Span second)> how,
                                  Change change, std::string_view row = "row",
                                  std::string_view none = "an input");

}  // namespace grapeshot::properties
