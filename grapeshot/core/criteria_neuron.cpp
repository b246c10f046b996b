// Neuron coverage.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>

#include "grapeshot/base/clones.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {
namespace {

// The largest of every column, none of them negative, as bits, which are in the order of the
// floats.
GRAPESHOT_CLONES void largest_of_columns(const int32_t* bits, int64_t rows, int64_t columns,
                                         int32_t* most) {
  for (int64_t r = 0; r < rows; ++r, bits += columns) {
    for (int64_t c = 0; c < columns; ++c) most[c] = std::max(most[c], bits[c]);
  }
}

// Whether any of a column's `rows` exceeds `tau`.
bool any_above(const float* column, int64_t rows, int64_t columns, float tau) {
  for (int64_t r = 0; r < rows; ++r) {
    if (column[r * columns] > tau) return true;
  }
  return false;
}

// NaN is larger than all numbers there and hides what else is in the column.
bool may_fire(int32_t bits, float tau) {
  const auto largest = std::bit_cast<float>(bits);
  return largest > tau || std::isnan(largest);
}

// Neuron coverage (Pei et al., 2017) with a fixed threshold, as in Zhang and Sui, 2026, Eq. 16.
class NeuronCoverage final : public Criterion {
 public:
  NeuronCoverage(const CriterionSetup& setup, bool scaled)
      : options_(setup.options),
        scaled_(scaled),
        neurons_(setup.neurons),
        total_(total_of(neurons_)),
        fired_(at::zeros({total_}, at::kBool)),
        open_(neurons_.size()) {
    list_open();
  }

  at::Tensor update(const Observation& seen) override {
    const std::vector<at::Tensor> activations =
        scaled_ ? scaled_means(seen.means, seen.extremes) : seen.activations;
    at::Tensor gain = at::zeros({rows_of(seen)});
    if (gain.size(0) == 0) return gain;
    if (options_.strategy == CoverageStrategy::kGlobal) {
      for (size_t t = 0; t < activations.size(); ++t) {
        if (activations[t].defined() && !open_[t].empty()) count_new(activations[t], t, gain);
      }
      return gain;
    }
    for (const at::Tensor& a : activations) {
      if (a.defined()) gain.add_(at::gt(a, options_.tau).sum(1).to(gain.device()));
    }
    const auto best = gain.max().item<float>();
    gain.sub_(static_cast<double>(count_)).clamp_min_(0);
    count_ = std::max(count_, static_cast<int64_t>(best));
    return gain;
  }

  [[nodiscard]] double value() const override {
    return total_ > 0 ? static_cast<double>(count_) / static_cast<double>(total_) : 0.;
  }

  [[nodiscard]] bool complete() const override { return count_ == total_; }

  [[nodiscard]] bool wants(size_t tap) const override {
    return options_.strategy == CoverageStrategy::kBestInput ? !complete() : !open_[tap].empty();
  }

  void save(State& state, const std::string& at) const override {
    state.put(at + "count", count_);
    state.put(at + "fired", fired_);
  }

  void load(const State& state, const std::string& at) override {
    count_ = state.integer(at + "count");
    state.fill(at + "fired", fired_);
    list_open();
  }

 private:
  void list_open() {
    const auto* fired = fired_.const_data_ptr<bool>();
    for (size_t t = 0; t < neurons_.size(); ++t) {
      open_[t].clear();
      for (int64_t k = 0; k < neurons_[t]; ++k) {
        if (!fired[k]) open_[t].push_back(k);
      }
      fired += neurons_[t];
    }
  }

  // Looks only at neurons that no earlier input has fired; adds to every row's gain.
  void count_new(const at::Tensor& activations, size_t t, at::Tensor& gain) {
    std::vector<int64_t>& open = open_[t];
    at::Tensor seen = activations;
    if (!seen.device().is_cpu()) {  // what is brought here are the open neurons alone
      seen = seen.index_select(1, at::tensor(open, at::kLong).to(seen.device())).cpu();
    }
    seen = seen.to(at::kFloat).contiguous();
    const bool all = seen.size(1) == neurons_[t];
    const auto* a = seen.const_data_ptr<float>();
    auto* g = gain.mutable_data_ptr<float>();
    const auto tau = static_cast<float>(options_.tau);
    // Most batches fire nothing new. One walk over all tells, or one over the few that are open.
    constexpr size_t kFew = 8;
    const bool few = open.size() * kFew <= static_cast<size_t>(seen.size(1));
    std::vector<int32_t> most(few ? 0 : static_cast<size_t>(seen.size(1)), 0);
    if (!few) {
      const at::Tensor bits = seen.view(at::kInt);
      largest_of_columns(bits.const_data_ptr<int32_t>(), seen.size(0), seen.size(1), most.data());
    }
    std::vector<bool> fires(open.size(), false);
    for (size_t k = 0; k < open.size(); ++k) {
      const auto column = all ? open[k] : static_cast<int64_t>(k);
      if (few ? !any_above(a + column, seen.size(0), seen.size(1), tau)
              : !may_fire(most[static_cast<size_t>(column)], tau)) {
        continue;
      }
      for (int64_t r = 0; r < seen.size(0); ++r) {
        if (!(a[r * seen.size(1) + column] > tau)) continue;
        g[r] += 1.f;
        fires[k] = true;
      }
    }
    auto* fired = fired_.mutable_data_ptr<bool>() +
                  std::accumulate(neurons_.begin(),
                                  neurons_.begin() + static_cast<std::ptrdiff_t>(t), int64_t{0});
    std::vector<int64_t> left;
    for (size_t k = 0; k < open.size(); ++k) {
      if (fires[k]) {
        fired[open[k]] = true;
        ++count_;
      } else {
        left.push_back(open[k]);
      }
    }
    open = std::move(left);
  }

  CoverageOptions options_;
  bool scaled_;
  std::vector<int64_t> neurons_;  // of every tap
  int64_t total_;
  int64_t count_ = 0;                       // fired by any input, or by the best single one
  at::Tensor fired_;                        // [total] bool
  std::vector<std::vector<int64_t>> open_;  // by tap: what is not fired yet
};

constexpr CriterionRow kTable[] = {
    {"nc", "Neuron coverage: |activation| above --tau; convolution channels by their largest |a|.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<NeuronCoverage>(s, false);
     },
     true},
    {"nc-scaled",
     "Neuron coverage as in DeepXplore: activations above --tau of their layer's range in that "
     "input.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<NeuronCoverage>(s, true);
     },
     false, true, true},
};

}  // namespace

std::span<const CriterionRow> neuron_criteria() {
  return kTable;
}

}  // namespace grapeshot
