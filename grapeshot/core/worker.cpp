#include "grapeshot/core/worker.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/core/profile.h"

namespace grapeshot {

at::Tensor Iteration::forward(const Model& model, const at::Tensor& x, Head head) {
  const auto began = Clock::now();
  at::Tensor y = model.forward(x, head);
  network_s += seconds_since(began);
  cost += x.size(0) * model.macs();
  return y;
}

Trace Iteration::trace(const Model& model, const at::Tensor& x, Head head, const Wanted& wanted) {
  const auto began = Clock::now();
  Trace trace = model.trace(x, head, wanted);
  network_s += seconds_since(began);
  cost += x.size(0) * model.macs();
  return trace;
}

Gradient Iteration::gradient(const Model& model, const at::Tensor& x, Head head,
                             const Surrogate& surrogate, const Cotangent& cotangent) {
  const auto began = Clock::now();
  double elsewhere_s = 0.;
  Gradient g = model.gradient(x, head, surrogate, [&](const at::Tensor& y) {
    const auto left = Clock::now();
    at::Tensor of_y = cotangent(y);
    elsewhere_s += seconds_since(left);
    return of_y;
  });
  network_s += seconds_since(began) - elsewhere_s;
  cost += 2 * x.size(0) * model.macs();
  return g;
}

int64_t micro_batch(const Model& model) {
  // What a layer reads and writes should stay in the cache, all that a gradient pass keeps should
  // not leave it by far.
  constexpr int64_t kLayerBytes = int64_t{4} << 20, kPassBytes = int64_t{16} << 20;
  const int64_t layer = 4 * std::max<int64_t>(model.widest_layer(), model.inputs());
  const int64_t pass = 4 * std::max<int64_t>(model.activation_values(), model.inputs());
  // Fewer rows than these, and what a call costs whatever it does would be much of a pass.
  constexpr int64_t kStepMacs = 1'000'000;
  const int64_t least =
      std::clamp<int64_t>(model.steps() * kStepMacs / std::max<int64_t>(model.macs(), 1), 16, 64);
  return std::clamp<int64_t>(std::min(kLayerBytes / layer, kPassBytes / pass), least, 1024);
}

int64_t even_pieces(int64_t rows, int64_t most) {
  const int64_t pieces = std::max<int64_t>((rows + most - 1) / most, 1);
  return std::max<int64_t>((rows + pieces - 1) / pieces, 1);
}

SharedCoverage::SharedCoverage(const Model& model, const LoopOptions& options,
                               const Profile* profile)
    : taps_(counted_taps(model, options.every_tap)) {
  CriterionSetup setup = criterion_setup(model, options.every_tap);
  setup.options.tau = options.tau;
  setup.options.strategy =
      options.coverage == "global" ? CoverageStrategy::kGlobal : CoverageStrategy::kBestInput;
  setup.options.more = options.per_criterion;
  setup.profile = profile;
  drives_ = options.criterion != "none";
  const std::string all = options.criterion + "," + options.criteria;
  for (const std::string_view name : split_at(',', all)) {
    if (name.empty() || name == "none") continue;
    const CriterionRow* row = &find_criterion(name);
    if (std::ranges::find(criteria_, row, &Named::row) != criteria_.end()) continue;
    criteria_.push_back({row, make_criterion(*row, setup)});
  }
}

Wanted SharedCoverage::wanted() {
  const std::lock_guard lock(mutex_);
  Wanted out;
  out.largest = false;
  for (const auto& [row, criterion] : criteria_) {
    if (!criterion->complete()) row->add_to(out);
  }
  for (size_t i = 0; i < taps_.size(); ++i) {
    if (std::ranges::any_of(criteria_, [&](const Named& c) { return c.criterion->wants(i); })) {
      out.taps.push_back(taps_[i]);
    }
  }
  return out;
}

bool SharedCoverage::open() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(criteria_, [](const Named& c) { return !c.criterion->complete(); });
}

at::Tensor SharedCoverage::update(const Wanted& wanted, const Trace& trace) {
  Observation seen;
  seen.y = trace.y;
  const auto by_tap = [&](const std::vector<at::Tensor>& of) {
    std::vector<at::Tensor> all(taps_.size());
    for (size_t k = 0; k < of.size(); ++k) {
      all[static_cast<size_t>(std::ranges::find(taps_, wanted.taps[k]) - taps_.begin())] = of[k];
    }
    return all;
  };
  seen.activations = by_tap(trace.activations);
  seen.means = by_tap(trace.means);
  seen.extremes = by_tap(trace.extremes);
  seen.states = trace.states;
  seen.attention = trace.attention;
  const std::lock_guard lock(mutex_);
  at::Tensor driving;
  for (const auto& [row, criterion] : criteria_) {
    const at::Tensor gain = criterion->update(seen);
    if (drives_ && !driving.defined()) driving = gain;
  }
  return driving;
}

void SharedCoverage::save(State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  for (const auto& [row, criterion] : criteria_) criterion->save(state, str(at, row->name, "/"));
}

void SharedCoverage::load(const State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  for (const auto& [row, criterion] : criteria_) criterion->load(state, str(at, row->name, "/"));
}

void SharedViolations::save(State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  seen_.save(state, at);
}

void SharedViolations::load(const State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  seen_.load(state, at);
}

int64_t SharedViolations::insert(const at::Tensor& x, const at::Tensor& rows) {
  const at::Tensor hashes = hash_rows(x, rows);
  const std::lock_guard lock(mutex_);
  return seen_.insert(hashes).sum().item<int64_t>();
}

std::vector<std::pair<std::string, double>> SharedCoverage::values() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [row, criterion] : criteria_) out.emplace_back(row->name, criterion->value());
  return out;
}

}  // namespace grapeshot
