// Criteria that compare every neuron with its range on reference inputs (Ma et al., DeepGauge,
// 2018).
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <ATen/ATen.h>

#include "grapeshot/base/clones.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {
namespace {

constexpr double kRounding = 1e-5;  // of the largest bound of a layer

// Ranges of the setup's neurons, tap after tap.
struct Ranges {
  std::vector<float> low, high;
};

Ranges ranges_of(const CriterionSetup& setup, double sigma) {
  Ranges out;
  for (const std::string& name : setup.taps) {
    const TapProfile& tap = *setup.profile->find(name);
    const at::Tensor wider = tap.deviation * sigma;
    const auto append = [](std::vector<float>& to, const at::Tensor& t) {
      const at::Tensor flat = t.contiguous();
      to.insert(to.end(), flat.const_data_ptr<float>(),
                flat.const_data_ptr<float>() + flat.numel());
    };
    // Another order of summation, as in batches of another size, moves an activation by as much.
    const at::Tensor rounding = at::maximum(tap.low.abs(), tap.high.abs()).max() * kRounding;
    append(out.low, tap.low - wider - rounding);
    append(out.high, tap.high + wider + rounding);
  }
  return out;
}

// The section of every neuron of a row, -1 outside of its range.
GRAPESHOT_CLONES void find_sections(const float* a, const float* least, const float* most,
                                    const double* low, const double* per_width, double last,
                                    int64_t n, int32_t* out) {
  for (int64_t j = 0; j < n; ++j) {
    const double place = (static_cast<double>(a[j]) - low[j]) * per_width[j];
    const double section = std::min(std::max(place, 0.), last);
    const bool inside = a[j] >= least[j] && a[j] <= most[j];
    out[j] = inside ? static_cast<int32_t>(inside ? section : 0.) : -1;
  }
}

// k-multisection: every range in k equal sections; one without width has the first alone to hit.
class Sections final : public ItemCriterion {
 public:
  explicit Sections(const CriterionSetup& setup)
      : ItemCriterion(total_of(setup.neurons) * setup.options.more.sections, "kmnc"),
        neurons_(setup.neurons),
        ranges_(ranges_of(setup, 0.)),
        sections_(setup.options.more.sections) {
    for (const std::string& name : setup.taps) {
      const TapProfile& tap = *setup.profile->find(name);
      const at::Tensor low = tap.low.to(at::kDouble).contiguous();
      const at::Tensor width = (tap.high.to(at::kDouble) - low).contiguous();
      for (int64_t j = 0; j < low.numel(); ++j) {
        low_.push_back(low.const_data_ptr<double>()[j]);
        const double w = width.const_data_ptr<double>()[j];
        per_width_.push_back(w > 0. ? static_cast<double>(sections_) / w : 0.);
      }
    }
  }

  at::Tensor update(const Observation& seen) override {
    at::Tensor gain = at::zeros({rows_of(seen)});
    auto* g = gain.mutable_data_ptr<float>();
    for_rows(seen, neurons_, [&](int64_t r, int64_t begin, int64_t n, const float* a) {
      const auto first = static_cast<size_t>(begin);
      section_.resize(static_cast<size_t>(n));
      find_sections(a, &ranges_.low[first], &ranges_.high[first], &low_[first], &per_width_[first],
                    static_cast<double>(sections_ - 1), n, section_.data());
      for (int64_t j = 0; j < n; ++j) {
        const int32_t section = section_[static_cast<size_t>(j)];
        if (section >= 0 && items_.touch((begin + j) * sections_ + section)) g[r] += 1.f;
      }
    });
    items_.commit();
    return gain;
  }

 private:
  std::vector<int64_t> neurons_;
  Ranges ranges_;
  int64_t sections_;
  std::vector<double> low_, per_width_;
  std::vector<int32_t> section_;  // of a row's neurons of one tap
};

// Boundary: beyond the range, above and below or (strong activation) above alone.
class Boundaries final : public ItemCriterion {
 public:
  Boundaries(const CriterionSetup& setup, bool below)
      : ItemCriterion(total_of(setup.neurons) * (below ? 2 : 1), below ? "nbc" : "snac"),
        neurons_(setup.neurons),
        ranges_(ranges_of(setup, setup.options.more.sigma)),
        all_(total_of(setup.neurons)),
        below_(below) {}

  at::Tensor update(const Observation& seen) override {
    at::Tensor gain = at::zeros({rows_of(seen)});
    auto* g = gain.mutable_data_ptr<float>();
    for_rows(seen, neurons_, [&](int64_t r, int64_t begin, int64_t n, const float* a) {
      for (int64_t neuron = begin; neuron < begin + n; ++neuron, ++a) {
        const auto i = static_cast<size_t>(neuron);
        if (*a > ranges_.high[i] && items_.touch(neuron)) g[r] += 1.f;
        if (below_ && *a < ranges_.low[i] && items_.touch(all_ + neuron)) g[r] += 1.f;
      }
    });
    items_.commit();
    return gain;
  }

 private:
  std::vector<int64_t> neurons_;
  Ranges ranges_;
  int64_t all_;
  bool below_;
};

constexpr CriterionRow kTable[] = {
    {"kmnc", "k-multisection neuron coverage: sections of every neuron's range that were hit.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<Sections>(s);
     },
     false, true, false, true},
    {"nbc", "Neuron boundary coverage: activations beyond a neuron's range, on either side.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<Boundaries>(s, true);
     },
     false, true, false, true},
    {"snac", "Strong neuron activation coverage: activations above a neuron's range.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<Boundaries>(s, false);
     },
     false, true, false, true},
};

}  // namespace

std::span<const CriterionRow> range_criteria() {
  return kTable;
}

}  // namespace grapeshot
