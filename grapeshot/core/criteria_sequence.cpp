// Criteria of networks for sequences: hidden states of recurrent layers, heads of attention.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {
namespace {

// New items that one row touches; each counts once, however many steps come by it.
class Fresh {
 public:
  void note(int64_t item) { items_.push_back(item); }
  [[nodiscard]] float count() {
    if (items_.empty()) return 0.f;
    std::ranges::sort(items_);
    const auto [end, last] = std::ranges::unique(items_);
    const auto n = static_cast<float>(end - items_.begin());
    items_.clear();
    return n;
  }

 private:
  std::vector<int64_t> items_;
};

int64_t states_to_cover(const CriterionSetup& setup) {
  int64_t total = 0;
  const int64_t cells = setup.options.more.cells;
  for (const SequenceTap& layer : setup.recurrent) total += layer.shape[1] * cells * (cells + 1);
  return total;
}

// Basic state and transition coverage of hidden states (Du, Xie, Li, Ma, Liu, Zhao, DeepStellar,
// 2019), every unit a state machine of its own: the range that a unit has on reference inputs is
// cut into equal cells, and a step from a cell to one is a transition. The paper cuts the first
// principal components of the whole state instead and counts against what its reference inputs
// visit; a share of all cells needs no second walk and no matrix, and does not depend on a basis.
class HiddenStates final : public ItemCriterion {
 public:
  explicit HiddenStates(const CriterionSetup& setup)
      : ItemCriterion(states_to_cover(setup), "hidden"), cells_(setup.options.more.cells) {
    for (const SequenceTap& layer : setup.recurrent) {
      const TapProfile* known = setup.profile->find_states(layer.name);
      GRAPESHOT_CHECK(known && known->low.numel() == layer.shape[1], kInvalidArgument,
                      "criterion hidden: the reference statistics know no states of layer '",
                      layer.name, "' of ", layer.shape[1], " units; make them again");
      const at::Tensor low = known->low.to(at::kDouble).contiguous();
      const at::Tensor high = known->high.to(at::kDouble).contiguous();
      // Another order of summation moves a state by as much.
      const double rounding = kRounding * at::maximum(low.abs(), high.abs()).max().item<double>();
      std::vector<Range>& ranges = ranges_.emplace_back();
      for (int64_t u = 0; u < layer.shape[1]; ++u) {
        const double least = low.const_data_ptr<double>()[u];
        const double most = high.const_data_ptr<double>()[u];
        const double width = most - least;
        ranges.push_back({least, least - rounding, most + rounding,
                          width > 0. ? static_cast<double>(cells_) / width : 0.});
      }
    }
  }

  at::Tensor update(const Observation& seen) override {
    at::Tensor gain = at::zeros({rows_of(seen)});
    auto* g = gain.mutable_data_ptr<float>();
    Fresh fresh;
    int64_t begin = 0;
    for (size_t k = 0; k < ranges_.size(); ++k) {
      const at::Tensor states = on_host(seen.states, k);
      const std::vector<Range>& ranges = ranges_[k];
      const auto units = static_cast<int64_t>(ranges.size());
      if (states.defined()) {
        const auto* a = states.const_data_ptr<float>();
        std::vector<int64_t> before(ranges.size());
        for (int64_t r = 0; r < states.size(0); ++r) {
          std::ranges::fill(before, -1);
          for (int64_t t = 0; t < states.size(1); ++t, a += units) {
            for (int64_t u = 0; u < units; ++u) {
              const auto i = static_cast<size_t>(u);
              const int64_t cell = cell_of(ranges[i], static_cast<double>(a[u]));
              const int64_t last = std::exchange(before[i], cell);
              if (cell < 0) continue;
              // The cell itself, or coming to it from another or the same.
              const int64_t at = begin + (u * cells_ + cell) * (cells_ + 1);
              if (items_.touch(at)) fresh.note(at);
              if (last >= 0 && items_.touch(at + 1 + last)) fresh.note(at + 1 + last);
            }
          }
          g[r] += fresh.count();
        }
      }
      begin += units * cells_ * (cells_ + 1);
    }
    items_.commit();
    return gain;
  }

  [[nodiscard]] bool wants(size_t /*tap*/) const override { return false; }

 private:
  static constexpr double kRounding = 1e-5;  // of the largest bound of a layer

  struct Range {
    double low, least, most, per_width;
  };

  // -1 outside of the range, and for NaN.
  [[nodiscard]] int64_t cell_of(const Range& range, double a) const {
    if (!(a >= range.least && a <= range.most)) return -1;
    // Clamped before it is a whole number: a narrow range puts what rounding allows far outside.
    const double place = (a - range.low) * range.per_width;
    return static_cast<int64_t>(std::clamp(place, 0., static_cast<double>(cells_ - 1)));
  }

  int64_t cells_;
  std::vector<std::vector<Range>> ranges_;
};

// Places that a key can have relative to its query.
int64_t offsets(const SequenceTap& layer) {
  return layer.shape[1] + layer.shape[2] - 1;
}

int64_t heads_to_cover(const CriterionSetup& setup) {
  int64_t total = 0;
  for (const SequenceTap& layer : setup.attention) {
    total += layer.shape[0] * offsets(layer) * setup.options.more.cells;
  }
  return total;
}

// What heads of attention do: for every query where the key with the largest weight (the first of
// equals) lies relative to it, together with how spread the weights are, their entropy over the
// logarithm of the number of keys, in equal parts of [0, 1].
class AttentionHeads final : public ItemCriterion {
 public:
  explicit AttentionHeads(const CriterionSetup& setup)
      : ItemCriterion(heads_to_cover(setup), "attention"),
        layers_(setup.attention),
        cells_(setup.options.more.cells) {}

  at::Tensor update(const Observation& seen) override {
    at::Tensor gain = at::zeros({rows_of(seen)});
    auto* g = gain.mutable_data_ptr<float>();
    Fresh fresh;
    int64_t begin = 0;
    for (size_t k = 0; k < layers_.size(); ++k) {
      const int64_t heads = layers_[k].shape[0], queries = layers_[k].shape[1],
                    keys = layers_[k].shape[2];
      if (k < seen.attention.size() && seen.attention[k].defined()) {
        const at::Tensor p = seen.attention[k].to(at::kFloat);
        const double most = std::log(static_cast<double>(std::max<int64_t>(keys, 2)));
        const at::Tensor spread = (at::special_entr(p).sum(3) / most).cpu().contiguous();
        const at::Tensor strongest = p.argmax(3).cpu().contiguous();
        const auto* e = spread.const_data_ptr<float>();
        const auto* key = strongest.const_data_ptr<int64_t>();
        for (int64_t r = 0; r < p.size(0); ++r) {
          for (int64_t h = 0; h < heads; ++h) {
            for (int64_t q = 0; q < queries; ++q, ++e, ++key) {
              if (!std::isfinite(*e)) continue;
              const auto cell = std::clamp<int64_t>(
                  static_cast<int64_t>(*e * static_cast<float>(cells_)), 0, cells_ - 1);
              const int64_t offset = *key - q + queries - 1;
              const int64_t item = begin + (h * offsets(layers_[k]) + offset) * cells_ + cell;
              if (items_.touch(item)) fresh.note(item);
            }
          }
          g[r] += fresh.count();
        }
      }
      begin += heads * offsets(layers_[k]) * cells_;
    }
    items_.commit();
    return gain;
  }

  [[nodiscard]] bool wants(size_t /*tap*/) const override { return false; }

 private:
  std::vector<SequenceTap> layers_;
  int64_t cells_;
};

constexpr CriterionRow kTable[] = {
    {.name = "hidden",
     .summary = "Hidden states of recurrent layers: cells of every unit's range, and steps between "
                "two cells, that were visited.",
     .make = [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<HiddenStates>(s);
     },
     .profiled = true,
     .states = true},
    {.name = "attention",
     .summary = "Heads of attention: where the strongest key lies relative to its query, and how "
                "spread the weights are.",
     .make = [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<AttentionHeads>(s);
     },
     .attention = true},
};

}  // namespace

std::span<const CriterionRow> sequence_criteria() {
  return kTable;
}

}  // namespace grapeshot
