// grapeshot/core/energy_tree.h: drawing in proportion to energies, at a cost that does not grow
// with their number.
//
// A tree of sums with 128 children a node and always three levels, as tensors: a draw descends it
// for all rows at once. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/rng.h"

namespace grapeshot {

class EnergyTree {
 public:
  static constexpr int64_t kChildren = 128;
  static constexpr int64_t kCapacity = kChildren * kChildren * kChildren;  ///< 2,097,152

  /// Room for `capacity` <= kCapacity entries, all with energy 0.
  EnergyTree(int64_t capacity, const at::TensorOptions& options);

  /// Sets the energies, finite and at least 0, of the entries at `index` [n] int64. An index that
  /// occurs twice gets either of its values.
  void set(const at::Tensor& index, const at::Tensor& energy);
  [[nodiscard]] at::Tensor get(const at::Tensor& index) const;

  /// All of them, float64 [capacity]. After writing there, sum_up().
  [[nodiscard]] at::Tensor& energies() { return energies_; }
  [[nodiscard]] const at::Tensor& energies() const { return energies_; }
  void sum_up();

  /// `count` entries, int64, with replacement, in proportion to the energies; of the first `size`
  /// with equal chances when all of them are 0. An entry without energy is not drawn otherwise.
  [[nodiscard]] at::Tensor draw(int64_t count, int64_t size, Rng& rng) const;

 private:
  std::array<at::Tensor, 3> sums_;  // [nodes, 128]: the entries, their nodes' sums, and theirs
  at::Tensor energies_;             // [capacity], part of the first
};

}  // namespace grapeshot
