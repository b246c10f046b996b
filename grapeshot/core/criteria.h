// grapeshot/core/criteria.h: the groups that the table of coverage.cpp is made of, and what they
// share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/coverage.h"

namespace grapeshot {

[[nodiscard]] std::span<const CriterionRow> neuron_criteria();    ///< nc, nc-scaled
[[nodiscard]] std::span<const CriterionRow> range_criteria();     ///< kmnc, nbc, snac
[[nodiscard]] std::span<const CriterionRow> top_criteria();       ///< tknc, tknp, bknc
[[nodiscard]] std::span<const CriterionRow> surprise_criteria();  ///< lsa, dsa, mdsa
[[nodiscard]] std::span<const CriterionRow> pair_criteria();      ///< ss, sv, vs, vv
[[nodiscard]] std::span<const CriterionRow> output_criteria();    ///< ann, nlc
[[nodiscard]] std::span<const CriterionRow> sequence_criteria();  ///< hidden, attention

/// Things to cover, numbered. Rows of one batch may share a gain: what counts is whether an earlier
/// batch has covered it.
class Items {
 public:
  /// Throws Error{kInvalidArgument} naming `criterion` for more than 2^30.
  Items(int64_t total, std::string_view criterion);

  /// Whether it is new.
  bool touch(int64_t item) {
    if (covered(item)) return false;
    uint8_t& now = now_[static_cast<size_t>(item)];
    if (now == 0) {
      now = 1;
      fresh_.push_back(item);
    }
    return true;
  }
  /// By an earlier batch.
  [[nodiscard]] bool covered(int64_t item) const {
    const auto i = static_cast<size_t>(item);
    return (covered_[i / 64] >> (i % 64) & 1) != 0;
  }
  /// The batch is over.
  void commit();

  [[nodiscard]] int64_t total() const { return static_cast<int64_t>(now_.size()); }
  [[nodiscard]] int64_t count() const { return count_; }
  [[nodiscard]] double share() const;
  [[nodiscard]] bool complete() const { return count_ == total(); }

  void save(State& state, const std::string& at) const;
  void load(const State& state, const std::string& at);

 private:
  void cover(int64_t item) {
    const auto i = static_cast<size_t>(item);
    covered_[i / 64] |= uint64_t{1} << (i % 64);
  }

  std::vector<uint64_t> covered_;  // a bit each: what is looked at always stays in the cache
  std::vector<uint8_t> now_;       // covered by this batch
  std::vector<int64_t> fresh_;     // the same as a list
  int64_t count_ = 0;
};

/// A criterion whose value is a share of Items.
class ItemCriterion : public Criterion {
 public:
  ItemCriterion(int64_t total, std::string_view name) : items_(total, name) {}

  [[nodiscard]] double value() const override { return items_.share(); }
  [[nodiscard]] bool complete() const override { return items_.complete(); }
  void save(State& state, const std::string& at) const override { items_.save(state, at); }
  void load(const State& state, const std::string& at) override { items_.load(state, at); }

 protected:
  Items items_;
};

/// One tap's part of an observation on the host, float32 and contiguous; undefined where it was not
/// wanted.
[[nodiscard]] at::Tensor on_host(const std::vector<at::Tensor>& of, size_t tap);

/// Calls visit(row, number of the tap's first neuron, its neurons, their means) for every row of
/// every tap that was seen.
template <class Visit>
void for_rows(const Observation& seen, const std::vector<int64_t>& neurons, const Visit& visit) {
  int64_t begin = 0;
  for (size_t t = 0; t < neurons.size(); begin += neurons[t], ++t) {
    const at::Tensor means = on_host(seen.means, t);
    if (!means.defined()) continue;
    const auto* a = means.const_data_ptr<float>();
    for (int64_t r = 0; r < means.size(0); ++r, a += neurons[t]) visit(r, begin, neurons[t], a);
  }
}

/// Means of every layer of every input brought to [0, 1] by its least and largest activation, as in
/// DeepXplore: the mean of what is scaled is the mean, scaled. Undefined where `means` is.
[[nodiscard]] std::vector<at::Tensor> scaled_means(const std::vector<at::Tensor>& means,
                                                   const std::vector<at::Tensor>& extremes);

/// The rows of the batch.
[[nodiscard]] int64_t rows_of(const Observation& seen);

[[nodiscard]] int64_t total_of(std::span<const int64_t> neurons);

}  // namespace grapeshot
