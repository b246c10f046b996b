// Criteria of the most and least active neurons of every layer (Ma et al., DeepGauge, 2018).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/clones.h"
#include "grapeshot/core/corpus.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {
namespace {

// The k largest of `width` values, those with lower indices first among equals; `sign` -1 for the
// smallest. Most values are no match for the least of the k so far.
class TopK {
 public:
  explicit TopK(int64_t k) : k_(k) {}
  [[nodiscard]] int64_t k() const { return k_; }

  /// None of a layer with NaN.
  std::span<const int64_t> of(const float* a, int64_t width, float sign) {
    value_.clear();
    index_.clear();
    if (std::any_of(a, a + width, [](float v) { return std::isnan(v); })) return index_;
    if (k_ >= width) {
      for (int64_t j = 0; j < width; ++j) index_.push_back(j);
      return index_;
    }
    for (int64_t j = 0; j < width; ++j) {
      const float v = sign * a[j];
      const bool full = std::ssize(value_) == k_;
      if (full && !(v > value_.back())) continue;
      if (full) {
        value_.pop_back();
        index_.pop_back();
      }
      const auto at = std::upper_bound(value_.begin(), value_.end(), v, std::greater<>());
      index_.insert(index_.begin() + (at - value_.begin()), j);
      value_.insert(at, v);
    }
    return index_;
  }

 private:
  int64_t k_;
  std::vector<float> value_;
  std::vector<int64_t> index_;
};

// The largest of those values that are open (1, else 0).
GRAPESHOT_CLONES float largest_open(const float* a, const int32_t* open, int64_t n, float sign) {
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < n; ++j) {
    const float v = open[j] != 0 ? sign * a[j] : -std::numeric_limits<float>::infinity();
    most = v > most ? v : most;
  }
  return most;
}

GRAPESHOT_CLONES int32_t count_above(const float* a, float bound, int64_t n, float sign) {
  int32_t count = 0;
  for (int64_t j = 0; j < n; ++j) count += sign * a[j] > bound ? 1 : 0;
  return count;
}

// tknc and bknc: neurons that were among their layer's k once.
class Among final : public ItemCriterion {
 public:
  Among(const CriterionSetup& setup, bool top)
      : ItemCriterion(total_of(setup.neurons), top ? "tknc" : "bknc"),
        neurons_(setup.neurons),
        k_(setup.options.more.top),
        sign_(top ? 1.f : -1.f) {
    find_open();
  }

  at::Tensor update(const Observation& seen) override {
    at::Tensor gain = at::zeros({rows_of(seen)});
    if (complete()) return gain;
    auto* g = gain.mutable_data_ptr<float>();
    for_rows(seen, neurons_, [&](int64_t r, int64_t begin, int64_t n, const float* a) {
      // Mostly no neuron that is open still can be one of the k.
      const float most = largest_open(a, &open_[static_cast<size_t>(begin)], n, sign_);
      if (count_above(a, most, n, sign_) >= k_.k()) return;
      for (const int64_t j : k_.of(a, n, sign_)) {
        if (items_.touch(begin + j)) g[r] += 1.f;
      }
    });
    const int64_t before = items_.count();
    items_.commit();
    if (items_.count() != before) find_open();
    return gain;
  }

  void load(const State& state, const std::string& at) override {
    ItemCriterion::load(state, at);
    find_open();
  }

 private:
  void find_open() {
    open_.resize(static_cast<size_t>(items_.total()));
    for (int64_t i = 0; i < items_.total(); ++i) {
      open_[static_cast<size_t>(i)] = items_.covered(i) ? 0 : 1;
    }
  }

  std::vector<int64_t> neurons_;
  TopK k_;
  float sign_;
  std::vector<int32_t> open_;  // 1 for every neuron that no earlier batch covered
};

// tknp: different sets of the layers' k most active neurons, taken together.
class Patterns final : public Criterion {
 public:
  explicit Patterns(const CriterionSetup& setup)
      : neurons_(setup.neurons), k_(setup.options.more.top) {}

  at::Tensor update(const Observation& seen) override {
    const int64_t n = rows_of(seen);
    std::vector<std::vector<int32_t>> pattern(static_cast<size_t>(n));
    for_rows(seen, neurons_, [&](int64_t r, int64_t begin, int64_t width, const float* a) {
      auto& row = pattern[static_cast<size_t>(r)];
      const auto size = std::ssize(row);
      for (const int64_t j : k_.of(a, width, 1.f)) row.push_back(static_cast<int32_t>(begin + j));
      std::ranges::sort(row.begin() + size, row.end());
    });
    at::Tensor gain = at::zeros({n});
    auto* g = gain.mutable_data_ptr<float>();
    int64_t whole = 0;
    for (const int64_t width : neurons_) whole += std::min(width, k_.k());
    for (int64_t r = 0; r < n && whole > 0; ++r) {
      const auto& row = pattern[static_cast<size_t>(r)];
      if (std::ssize(row) < whole) continue;  // a layer had NaN, or was not seen
      const at::Tensor words = at::tensor(row, at::kInt).unsqueeze(0);
      const at::Tensor hash = hash_rows(words.view(at::kFloat));
      const auto* h = hash.const_data_ptr<int64_t>();
      if (seen_.insert(h[0], h[1])) g[r] = 1.f;
    }
    count_ += gain.sum().item<int64_t>();
    return gain;
  }

  [[nodiscard]] double value() const override { return static_cast<double>(count_); }
  [[nodiscard]] bool complete() const override { return neurons_.empty(); }
  void save(State& state, const std::string& at) const override {
    state.put(at + "count", count_);
    seen_.save(state, at);
  }
  void load(const State& state, const std::string& at) override {
    count_ = state.integer(at + "count");
    seen_.load(state, at);
  }

 private:
  std::vector<int64_t> neurons_;
  TopK k_;
  HashSet seen_;
  int64_t count_ = 0;
};

constexpr CriterionRow kTable[] = {
    {"tknc", "Top-k neuron coverage: neurons among the k most active of their layer once.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<Among>(s, true);
     },
     false, true},
    {"tknp", "Top-k neuron patterns: how many sets of the layers' k most active neurons.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<Patterns>(s);
     },
     false, true, false, false, false},
    {"bknc", "Bottom-k neuron coverage: neurons among the k least active of their layer once.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<Among>(s, false);
     },
     false, true},
};

}  // namespace

std::span<const CriterionRow> top_criteria() {
  return kTable;
}

}  // namespace grapeshot
