// Surprise adequacy: how unlike reference inputs of its predicted class an input looks to one layer
// (Kim, Feldt, Yoo, 2019; Mahalanobis distances: Kim et al., 2020), as shares of buckets hit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/criteria.h"

namespace grapeshot {
namespace {

// Reference traces of one class that vary, and what is computed from them once. Float64: densities
// span many powers of ten.
struct ClassTraces {
  at::Tensor rows;    // [n] indices of its traces
  at::Tensor kept;    // [m] indices of features whose variance is enough
  at::Tensor mean;    // [m]
  at::Tensor whiten;  // [m, r]: to coordinates of unit variance
  at::Tensor points;  // [n, r] its traces there
  double log_scale = 0.;
};

// Features that vary less are left out, as in the paper.
constexpr double kLeastVariance = 1e-5;
// Directions whose variance is this share of the largest carry rounding alone.
constexpr double kLeastShare = 1e-10;

ClassTraces class_traces(const Profile& profile, int64_t label) {
  ClassTraces out;
  out.rows = (profile.predicted == label).nonzero().squeeze(1);
  const int64_t n = out.rows.size(0);
  if (n < 2) return out;
  const at::Tensor all = profile.traces.index_select(0, out.rows).to(at::kDouble);
  out.kept = (all.var(0, /*unbiased=*/false) >= kLeastVariance).nonzero().squeeze(1);
  if (out.kept.size(0) == 0) return out;
  const at::Tensor traces = all.index_select(1, out.kept);
  out.mean = traces.mean(0);
  const at::Tensor centred = traces - out.mean;
  const at::Tensor covariance = at::mm(centred.t(), centred) / static_cast<double>(n - 1);
  const auto [values, vectors] = at::linalg_eigh(covariance);
  const at::Tensor real =
      (values > kLeastShare * values.max()).logical_and(values > 0).nonzero().squeeze(1);
  const at::Tensor variance = values.index_select(0, real);
  out.whiten = vectors.index_select(1, real) / variance.sqrt();
  out.points = at::mm(centred, out.whiten);
  // Scott's rule for the kernel's width; log of its normalisation.
  const auto rank = static_cast<double>(real.size(0));
  const double factor = std::pow(static_cast<double>(n), -1. / (rank + 4.));
  out.log_scale = -0.5 * rank * std::log(2. * std::numbers::pi) -
                  0.5 * variance.log().sum().item<double>() - rank * std::log(factor) -
                  std::log(static_cast<double>(n));
  out.whiten = out.whiten / factor;
  out.points = out.points / factor;
  return out;
}

class Surprise : public ItemCriterion {
 public:
  /// `usual`: the largest surprise with a bucket, unless the options say another.
  Surprise(const CriterionSetup& setup, std::string_view name, double usual)
      : ItemCriterion(setup.options.more.buckets, name),
        buckets_(setup.options.more.buckets),
        upper_(setup.options.more.upper_bound > 0. ? setup.options.more.upper_bound : usual),
        profile_(*setup.profile) {
    tap_ = static_cast<size_t>(std::ranges::find(setup.taps, profile_.layer) - setup.taps.begin());
    classes_ = profile_.predicted.max().item<int64_t>() + 1;
  }

  at::Tensor update(const Observation& seen) override {
    const int64_t n = rows_of(seen);
    at::Tensor gain = at::zeros({n});
    const at::Tensor traces = on_host(seen.means, tap_);
    if (!traces.defined() || n == 0) return gain;
    const at::Tensor label = seen.y.cpu().argmax(1);
    const at::Tensor surprises = surprise(traces, label).to(at::kDouble).contiguous();
    const auto* s = surprises.const_data_ptr<double>();
    auto* g = gain.mutable_data_ptr<float>();
    for (int64_t r = 0; r < n; ++r) {
      if (!(s[r] > 0. && s[r] <= upper_)) continue;
      // Bucket i is (i U / n, (i + 1) U / n].
      const double at = std::ceil(s[r] / upper_ * static_cast<double>(buckets_)) - 1.;
      const auto bucket = std::clamp(static_cast<int64_t>(at), int64_t{0}, buckets_ - 1);
      if (items_.touch(bucket)) g[r] = 1.f;
    }
    items_.commit();
    return gain;
  }

  [[nodiscard]] bool wants(size_t tap) const override { return tap == tap_ && !complete(); }

 protected:
  /// [N] of traces [N, neurons] and predicted classes [N]; NaN where nothing can be said.
  virtual at::Tensor surprise(const at::Tensor& traces, const at::Tensor& label) = 0;

  /// Puts fn(traces of a class [n, neurons] float64, class) where its rows are.
  template <class Fn>
  at::Tensor by_class(const at::Tensor& traces, const at::Tensor& label, const Fn& fn) const {
    at::Tensor out =
        at::full({traces.size(0)}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
    for (int64_t c = 0; c < classes_; ++c) {
      const at::Tensor rows = (label == c).nonzero().squeeze(1);
      if (rows.size(0) == 0) continue;
      const at::Tensor values = fn(traces.index_select(0, rows).to(at::kDouble), c);
      if (values.defined()) out.index_copy_(0, rows, values);
    }
    return out;
  }

  int64_t buckets_;
  double upper_;
  const Profile& profile_;
  size_t tap_ = 0;
  int64_t classes_ = 0;
};

// Likelihood: -log of a kernel density estimate from the class's traces.
class Likelihood final : public Surprise {
 public:
  explicit Likelihood(const CriterionSetup& setup) : Surprise(setup, "lsa", 2000.) {
    for (int64_t c = 0; c < classes_; ++c) of_class_.push_back(class_traces(profile_, c));
  }

 protected:
  at::Tensor surprise(const at::Tensor& traces, const at::Tensor& label) override {
    return by_class(traces, label, [&](const at::Tensor& t, int64_t c) -> at::Tensor {
      const ClassTraces& known = of_class_[static_cast<size_t>(c)];
      if (!known.points.defined()) return {};
      const at::Tensor at = at::mm(t.index_select(1, known.kept) - known.mean, known.whiten);
      const at::Tensor square = at::cdist(at, known.points).square();
      return -(at::logsumexp(square * -0.5, {1}) + known.log_scale);
    });
  }

 private:
  std::vector<ClassTraces> of_class_;
};

// Distance: to the nearest trace of the class, over that one's distance to the nearest of another.
class Distance final : public Surprise {
 public:
  explicit Distance(const CriterionSetup& setup) : Surprise(setup, "dsa", 2.) {
    const at::Tensor all = profile_.traces.to(at::kDouble);
    for (int64_t c = 0; c < classes_; ++c) {
      const at::Tensor is = profile_.predicted == c;
      own_.push_back(all.index_select(0, is.nonzero().squeeze(1)));
      const at::Tensor others = all.index_select(0, is.logical_not().nonzero().squeeze(1));
      const bool any = own_.back().size(0) > 0 && others.size(0) > 0;
      others_.push_back(others);
      apart_.push_back(any ? at::full({own_.back().size(0)}, -1., at::kDouble) : at::Tensor());
    }
  }

 protected:
  at::Tensor surprise(const at::Tensor& traces, const at::Tensor& label) override {
    return by_class(traces, label, [&](const at::Tensor& t, int64_t c) -> at::Tensor {
      const auto k = static_cast<size_t>(c);
      if (!apart_[k].defined()) return {};
      const auto [distance, which] = nearest(t, own_[k]);
      // How far a trace is from the other classes is computed when it is first asked for.
      const at::Tensor asked = std::get<0>(at::_unique(which));
      const at::Tensor open = asked.masked_select(apart_[k].index_select(0, asked) < 0.);
      if (open.size(0) > 0) {
        apart_[k].index_copy_(0, open, nearest(own_[k].index_select(0, open), others_[k]).first);
      }
      return distance / apart_[k].index_select(0, which);
    });
  }

 private:
  // Distance and index of the nearest of `to` for every row, in pieces that stay small.
  static std::pair<at::Tensor, at::Tensor> nearest(const at::Tensor& rows, const at::Tensor& to) {
    constexpr int64_t kEntries = int64_t{1} << 22;
    const int64_t piece = std::max<int64_t>(1, kEntries / to.size(0));
    std::vector<at::Tensor> distance, index;
    for (const at::Tensor& part : rows.split(piece)) {
      // Not by products of rows: those lose the small distances.
      const auto [least, which] = at::cdist(part, to, 2., /*compute_mode=*/2).min(1);
      distance.push_back(least);
      index.push_back(which);
    }
    return {at::cat(distance), at::cat(index)};
  }

  std::vector<at::Tensor> own_;     // [n, neurons]
  std::vector<at::Tensor> others_;  // [n', neurons], of the other classes
  std::vector<at::Tensor> apart_;   // [n], -1 where not known yet
};

// Mahalanobis: distance from the class's mean in units of its covariance.
class Mahalanobis final : public Surprise {
 public:
  explicit Mahalanobis(const CriterionSetup& setup) : Surprise(setup, "mdsa", 2000.) {
    constexpr int64_t kMost = int64_t{1} << 27;
    const int64_t m = profile_.traces.size(1);
    GRAPESHOT_CHECK(m * m <= kMost / classes_, kInvalidArgument,
                    "criterion mdsa: the covariances of ", m, " neurons for ", classes_,
                    " classes have more than ", kMost,
                    " entries; `grapeshot profile --layer` takes a smaller layer");
    for (int64_t c = 0; c < classes_; ++c) {
      const at::Tensor rows = (profile_.predicted == c).nonzero().squeeze(1);
      at::Tensor mean, inverse;
      if (rows.size(0) >= 2) {
        const at::Tensor traces = profile_.traces.index_select(0, rows).to(at::kDouble);
        mean = traces.mean(0);
        const at::Tensor centred = traces - mean;
        const at::Tensor covariance =
            at::mm(centred.t(), centred) / static_cast<double>(rows.size(0) - 1);
        inverse = at::linalg_pinv(covariance, 1e-10, /*hermitian=*/true);
      }
      mean_.push_back(mean);
      inverse_.push_back(inverse);
    }
  }

 protected:
  at::Tensor surprise(const at::Tensor& traces, const at::Tensor& label) override {
    return by_class(traces, label, [&](const at::Tensor& t, int64_t c) -> at::Tensor {
      const auto k = static_cast<size_t>(c);
      if (!mean_[k].defined()) return {};
      const at::Tensor centred = t - mean_[k];
      return (at::mm(centred, inverse_[k]) * centred).sum(1).clamp_min(0.).sqrt();
    });
  }

 private:
  std::vector<at::Tensor> mean_, inverse_;
};

template <class Kind>
std::unique_ptr<Criterion> make(const CriterionSetup& setup) {
  return std::make_unique<Kind>(setup);
}

constexpr CriterionRow kTable[] = {
    {"lsa",
     "Likelihood-based surprise: buckets of -log density among the predicted class's traces.",
     make<Likelihood>, false, true, false, true},
    {"dsa",
     "Distance-based surprise: buckets of the distance to the class over that to the others.",
     make<Distance>, false, true, false, true},
    {"mdsa", "Mahalanobis surprise: buckets of the distance from the predicted class's mean.",
     make<Mahalanobis>, false, true, false, true},
};

}  // namespace

std::span<const CriterionRow> surprise_criteria() {
  return kTable;
}

}  // namespace grapeshot
