// grapeshot/io/properties/pair.h: two runs of one network on inputs that depend on each other.
//
// The whole input [D + E] holds the first run's D inputs and E more, which say what the second run
// changes. Every second input is one entry of the pool: the whole input, then `raised`, `lowered`
// and `moved`, one behind the other. io/onnx/pair_model.h writes that as a network.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace grapeshot::properties {

/// Two entries of the whole input.
struct Two {
  int64_t a = 0, b = 0;
};

/// What is compared of the first outputs y and the second outputs z, [K] each.
enum class Relation {
  kOutputs,           ///< themselves
  kMargins,           ///< each less the largest other one, [2K]: of the scores before a softmax
  kDifferences,       ///< z - y, [K]
  kMarginDifference,  ///< z[label] less its largest rival, minus the same of y, [1]
};

struct Pair {
  int64_t inputs = 0, outputs = 0;          ///< D, K
  int64_t extra = 0;                        ///< E
  std::vector<Two> raised, lowered, moved;  ///< the larger, the smaller, the sum of two
  std::vector<int64_t> from;                ///< [D] into the pool
  int64_t elements = 0;  ///< > 0: the second input is the first one's elements, all of one
                         ///< size, by falling keys, the last `elements` of the whole input;
                         ///< of equal keys the first comes first. `from` is empty then.
  Relation relation = Relation::kOutputs;
  int64_t label = 0;  ///< of kMarginDifference

  [[nodiscard]] int64_t whole() const { return inputs + extra; }
  /// Values that `relation` adds behind y and z.
  [[nodiscard]] int64_t compared() const;
};

/// Where each element of the second input comes from: the elements by falling key, stable.
[[nodiscard]] std::vector<int64_t> order_of(std::span<const float> keys);

/// The second run's inputs [D] for the whole input, as the network computes them in float32.
[[nodiscard]] std::vector<float> second_input(const Pair& pair, std::span<const float> whole);

}  // namespace grapeshot::properties
