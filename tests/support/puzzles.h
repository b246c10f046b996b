// tests/support/puzzles.h: networks with a known counterexample, and how many passes finding it
// takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "tests/support/campaigns.h"

namespace grapeshot::testing {

/// A network under a budget of passes: rows of forward passes, those of gradients included.
class Metered final : public Model {
 public:
  Metered(const Model& model, int64_t budget) : model_(model), budget_(budget) {}

  bool zero_gradients = false;  ///< as if there were no surrogates
  bool hide_logits = false;     ///< as if a softmax could not be looked behind
  mutable std::atomic<bool> spent = false;
  mutable std::atomic<int64_t> passes = 0;

  [[nodiscard]] const std::string& name() const override { return model_.name(); }
  [[nodiscard]] int64_t inputs() const override { return model_.inputs(); }
  [[nodiscard]] int64_t outputs() const override { return model_.outputs(); }
  [[nodiscard]] bool has_logits() const override { return !hide_logits && model_.has_logits(); }
  [[nodiscard]] bool has_surrogates() const override { return model_.has_surrogates(); }
  [[nodiscard]] std::vector<float> reach(const at::Tensor& x) const override {
    count(x);
    return model_.reach(x);
  }
  [[nodiscard]] std::optional<Bounds> bounds(const at::Tensor& lo, const at::Tensor& hi,
                                             Head head) const override {
    return model_.bounds(lo, hi, head);
  }
  [[nodiscard]] std::vector<int64_t> input_shape() const override { return model_.input_shape(); }
  [[nodiscard]] int64_t macs() const override { return model_.macs(); }
  [[nodiscard]] int64_t activation_values() const override { return model_.activation_values(); }
  [[nodiscard]] const std::vector<Tap>& taps() const override { return model_.taps(); }
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, Head head) const override {
    count(x);
    return model_.forward(x, head);
  }
  [[nodiscard]] Gradient gradient(const at::Tensor& x, Head head, const Surrogate& surrogate,
                                  const Cotangent& cotangent) const override {
    count(x);
    Gradient g = model_.gradient(x, head, surrogate, cotangent);
    if (zero_gradients) g.x = at::zeros_like(g.x);
    return g;
  }
  [[nodiscard]] Trace trace(const at::Tensor& x, Head head, const Wanted& wanted) const override {
    count(x);
    return model_.trace(x, head, wanted);
  }
  [[nodiscard]] at::Tensor evaluate(const at::Tensor& x) const override {
    return model_.evaluate(x);
  }

 private:
  void count(const at::Tensor& x) const {
    if ((passes += x.size(0)) >= budget_) spent = true;
  }

  const Model& model_;
  int64_t budget_;
};

struct Attempt {
  bool found = false;
  int64_t passes = 0;
  Progress totals;
  std::vector<Finding> findings;
};

/// A campaign that ends with the first counterexample, or when the network's budget is spent.
inline Attempt attempt(Metered& model, const Property& property, LoopOptions options, uint64_t seed,
                       const CampaignParts& parts = {}) {
  options.seed = seed;
  Collector collector;
  CampaignModel campaign{&model, {{&property, {}}}};
  Attempt out;
  out.totals = run_campaign({campaign}, options, collector, model.spent, parts).totals;
  out.found = !collector.findings.empty();
  out.passes = model.passes;
  out.findings = std::move(collector.findings);
  return out;
}

}  // namespace grapeshot::testing
