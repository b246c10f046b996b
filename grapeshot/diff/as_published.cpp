#include "grapeshot/diff/as_published.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/core/worker.h"
#include "grapeshot/diff/subject.h"

namespace grapeshot::diff {
namespace {

constexpr double kStep = 0.02;  // of inputs from 0 to 1

struct Name {
  std::string_view name, ours;  // "" is that of `away_from_threshold`
};
constexpr Name kNames[] = {{"0", "1"}, {"1", "2"},           {"2", "3"},
                           {"3", ""},  {"random", "random"}, {"none", "none"}};

// The first neurons somewhat above the threshold further up, the first below it further down.
at::Tensor away_from_threshold(const Neurons& neurons, int64_t count) {
  const at::Tensor& value = neurons.response;
  const auto first = [](const at::Tensor& which, int64_t most) {
    return which.logical_and(which.cumsum(1) <= most).to(at::kFloat);
  };
  const at::Tensor above = (value > neurons.tau).logical_and(value < neurons.tau + 0.25);
  const at::Tensor below = (value < neurons.tau).logical_and(value > neurons.tau - 0.2);
  return first(above, count / 2) - first(below, count - count / 2);
}

class PublishedRun {
 public:
  PublishedRun(const Model& model, const at::Tensor& images, const DiffOptions& options,
               const Profile* profile, DiffObserver& observer, const std::atomic<bool>& stop)
      : model_(model),
        options_(for_subject(options)),
        strategies_(options.strategy),
        observer_(observer),
        images_(images.contiguous()),
        subject_(model, options_, profile),
        rng_(options.seed),
        deadline_(options.seconds > 0. ? options.seconds : 1e12, &stop),
        x_(images_.clone()),
        norms_(images_.to(at::kDouble).norm(2, {1})),
        pending_(static_cast<size_t>(images.size(0)), 1),
        broken_(static_cast<size_t>(images.size(0)), false) {
    Limits& limits = options_.limits;
    if (limits.low == 0. && limits.high == 0.) {
      limits.low = images_.min().item<double>();
      limits.high = images_.max().item<double>();
    }
    const int64_t most = std::max<int64_t>(options.batch, 1);
    Subject apart(model, options_, profile);  // what the images cover does not count beforehand
    std::vector<at::Tensor> labels;
    for (const at::Tensor& part : images_.split(micro_batch(model)))
      labels.push_back(apart.look(part).label);
    progress_.before = apart.coverage().values();
    labels_ = at::cat(labels);
    progress_.images = images.size(0);
    while (!over()) {
      std::vector<int64_t> rows;
      for (int64_t i = 0; i < images.size(0) && std::ssize(rows) < most; ++i) {
        if (pending_[static_cast<size_t>(i)] > 0) rows.push_back(i);
      }
      if (rows.empty()) break;
      rng_.reseed(derive_seed({options_.seed, static_cast<uint64_t>(round_)}));
      go_round(rows);
      ++round_;
      tell();
    }
    tell();
  }

  [[nodiscard]] const DiffProgress& progress() const { return progress_; }

 private:
  // The subject only looks and climbs: its own strategies are not asked.
  static DiffOptions for_subject(DiffOptions options) {
    options.strategy = "none";
    return options;
  }

  void tell() {
    progress_.seconds = seconds_since(began_);
    progress_.coverage = subject_.coverage().values();
    observer_.on_progress(progress_);
  }

  [[nodiscard]] bool over() const {
    return deadline_.expired() ||
           (options_.candidates > 0 && progress_.candidates >= options_.candidates);
  }

  // A seed of every image of `rows`: all of its steps.
  void go_round(const std::vector<int64_t>& rows) {
    const at::Tensor which = at::tensor(rows, at::kLong);
    for (const int64_t i : rows) --pending_[static_cast<size_t>(i)];
    at::Tensor x = x_.index_select(0, which);
    const Subject::Look seed = subject_.look(x);
    const at::Tensor weights = of_class(seed);
    const at::Tensor driven =
        strategies_.select(subject_.known(seed), options_.neurons, rng_) * options_.lambda;
    const at::Tensor originals = images_.index_select(0, which);
    const at::Tensor norms = norms_.index_select(0, which);
    const double step = options_.step > 0. ? options_.step : kStep;
    for (int64_t k = 0; k < options_.iterations && !over(); ++k) {
      const at::Tensor g = subject_.gradient(x, driven, [&](const at::Tensor&) { return weights; });
      x = x + g / (g.square().mean(1, true).sqrt() + 1e-5) * step;
      const Subject::Look seen = subject_.look(x);
      progress_.candidates += x.size(0);
      const at::Tensor l2 = (x.to(at::kDouble) - originals.to(at::kDouble)).norm(2, {1});
      keep(rows, seen, l2 / norms);
      const at::Tensor differing = (seen.label != seed.label).nonzero().flatten();
      progress_.differing += differing.numel();
      progress_.published_l2_sum += l2.index_select(0, differing).sum().item<double>();
      for (int64_t d = 0; d < differing.numel() && !deadline_.expired(); ++d) {
        const auto r = differing[d].item<int64_t>();
        const int64_t i = rows[static_cast<size_t>(r)];
        judge(x[r].contiguous(), i, seen.label[r].item<int64_t>(), k, r);
      }
    }
    x_.index_copy_(0, which, x);
  }

  // [n, K]: the next four classes of the seed itself against its first.
  at::Tensor of_class(const Subject::Look& seed) const {
    const int64_t top = std::min(options_.top_k + 1, seed.y.size(1));
    const at::Tensor best = std::get<1>(at::topk(seed.y, top, 1));
    at::Tensor weight = at::full({1, top}, options_.weight, at::kFloat);
    weight[0][0] = -1.;
    return at::zeros_like(seed.y).scatter(1, best, weight.expand(best.sizes()).contiguous());
  }

  void keep(const std::vector<int64_t>& rows, const Subject::Look& seen, const at::Tensor& share) {
    const auto neurons = static_cast<double>(std::max<int64_t>(subject_.neurons(), 1));
    const at::Tensor gain = (seen.gain.to(at::kDouble) / neurons).contiguous();
    const double bound = options_.limits.l2;
    const at::Tensor near = (bound > 0. ? share < bound : share >= 0.).contiguous();
    for (size_t r = 0; r < rows.size(); ++r) {
      const double enough = options_.keep / static_cast<double>(rows[r] + 1);
      if (!(gain.const_data_ptr<double>()[r] > enough) || !near.const_data_ptr<bool>()[r]) continue;
      ++pending_[static_cast<size_t>(rows[r])];
      ++progress_.kept;
    }
  }

  // And on the grid, where there is one.
  [[nodiscard]] bool in_range(const at::Tensor& x) const {
    const Limits& limits = options_.limits;
    const bool inside = x.ge(limits.low).logical_and(x.le(limits.high)).all().item<bool>();
    if (!inside || !(limits.grid > 0.)) return inside;
    const at::Tensor steps = x.to(at::kDouble) / limits.grid;
    return at::allclose(steps, steps.round(), 0., 1e-3);
  }

  // Whether what is reported as published would be without.
  void judge(const at::Tensor& x, int64_t image, int64_t label, int64_t step, int64_t row) {
    const at::Tensor original = images_[image].contiguous();
    const auto before = labels_[image].item<int64_t>();
    int64_t DiffProgress::*why = nullptr;
    Difference out;
    if (label == before) {
      why = &DiffProgress::as_image;
    } else if (!in_range(x) ||
               !broken_limit(options_.limits, model_.input_shape(), x, original).empty()) {
      why = &DiffProgress::past_limits;
    } else {
      out.after = subject_.prediction(x);
      if (out.after < 0 || out.after == before || subject_.prediction(original) != before) {
        why = &DiffProgress::within_rounding;
      }
    }
    if (!why) {
      out.image = image;
      out.x = x.clone();
      out.before = before;
      out.predictions = {out.after};
      out.l2 = (x.to(at::kDouble) - original.to(at::kDouble)).norm().item<double>();
      const auto norm = norms_[image].item<double>();
      out.share = norm > 0. ? out.l2 / norm : 0.;
      out.round = round_;
      out.iteration = step;
      out.row = row;
      out.seconds = seconds_since(began_);
      if (!observer_.on_difference(out)) why = &DiffProgress::past_limits;
    }
    if (why) {
      ++progress_.would_not_pass;
      ++(progress_.*why);
      return;
    }
    ++progress_.differences;
    progress_.l2_sum += out.l2;
    progress_.share_sum += out.share;
    if (!broken_[static_cast<size_t>(image)]) ++progress_.broken;
    broken_[static_cast<size_t>(image)] = true;
  }

  const Model& model_;
  DiffOptions options_;
  PublishedStrategies strategies_;
  DiffObserver& observer_;
  at::Tensor images_;
  Subject subject_;
  Rng rng_;
  Clock::time_point began_ = Clock::now();
  Deadline deadline_;
  at::Tensor x_;                  // the one array of every image's seeds
  at::Tensor norms_;              // [N] float64
  at::Tensor labels_;             // [N], of the images
  std::vector<int64_t> pending_;  // seeds of every image
  std::vector<bool> broken_;
  int64_t round_ = 0;
  DiffProgress progress_;
};

}  // namespace

PublishedStrategies::PublishedStrategies(std::string_view text) {
  for (const std::string_view part : split_at('+', text)) {
    const Name& row = find_row(std::span<const Name>(kNames), part, "strategy of --as-published");
    chosen_.push_back(row.ours.empty() ? nullptr : parse_strategies(row.ours)[0]);
  }
  GRAPESHOT_CHECK(!chosen_.empty(), kInvalidArgument, "--strategy names none");
}

at::Tensor PublishedStrategies::select(const Neurons& neurons, int64_t count, Rng& rng) const {
  const int64_t share = count / std::ssize(chosen_);
  if (std::ranges::find(chosen_, nullptr) != chosen_.end()) {
    return away_from_threshold(neurons, share);
  }
  // What two strategies choose counts twice.
  at::Tensor out = at::zeros_like(neurons.response);
  for (const Strategy* each : chosen_) {
    if (share > 0 && out.size(1) > 0) out += each->select(neurons, share, rng);
  }
  return out;
}

DiffProgress run_as_published(const Model& model, const at::Tensor& images,
                              const DiffOptions& options, const Profile* profile,
                              DiffObserver& observer, const std::atomic<bool>& stop) {
  return PublishedRun(model, images, options, profile, observer, stop).progress();
}

}  // namespace grapeshot::diff
