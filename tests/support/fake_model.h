// tests/support/fake_model.h: a linear network that counts its passes, for tests of the loop.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/core/model.h"

namespace grapeshot::testing {

/// y = x W^T + b. What a test has to know about the passes is counted; what it has to change is a
/// function.
class FakeModel : public Model {
 public:
  FakeModel(at::Tensor weight, at::Tensor bias) : w(std::move(weight)), b(std::move(bias)) {}

  /// One output, the sum of all inputs.
  static FakeModel sum(int64_t inputs) { return {at::ones({1, inputs}), at::zeros({1})}; }
  FakeModel(FakeModel&& other) noexcept : w(std::move(other.w)), b(std::move(other.b)) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] int64_t inputs() const override { return w.size(1); }
  [[nodiscard]] int64_t outputs() const override { return w.size(0); }
  [[nodiscard]] bool has_logits() const override { return false; }
  [[nodiscard]] bool has_surrogates() const override { return false; }
  [[nodiscard]] int64_t macs() const override { return w.numel(); }
  [[nodiscard]] int64_t activation_values() const override { return inputs() + outputs(); }
  [[nodiscard]] const std::vector<Tap>& taps() const override { return taps_; }

  [[nodiscard]] at::Tensor forward(const at::Tensor& x, Head) const override {
    note(forward_rows, x, on_candidate);
    return function(x);
  }
  [[nodiscard]] Gradient gradient(const at::Tensor& x, Head, const Surrogate&,
                                  const Cotangent& cotangent) const override {
    note(gradient_rows, x, on_iterate);
    const at::Tensor y = function(x);
    return {y, pullback(x, cotangent(y))};
  }
  [[nodiscard]] Trace trace(const at::Tensor& x, Head, const Wanted& wanted) const override {
    note(trace_rows, x, on_candidate);
    Trace out{function(x)};
    for (size_t i = 0; i < wanted.taps.size(); ++i) {
      if (wanted.largest) out.activations.push_back(out.y.abs());
      if (wanted.means) out.means.push_back(out.y);
      if (wanted.extremes) {
        out.extremes.push_back(at::stack({out.y.amin(1), out.y.amax(1)}, 1));
      }
    }
    return out;
  }
  [[nodiscard]] at::Tensor evaluate(const at::Tensor& x) const override {
    evaluate_rows += x.size(0);
    return function(x);
  }

  [[nodiscard]] std::optional<Bounds> bounds(const at::Tensor& lo, const at::Tensor& hi,
                                             Head) const override {
    return interval ? std::optional(interval(lo, hi)) : std::nullopt;
  }
  [[nodiscard]] std::vector<int64_t> input_shape() const override {
    return shape.empty() ? std::vector{inputs()} : shape;
  }

  /// Counts neurons: the outputs are a tap.
  void add_tap() { taps_.push_back({.name = "y", .neurons = outputs()}); }
  void set_name(std::string name) { name_ = std::move(name); }

  at::Tensor w, b;  ///< [K, D], [K]
  std::function<at::Tensor(const at::Tensor& x)> function = [this](const at::Tensor& x) {
    return at::addmm(b.to(x.scalar_type()), x, w.to(x.scalar_type()).t());
  };
  /// The gradient [N, D] for a cotangent [N, K].
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& cotangent)> pullback =
      [this](const at::Tensor&, const at::Tensor& cotangent) { return cotangent.mm(w); };
  /// What bounds() says, when it is set.
  std::function<Bounds(const at::Tensor& lo, const at::Tensor& hi)> interval;
  std::vector<int64_t> shape;
  /// Called with the rows of every verdict pass, and of every gradient pass; one call at a time.
  std::function<void(const at::Tensor& x)> on_candidate, on_iterate;

  mutable std::atomic<int64_t> forward_rows = 0, gradient_rows = 0, trace_rows = 0,
                               evaluate_rows = 0;

 private:
  void note(std::atomic<int64_t>& rows, const at::Tensor& x,
            const std::function<void(const at::Tensor& x)>& call) const {
    rows += x.size(0);
    if (!call) return;
    const std::lock_guard lock(mutex_);
    call(x);
  }

  std::string name_ = "fake";
  std::vector<Tap> taps_;
  mutable std::mutex mutex_;
};

}  // namespace grapeshot::testing
