#include "grapeshot/core/worker.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/text.h"

namespace grapeshot {

at::Tensor Iteration::forward(const Model& model, const at::Tensor& x, Head head) {
  const auto began = Clock::now();
  at::Tensor y = model.forward(x, head);
  network_s += seconds_since(began);
  cost += x.size(0) * model.macs();
  return y;
}

Trace Iteration::trace(const Model& model, const at::Tensor& x, Head head,
                       const std::vector<int64_t>& wanted) {
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

SharedCoverage::SharedCoverage(const Model& model, const LoopOptions& options) {
  std::vector<int64_t> neurons;
  for (size_t i = 0; i < model.taps().size(); ++i) {
    const Tap& tap = model.taps()[i];
    if (tap.redundant && !options.every_tap) continue;
    taps_.push_back(static_cast<int64_t>(i));
    neurons.push_back(tap.neurons);
  }
  CoverageOptions coverage;
  coverage.tau = options.tau;
  coverage.strategy =
      options.coverage == "global" ? CoverageStrategy::kGlobal : CoverageStrategy::kBestInput;
  drives_ = options.criterion != "none";
  const std::string all = options.criterion + "," + options.criteria;
  for (const std::string_view name : split_at(',', all)) {
    if (name == "none" || std::ranges::find(names_, name) != names_.end()) continue;
    names_.emplace_back(name);
    criteria_.push_back(find_criterion(name).make(neurons, coverage));
  }
}

std::vector<int64_t> SharedCoverage::wanted() {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> out;
  for (size_t i = 0; i < taps_.size(); ++i) {
    if (std::ranges::any_of(criteria_, [&](const auto& c) { return c->wants(i); })) {
      out.push_back(taps_[i]);
    }
  }
  return out;
}

at::Tensor SharedCoverage::update(const std::vector<int64_t>& wanted,
                                  const std::vector<at::Tensor>& activations) {
  std::vector<at::Tensor> all(taps_.size());
  for (size_t k = 0; k < wanted.size(); ++k) {
    all[static_cast<size_t>(std::ranges::find(taps_, wanted[k]) - taps_.begin())] = activations[k];
  }
  const std::lock_guard lock(mutex_);
  at::Tensor driving;
  for (const auto& criterion : criteria_) {
    const at::Tensor gain = criterion->update(all);
    if (drives_ && !driving.defined()) driving = gain;
  }
  return driving;
}

void SharedCoverage::save(State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < names_.size(); ++i) criteria_[i]->save(state, at + names_[i] + "/");
}

void SharedCoverage::load(const State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < names_.size(); ++i) criteria_[i]->load(state, at + names_[i] + "/");
}

void SharedViolations::save(State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  seen_.save(state, at);
}

void SharedViolations::load(const State& state, const std::string& at) {
  const std::lock_guard lock(mutex_);
  seen_.load(state, at);
}

int64_t SharedViolations::insert(const at::Tensor& x) {
  const at::Tensor hashes = hash_rows(x);
  const std::lock_guard lock(mutex_);
  return seen_.insert(hashes).sum().item<int64_t>();
}

std::vector<std::pair<std::string, double>> SharedCoverage::values() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < names_.size(); ++i) out.emplace_back(names_[i], criteria_[i]->value());
  return out;
}

}  // namespace grapeshot
