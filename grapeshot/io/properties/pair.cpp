#include "grapeshot/io/properties/pair.h"

#include <algorithm>
#include <numeric>

namespace grapeshot::properties {

int64_t Pair::compared() const {
  switch (relation) {
    case Relation::kOutputs:
      return 0;
    case Relation::kMargins:
      return 2 * outputs;
    case Relation::kDifferences:
      return outputs;
    case Relation::kMarginDifference:
      return 1;
  }
  return 0;
}

std::vector<int64_t> order_of(std::span<const float> keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)];
  });
  return order;
}

std::vector<float> second_input(const Pair& pair, std::span<const float> whole) {
  const auto at = [&](int64_t i) { return whole[static_cast<size_t>(i)]; };
  std::vector<float> out;
  if (pair.elements > 0) {
    const int64_t size = pair.inputs / pair.elements;
    for (const int64_t element : order_of(whole.last(static_cast<size_t>(pair.elements)))) {
      for (int64_t k = 0; k < size; ++k) out.push_back(at(element * size + k));
    }
    return out;
  }
  std::vector<float> pool(whole.begin(), whole.end());
  for (const auto& [a, b] : pair.raised) pool.push_back(std::max(at(a), at(b)));
  for (const auto& [a, b] : pair.lowered) pool.push_back(std::min(at(a), at(b)));
  for (const auto& [a, b] : pair.moved) pool.push_back(at(a) + at(b));
  for (const int64_t i : pair.from) out.push_back(pool[static_cast<size_t>(i)]);
  return out;
}

}  // namespace grapeshot::properties
