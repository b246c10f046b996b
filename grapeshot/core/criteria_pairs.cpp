// The MC/DC family (Sun, Huang, Kroening, Sharp, Hill, Ashmore, 2018/19): pairs of a neuron and one
// of the next layer, covered by two inputs between which the first alone changes and the second
// changes with it. Two inputs are an input and the one that was seen before it.
#include <algorithm>
#include <cmath>
#include <memory>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {
namespace {

enum class Change { kSign, kValue };

class Pairs final : public Criterion {
 public:
  Pairs(const CriterionSetup& setup, Change condition, Change decision, const char* name)
      : neurons_(setup.neurons),
        condition_(condition),
        decision_(decision),
        ratio_(setup.options.more.value_ratio),
        sign_ratio_(setup.options.more.sign_ratio),
        last_(neurons_.size()) {
    constexpr int64_t kMost = int64_t{1} << 27;
    for (size_t t = 0; t + 1 < neurons_.size(); ++t) {
      total_ += neurons_[t] * neurons_[t + 1];
      GRAPESHOT_CHECK(total_ <= kMost, kInvalidArgument, "criterion ", name,
                      ": the layers have more than ", kMost, " pairs of neurons");
    }
    for (size_t t = 0; t + 1 < neurons_.size(); ++t) {
      open_.push_back(at::ones({neurons_[t], neurons_[t + 1]}));
    }
  }

  at::Tensor update(const Observation& seen) override {
    const int64_t n = rows_of(seen);
    at::Tensor gain = at::zeros({n});
    std::vector<Changes> changes;
    for (size_t t = 0; t < neurons_.size() && n > 0; ++t) {
      const at::Tensor a = on_host(seen.means, t);
      if (!a.defined()) return gain;
      changes.push_back(changes_of(a, t));
      last_[t] = a.slice(0, n - 1).clone();
    }
    for (size_t t = 0; t + 1 < changes.size(); ++t) {
      const at::Tensor alpha = alone(changes[t], neurons_[t]);
      const at::Tensor beta =
          (decision_ == Change::kSign ? changes[t + 1].sign : changes[t + 1].value).to(at::kFloat);
      if (!alpha.any().item<bool>()) continue;
      const at::Tensor a = alpha.to(at::kFloat);
      // Open pairs that each row covers, then all that the batch does.
      gain += (at::mm(a, open_[t]) * beta).sum(1);
      const at::Tensor fresh = (at::mm(a.t(), beta) > 0).logical_and(open_[t] > 0);
      count_ += fresh.sum().item<int64_t>();
      open_[t].masked_fill_(fresh, 0.f);
    }
    return gain;
  }

  [[nodiscard]] double value() const override {
    return total_ > 0 ? static_cast<double>(count_) / static_cast<double>(total_) : 0.;
  }
  [[nodiscard]] bool complete() const override { return count_ == total_; }

  void save(State& state, const std::string& at) const override {
    state.put(at + "count", count_);
    for (size_t t = 0; t < open_.size(); ++t) state.put(str(at, t, "/open"), open_[t]);
    for (size_t t = 0; t < last_.size(); ++t) {
      if (last_[t].defined()) state.put(str(at, t, "/last"), last_[t]);
    }
  }
  void load(const State& state, const std::string& at) override {
    count_ = state.integer(at + "count");
    for (size_t t = 0; t < open_.size(); ++t) state.fill(str(at, t, "/open"), open_[t]);
    for (size_t t = 0; t < last_.size(); ++t) {
      const std::string name = str(at, t, "/last");
      last_[t] = at::Tensor();
      if (!state.has(name)) continue;
      last_[t] = at::empty({1, neurons_[t]});
      state.fill(name, last_[t]);
    }
  }

 private:
  // Between a row and the one before it, [N, neurons] bool.
  struct Changes {
    at::Tensor sign;   // on the one side above 0, on the other not
    at::Tensor value;  // by a factor, without a change of sign
  };

  Changes changes_of(const at::Tensor& a, size_t t) const {
    // The very first row has none before it: it is compared with itself.
    const at::Tensor before =
        at::cat({last_[t].defined() ? last_[t] : a.slice(0, 0, 1), a.slice(0, 0, a.size(0) - 1)});
    // What is no number has not changed.
    const at::Tensor known =
        at::isfinite(a).logical_and(at::isfinite(before)).all(1, /*keepdim=*/true);
    const at::Tensor sign = (a > 0).logical_xor(before > 0).logical_and(known);
    const at::Tensor now = a.abs(), then = before.abs();
    const at::Tensor value = (at::maximum(now, then) >= at::minimum(now, then) * ratio_)
                                 .logical_and(now != then)
                                 .logical_and(sign.logical_not())
                                 .logical_and(known);
    return {sign, value};
  }

  // Neurons that change as the condition says, in rows where few enough of the others change sign.
  at::Tensor alone(const Changes& changes, int64_t neurons) const {
    const at::Tensor flips = changes.sign.sum(1, /*keepdim=*/true);
    const double most = sign_ratio_ * static_cast<double>(neurons - 1);
    if (condition_ == Change::kSign) return changes.sign.logical_and(flips - 1 <= most);
    return changes.value.logical_and(flips <= most);
  }

  std::vector<int64_t> neurons_;
  Change condition_, decision_;
  double ratio_, sign_ratio_;
  int64_t total_ = 0, count_ = 0;
  std::vector<at::Tensor> open_;  // per layer but the last [neurons, of the next], 1 where open
  std::vector<at::Tensor> last_;  // per layer [1, neurons]
};

template <Change kCondition, Change kDecision>
constexpr CriterionRow row(const char* name, const char* summary) {
  return {name,
          summary,
          [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
            return std::make_unique<Pairs>(s, kCondition, kDecision, "ss, sv, vs, vv");
          },
          false,
          true,
          false,
          false,
          true,
          false};
}

constexpr CriterionRow kTable[] = {
    row<Change::kSign, Change::kSign>(
        "ss", "Sign-sign: a neuron's sign alone changes in its layer, and one's in the next."),
    row<Change::kSign, Change::kValue>(
        "sv", "Sign-value: a neuron's sign alone changes, and a value in the next layer."),
    row<Change::kValue, Change::kSign>(
        "vs", "Value-sign: a neuron's value changes, no sign does, and a sign in the next layer."),
    row<Change::kValue, Change::kValue>(
        "vv", "Value-value: a neuron's value changes, no sign does, and one's in the next layer."),
};

}  // namespace

std::span<const CriterionRow> pair_criteria() {
  return kTable;
}

}  // namespace grapeshot
