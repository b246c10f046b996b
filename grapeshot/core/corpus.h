// grapeshot/core/corpus.h: inputs that are worth mutating again, as one tensor.
//
// A preallocated ring: when it is full the oldest entry that is not an original makes room. The
// first entries are the originals, one per region, and stay. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <tsl/robin_set.h>

#include "grapeshot/base/huge_pages.h"
#include "grapeshot/core/energy_tree.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/core/state.h"

namespace grapeshot {

/// Two independent 64-bit hashes of every row's bytes, int64 [N, 2], computed in batch.
[[nodiscard]] at::Tensor hash_rows(const at::Tensor& x);
/// The same for some `rows` [n] int64 of it, without a copy of them.
[[nodiscard]] at::Tensor hash_rows(const at::Tensor& x, const at::Tensor& rows);

/// A set of 128-bit row hashes. It forgets all of them when it has grown to about 200 MiB.
class HashSet {
 public:
  static constexpr int64_t kLimit = int64_t{1} << 22;

  /// For every row of `hashes` [N, 2] whether it is new, bool [N]; all are in the set afterwards.
  at::Tensor insert(const at::Tensor& hashes);
  /// The same for one.
  bool insert(int64_t first, int64_t second);
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(seen_.size()); }

  void save(State& state, const std::string& at) const;
  void load(const State& state, const std::string& at);

 private:
  struct Mix {
    size_t operator()(const std::pair<int64_t, int64_t>& h) const {
      // The low bits of a multilinear hash depend on the words' low bits alone.
      return static_cast<size_t>((static_cast<uint64_t>(h.first) * 0x9E3779B97F4A7C15ULL) >> 24);
    }
  };
  using Hash = std::pair<int64_t, int64_t>;
  tsl::robin_set<Hash, Mix, std::equal_to<Hash>, HugePages<Hash>> seen_;
};

/// Entries by index, all [n].
struct Seeds {
  at::Tensor x;       ///< [n, D]
  at::Tensor region;  ///< int64
  at::Tensor depth;   ///< int64, mutations since the original
  at::Tensor id;      ///< int64, unique for every entry ever made; parents are named by it
};

class Corpus {
 public:
  /// Originals [R, D], one per region, with energy 1; room for at least `capacity` entries, of
  /// EnergyTree::kCapacity at most. All of it is on the originals' device.
  Corpus(const at::Tensor& originals, int64_t capacity);

  [[nodiscard]] int64_t size() const { return size_; }

  /// `count` entry indices, int64, with replacement, in proportion to the energies; uniform when
  /// all of them are 0 (Zhang and Sui, 2026, Eq. 6).
  [[nodiscard]] at::Tensor draw(int64_t count, Rng& rng) const;

  /// The entries at `index`.
  [[nodiscard]] Seeds gather(const at::Tensor& index) const;

  /// Adds the rows that were never added before; `energy` [n] float32. Returns how many were.
  int64_t insert(const Seeds& parents, const at::Tensor& x, const at::Tensor& energy);

  /// Halves the energy of the entries at `index`: the decay of the fair schedule.
  void halve(const at::Tensor& index);

  /// Never draws entries of the regions marked in `gone` [R] bool again.
  void retire(const at::Tensor& gone);

  [[nodiscard]] const at::Tensor& originals() const { return originals_; }

  void save(State& state, const std::string& at) const;
  /// Of a corpus of the same originals and capacity.
  void load(const State& state, const std::string& at);

 private:
  [[nodiscard]] std::vector<std::pair<const char*, at::Tensor>> columns() const;

  int64_t originals_count_, capacity_, size_ = 0, next_ = 0, next_id_ = 0;
  at::Tensor originals_, x_;
  at::Tensor about_;  ///< [capacity, 4] int64: region, depth, id and parent
  EnergyTree energy_;
  HashSet seen_;
};

}  // namespace grapeshot
