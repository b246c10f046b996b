#include "grapeshot/core/coverage.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>

#include "grapeshot/base/table.h"

namespace grapeshot {
namespace {

// Neuron coverage (Pei et al., 2017) with a fixed threshold, as in Zhang and Sui, 2026, Eq. 16.
class NeuronCoverage final : public Criterion {
 public:
  NeuronCoverage(std::span<const int64_t> neurons, const CoverageOptions& options)
      : options_(options),
        total_(std::accumulate(neurons.begin(), neurons.end(), int64_t{0})),
        fired_(at::zeros({total_}, at::kBool)) {}

  at::Tensor update(std::span<const at::Tensor> activations) override {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& a : activations) parts.push_back(at::gt(a, options_.tau));
    if (parts.empty()) return at::zeros({0});
    const at::Tensor fires = at::cat(parts, 1);  // [N, total]
    if (fires.size(0) == 0) return at::zeros({0});
    if (options_.strategy == CoverageStrategy::kGlobal) {
      const at::Tensor gain = fires.logical_and(fired_.logical_not()).sum(1);
      fired_.logical_or_(fires.any(0));
      count_ = fired_.sum().item<int64_t>();
      return gain.to(at::kFloat);
    }
    const at::Tensor own = fires.sum(1);
    const at::Tensor gain = (own - count_).clamp_min(0).to(at::kFloat);
    count_ = std::max(count_, own.max().item<int64_t>());
    return gain;
  }

  [[nodiscard]] double value() const override {
    return total_ > 0 ? static_cast<double>(count_) / static_cast<double>(total_) : 0.;
  }

  [[nodiscard]] bool complete() const override { return count_ == total_; }

  void save(State& state, const std::string& at) const override {
    state.put(at + "count", count_);
    state.put(at + "fired", fired_);
  }

  void load(const State& state, const std::string& at) override {
    count_ = state.integer(at + "count");
    state.fill(at + "fired", fired_);
  }

 private:
  CoverageOptions options_;
  int64_t total_;
  int64_t count_ = 0;  // fired by any input, or by the best single one
  at::Tensor fired_;   // [total] bool
};

std::unique_ptr<Criterion> neuron_coverage(std::span<const int64_t> neurons,
                                           const CoverageOptions& options) {
  return std::make_unique<NeuronCoverage>(neurons, options);
}

constexpr CriterionRow kTable[] = {
    {"nc", "Neuron coverage: |activation| above --tau; convolution channels by their largest |a|.",
     neuron_coverage},
};

}  // namespace

std::span<const CriterionRow> criteria() {
  return kTable;
}

const CriterionRow& find_criterion(std::string_view name) {
  return find_row(criteria(), name, "criterion");
}

}  // namespace grapeshot
