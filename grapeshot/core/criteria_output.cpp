// Criteria of distances between outputs and of how neurons vary together.
#include <algorithm>
#include <cmath>
#include <memory>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {
namespace {

// Nearest neighbours (Odena et al., TensorFuzz, 2019): an input is new when its outputs are further
// than a distance from those of every one kept so far. Exact, as if rows came one by one.
class Neighbours final : public Criterion {
 public:
  explicit Neighbours(const CriterionSetup& setup) : distance_(setup.options.more.distance) {}

  at::Tensor update(const Observation& seen) override {
    const at::Tensor y = seen.y.cpu().to(at::kDouble);
    const int64_t n = y.size(0);
    at::Tensor gain = at::zeros({n});
    if (n == 0) return gain;
    at::Tensor far = at::isfinite(y).all(1);
    if (kept_ > 0) far = far.logical_and(nearest(y, stored_.slice(0, 0, kept_)) > distance_);
    const at::Tensor rows = far.nonzero().squeeze(1);
    const int64_t c = rows.size(0);
    if (c == 0 || complete()) return gain;
    // What is far from all that came before may be near to another of this batch.
    const at::Tensor candidates = y.index_select(0, rows);
    const at::Tensor between = squares(candidates, candidates).contiguous();
    const auto* d = between.const_data_ptr<double>();
    const auto* row = rows.const_data_ptr<int64_t>();
    auto* g = gain.mutable_data_ptr<float>();
    std::vector<int64_t> fresh;
    for (int64_t i = 0; i < c; ++i) {
      const bool alone =
          std::ranges::all_of(fresh, [&](int64_t j) { return d[i * c + j] > distance_; });
      if (!alone || kept_ + std::ssize(fresh) >= kMost) continue;
      fresh.push_back(i);
      g[row[i]] = 1.f;
    }
    append(candidates.index_select(0, at::tensor(fresh, at::kLong)));
    return gain;
  }

  [[nodiscard]] double value() const override { return static_cast<double>(kept_); }
  [[nodiscard]] bool complete() const override { return kept_ >= kMost; }
  [[nodiscard]] bool wants(size_t /*tap*/) const override { return false; }

  void save(State& state, const std::string& at) const override {
    state.put(at + "kept", kept_ > 0 ? stored_.slice(0, 0, kept_) : at::empty({0, 0}, at::kDouble));
  }
  void load(const State& state, const std::string& at) override {
    kept_ = 0;
    const at::Tensor kept = state.tensor(at + "kept");
    GRAPESHOT_CHECK(kept.dim() == 2 && kept.scalar_type() == at::kDouble, kParse, "its '", at,
                    "kept' is of another shape");
    append(kept);
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 16;

  // The least of every row, in pieces that stay small.
  static at::Tensor nearest(const at::Tensor& rows, const at::Tensor& to) {
    constexpr int64_t kEntries = int64_t{1} << 22;
    std::vector<at::Tensor> least;
    for (const at::Tensor& part : rows.split(std::max<int64_t>(1, kEntries / to.size(0)))) {
      least.push_back(squares(part, to).amin(1));
    }
    return at::cat(least);
  }

  // By differences: products of rows would lose small distances.
  static at::Tensor squares(const at::Tensor& a, const at::Tensor& b) {
    return at::cdist(a, b, 2., /*compute_mode=*/2).square();
  }

  void append(const at::Tensor& y) {
    const int64_t n = y.size(0);
    if (n == 0) return;
    if (!stored_.defined() || kept_ + n > stored_.size(0)) {
      const int64_t room = std::max<int64_t>(256, 2 * (kept_ + n));
      at::Tensor more = at::empty({room, y.size(1)}, at::kDouble);
      if (kept_ > 0) more.slice(0, 0, kept_).copy_(stored_.slice(0, 0, kept_));
      stored_ = more;
    }
    stored_.slice(0, kept_, kept_ + n).copy_(y);
    kept_ += n;
  }

  double distance_;
  int64_t kept_ = 0;
  at::Tensor stored_;  // [room, K]
};

// Layer-wise covariance (Yuan et al., NeuraL Coverage, 2023): the sum over layers of the mean |cov|
// of their neurons, over all inputs that raised it. A batch's gain is shared by how far its rows
// are from the mean, whose products the covariance consists of.
class LayerCovariance final : public Criterion {
 public:
  explicit LayerCovariance(const CriterionSetup& setup) : layers_(setup.neurons.size()) {
    constexpr int64_t kWidest = 8192;
    for (size_t t = 0; t < setup.neurons.size(); ++t) {
      const int64_t m = setup.neurons[t];
      GRAPESHOT_CHECK(m <= kWidest, kInvalidArgument, "criterion nlc: a layer has ", m,
                      " neurons, whose covariances would take more memory than up to ", kWidest,
                      " do");
      layers_[t].mean = at::zeros({m}, at::kDouble);
      layers_[t].covariance = at::zeros({m, m}, at::kDouble);
    }
  }

  at::Tensor update(const Observation& seen) override {
    const int64_t n = rows_of(seen);
    at::Tensor gain = at::zeros({n}, at::kDouble);
    for (size_t t = 0; t < layers_.size() && n > 0; ++t) {
      Layer& layer = layers_[t];
      const at::Tensor host = on_host(seen.means, t);
      if (!host.defined()) continue;
      const at::Tensor a = host.to(at::kDouble);
      if (!at::isfinite(a).all().item<bool>()) continue;
      // Two means and covariances of the population joined (Chan et al., 1983).
      const at::Tensor mean = a.mean(0), centred = a - mean, shift = mean - layer.mean;
      const auto old_n = static_cast<double>(layer.rows), new_n = static_cast<double>(n);
      const double all = old_n + new_n;
      Layer joined;
      joined.rows = layer.rows + n;
      joined.mean = layer.mean + shift * (new_n / all);
      joined.covariance = (layer.covariance * old_n + at::mm(centred.t(), centred) +
                           at::outer(shift, shift) * (old_n * new_n / all)) /
                          all;
      joined.value = joined.covariance.abs().mean().item<double>();
      const double more = joined.value - layer.value;
      if (layer.rows > 0 && !(more > 0.)) continue;  // the first has nothing to raise
      const at::Tensor weight = (a - joined.mean).abs().mean(1).square();
      gain += weight * (more / std::max(weight.sum().item<double>(), 1e-300));
      layer = joined;
    }
    return gain.to(at::kFloat);
  }

  [[nodiscard]] double value() const override {
    double sum = 0.;
    for (const Layer& layer : layers_) sum += layer.value;
    return sum;
  }
  [[nodiscard]] bool complete() const override { return layers_.empty(); }

  void save(State& state, const std::string& at) const override {
    for (size_t t = 0; t < layers_.size(); ++t) {
      const std::string here = str(at, t, "/");
      state.put(here + "rows", layers_[t].rows);
      state.put(here + "value", layers_[t].value);
      state.put(here + "mean", layers_[t].mean);
      state.put(here + "covariance", layers_[t].covariance);
    }
  }
  void load(const State& state, const std::string& at) override {
    for (size_t t = 0; t < layers_.size(); ++t) {
      const std::string here = str(at, t, "/");
      layers_[t].rows = state.integer(here + "rows");
      layers_[t].value = state.real(here + "value");
      state.fill(here + "mean", layers_[t].mean);
      state.fill(here + "covariance", layers_[t].covariance);
    }
  }

 private:
  struct Layer {
    int64_t rows = 0;
    double value = 0.;
    at::Tensor mean, covariance;
  };
  std::vector<Layer> layers_;
};

constexpr CriterionRow kTable[] = {
    {"ann", "TensorFuzz: inputs whose outputs are far from those of every input kept before.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<Neighbours>(s);
     },
     false, false, false, false, false},
    {"nlc", "Layer-wise covariance: sum over layers of the mean |covariance| of their neurons.",
     [](const CriterionSetup& s) -> std::unique_ptr<Criterion> {
       return std::make_unique<LayerCovariance>(s);
     },
     false, true, false, false, false, false},
};

}  // namespace

std::span<const CriterionRow> output_criteria() {
  return kTable;
}

}  // namespace grapeshot
