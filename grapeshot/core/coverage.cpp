#include "grapeshot/core/coverage.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {

Items::Items(int64_t total, std::string_view criterion) {
  constexpr int64_t kMost = int64_t{1} << 30;
  GRAPESHOT_CHECK(total <= kMost, kInvalidArgument, "criterion ", criterion, ": ", total,
                  " items to cover are more than ", kMost);
  covered_.resize(static_cast<size_t>(total + 63) / 64);
  now_.resize(static_cast<size_t>(total));
}

void Items::commit() {
  for (const int64_t item : fresh_) {
    now_[static_cast<size_t>(item)] = 0;
    cover(item);
  }
  count_ += std::ssize(fresh_);
  fresh_.clear();
}

double Items::share() const {
  return total() > 0 ? static_cast<double>(count_) / static_cast<double>(total()) : 0.;
}

void Items::save(State& state, const std::string& at) const {
  at::Tensor marks = at::empty({total()}, at::kByte);
  auto* mark = marks.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < total(); ++i) mark[i] = covered(i) ? 1 : 0;
  state.put(at + "covered", marks);
}

void Items::load(const State& state, const std::string& at) {
  const at::Tensor marks = at::empty({total()}, at::kByte);
  state.fill(at + "covered", marks);
  const auto* mark = marks.const_data_ptr<uint8_t>();
  std::ranges::fill(covered_, 0);
  count_ = 0;
  for (int64_t i = 0; i < total(); ++i) {
    if (mark[i] == 0) continue;
    cover(i);
    ++count_;
  }
}

at::Tensor on_host(const std::vector<at::Tensor>& of, size_t tap) {
  if (tap >= of.size() || !of[tap].defined()) return {};
  return of[tap].cpu().to(at::kFloat).contiguous();
}

std::vector<at::Tensor> scaled_means(const std::vector<at::Tensor>& means,
                                     const std::vector<at::Tensor>& extremes) {
  std::vector<at::Tensor> out(means.size());
  for (size_t t = 0; t < out.size(); ++t) {
    if (!means[t].defined()) continue;
    const at::Tensor least = extremes[t].slice(1, 0, 1), most = extremes[t].slice(1, 1);
    out[t] = ((means[t] - least) / (most - least)).nan_to_num(0., 0., 0.);
  }
  return out;
}

CriterionSetup criterion_setup(const Model& model, bool every_tap) {
  CriterionSetup setup;
  for (const int64_t tap : counted_taps(model, every_tap)) {
    setup.taps.push_back(model.taps()[static_cast<size_t>(tap)].name);
    setup.neurons.push_back(model.taps()[static_cast<size_t>(tap)].neurons);
  }
  setup.model = model.name();
  setup.recurrent = model.recurrent_layers();
  setup.attention = model.attention_layers();
  return setup;
}

void CriterionRow::add_to(Wanted& wanted) const {
  wanted.largest = wanted.largest || activations;
  wanted.means = wanted.means || means;
  wanted.extremes = wanted.extremes || extremes;
  wanted.states = wanted.states || states;
  wanted.attention = wanted.attention || attention;
}

int64_t rows_of(const Observation& seen) {
  if (seen.y.defined()) return seen.y.size(0);
  for (const auto* of : {&seen.activations, &seen.means}) {
    for (const at::Tensor& a : *of) {
      if (a.defined()) return a.size(0);
    }
  }
  return 0;
}

int64_t total_of(std::span<const int64_t> neurons) {
  return std::accumulate(neurons.begin(), neurons.end(), int64_t{0});
}

std::span<const CriterionRow> criteria() {
  static const std::vector<CriterionRow> kAll = [] {
    std::vector<CriterionRow> all;
    for (const auto group :
         {neuron_criteria(), range_criteria(), top_criteria(), surprise_criteria(), pair_criteria(),
          output_criteria(), sequence_criteria()}) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return kAll;
}

const CriterionRow& find_criterion(std::string_view name) {
  return find_row(criteria(), name, "criterion");
}

std::unique_ptr<Criterion> make_criterion(const CriterionRow& row, const CriterionSetup& setup) {
  const auto check_layers = [&](bool needed, const std::vector<SequenceTap>& layers,
                                std::string_view what) {
    GRAPESHOT_CHECK(!needed || !layers.empty(), kInvalidArgument, setup.model, ": has no ", what,
                    ", which criterion ", row.name, " looks at");
  };
  check_layers(row.states, setup.recurrent, "recurrent layer");
  check_layers(row.attention, setup.attention,
               "attention, a softmax over the last axis times a tensor that depends on the input");
  if (row.profiled) {
    GRAPESHOT_CHECK(setup.profile, kInvalidArgument, "criterion ", row.name,
                    " needs reference statistics: `grapeshot profile MODEL --data X.npy --out "
                    "stats.npz` makes them, --stats stats.npz uses them");
    for (size_t i = 0; i < setup.taps.size(); ++i) {
      const TapProfile* tap = setup.profile->find(setup.taps[i]);
      GRAPESHOT_CHECK(tap && tap->low.numel() == setup.neurons[i], kInvalidArgument, "criterion ",
                      row.name, ": the reference statistics know no layer '", setup.taps[i],
                      "' of ", setup.neurons[i], " neurons");
    }
  }
  GRAPESHOT_CHECK(
      setup.options.strategy == CoverageStrategy::kGlobal || row.activations || row.extremes,
      kInvalidArgument, "criterion ", row.name, ": --coverage best-input is for nc and nc-scaled");
  return row.make(setup);
}

}  // namespace grapeshot
