#include "grapeshot/diff/diff.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/base/error.h"
#include "grapeshot/core/corpus.h"
#include "grapeshot/core/memory.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/core/worker.h"
#include "grapeshot/diff/as_published.h"
#include "grapeshot/diff/constraint.h"
#include "grapeshot/diff/neurons.h"
#include "grapeshot/diff/objective.h"
#include "grapeshot/diff/reference.h"
#include "grapeshot/diff/subject.h"

namespace grapeshot::diff {
namespace {

// Seeds kept of one image at most; the oldest make room.
constexpr size_t kSeeds = 64;

// Rounds without a valid transformation after which there is none to be expected.
constexpr int kIdle = 20;

struct Seed {
  at::Tensor x;  // [D]
  Lineage lineage;
};

ValidRange valid_range(const Limits& limits) {
  return {limits.low, limits.high, limits.grid};
}

class Run {
 public:
  Run(const std::vector<const Model*>& models, const at::Tensor& images, const DiffOptions& options,
      const Profile* profile, DiffObserver& observer, const std::atomic<bool>& stop,
      const RuntimeOracle* oracle)
      : options_(options),
        observer_(observer),
        oracle_(oracle),
        images_(images.contiguous()),
        shape_(models[0]->input_shape()),
        rng_(options.seed),
        counts_neurons_(counts_neurons(options.criterion)),
        deadline_(options.seconds > 0. ? options.seconds : 1e12, &stop),
        width_(std::sqrt(static_cast<double>(images.size(1)))),
        queue_(static_cast<size_t>(images.size(0))),
        tried_(static_cast<size_t>(images.size(0)), 0),
        clear_(static_cast<size_t>(images.size(0)), -1),
        broken_(static_cast<size_t>(images.size(0)), false),
        lost_(static_cast<size_t>(images.size(0)), false) {
    for (const Model* model : models) {
      subjects_.push_back(std::make_unique<Subject>(*model, options_, profile));
    }
    Limits& limits = options_.limits;
    if (limits.low == 0. && limits.high == 0.) {
      limits.low = images_.min().item<double>();
      limits.high = images_.max().item<double>();
    }
    constraints_ = parse_constraints(options_.constraint, limits);
    draws_ = std::ranges::any_of(constraints_, &Constraint::draws);
    check_fits(constraints_, limits, shape_, models[0]->name());
    if (!options_.transform.empty()) {
      check_images(shape_, models[0]->name());
      transformer_.emplace(parse_transformations(options_.transform), valid_range(limits),
                           options_.validity, shape_);
    }
    amplitude_ = reach(constraints_, {images_, limits, shape_}).mean().item<double>() / width_;
    refer();
    progress_.images = images.size(0);
  }

  DiffProgress run() {
    const int64_t most = batch_rows();
    // The images themselves are the first inputs tested.
    for (const at::Tensor& part : at::arange(images_.size(0)).split(most)) {
      (void)look(images_.index_select(0, part));
    }
    progress_.before = coverage();
    for (int64_t round = 0; !over(); ++round) {
      rng_.reseed(derive_seed({options_.seed, static_cast<uint64_t>(round)}));
      go_round(round, most);
      tell();
    }
    tell();
    return progress_;
  }

 private:
  using Looks = std::vector<Subject::Look>;

  // Whether its gain is a number of neurons.
  static bool counts_neurons(const std::string& criterion) {
    if (criterion == "none") return false;
    const CriterionRow& row = find_criterion(criterion);
    return row.activations || row.extremes;
  }

  void tell() {
    progress_.seconds = seconds_since(began_);
    progress_.coverage = coverage();
    for (const auto& s : subjects_) {
      if (const int64_t rows = s->fewer_rows())
        observer_.on_note(out_of_memory_note(s->model(), rows));
    }
    observer_.on_progress(progress_);
  }

  // The mean over the models.
  std::vector<std::pair<std::string, double>> coverage() {
    std::vector<std::pair<std::string, double>> out = subjects_[0]->coverage().values();
    for (size_t s = 1; s < subjects_.size(); ++s) {
      const auto more = subjects_[s]->coverage().values();
      for (size_t i = 0; i < out.size(); ++i) out[i].second += more[i].second;
    }
    for (auto& [name, value] : out) value /= static_cast<double>(subjects_.size());
    return out;
  }

  void refer() {
    references_ = references_of(subjects_, images_, batch_rows(), options_.top_k, deadline_);
    for (size_t i = 0; i < references_.size(); ++i) {
      if (references_[i].agreed) {
        active_.push_back(static_cast<int64_t>(i));
      } else {
        ++progress_.left_out;
      }
    }
  }

  // Whether the image's own prediction is one that rounding keeps; asked when it matters.
  bool is_clear(int64_t image) {
    int8_t& known = clear_[static_cast<size_t>(image)];
    if (known < 0) {
      const int64_t label = references_[static_cast<size_t>(image)].label;
      known = std::ranges::all_of(subjects_, [&](const auto& s) {
        return s->prediction(images_[image].contiguous()) == label;
      });
      if (known == 0) {
        std::erase(active_, image);
        ++progress_.left_out;
      }
    }
    return known != 0;
  }

  int64_t batch_rows() const {
    if (options_.batch > 0) return options_.batch;
    int64_t rows = micro_batch(subjects_[0]->model());
    for (const auto& s : subjects_) rows = std::min(rows, micro_batch(s->model()));
    return rows;
  }

  bool over() const {
    return deadline_.expired() || active_.empty() ||
           (options_.candidates > 0 && progress_.candidates >= options_.candidates);
  }

  Looks look(const at::Tensor& x) {
    Looks out;
    for (const auto& s : subjects_) out.push_back(s->look(x));
    return out;
  }

  // Rows for the images whose turn it is, each from a seed of its own.
  void go_round(int64_t round, int64_t most) {
    std::vector<int64_t> image;
    std::vector<at::Tensor> start;
    std::vector<float> again;
    lineages_.clear();
    for (int64_t r = 0; r < most; ++r) {
      const int64_t i = active_[static_cast<size_t>(turn_++ % std::ssize(active_))];
      auto& queue = queue_[static_cast<size_t>(i)];
      image.push_back(i);
      if (queue.empty()) {
        start.push_back(images_[i]);
        lineages_.emplace_back();
        // Once from the image itself; then from elsewhere, or the same steps would follow, unless
        // the constraint draws places itself.
        const bool tried = tried_[static_cast<size_t>(i)]++ > 0;
        again.push_back(tried && !draws_ ? 1.f : 0.f);
      } else {
        again.push_back(0.f);
        start.push_back(queue.front().x);
        lineages_.push_back(std::move(queue.front().lineage));
        queue.pop_front();
      }
    }
    at::Tensor x = at::stack(start);
    if (transformer_) return transform_round(round, x, std::move(image));
    const Rows rows = gather(image);
    const at::Tensor noise =
        shape_direction(constraints_, at::randn(x.sizes(), rng_.generator()), held(rows), rng_);
    const at::Tensor off = noise * at::tensor(again).unsqueeze(1);
    x = at::where((off != 0).any(1, true),
                  bring_back(constraints_, x + off * rows.reach * (0.5 / width_), held(rows)), x);
    Looks seen = look(x);
    for (int64_t step = 0; step < options_.iterations && !over(); ++step) {
      x = advance(x, direction(x, rows, seen), rows);
      seen = look(x);
      progress_.candidates += x.size(0);
      keep(x, image, seen, step);
      if (oracle_) {
        judge_runtimes(x, image, round, step);
      } else {
        judge(x, image, seen, round, step);
      }
    }
  }

  // Every row by one transformation after another; those that find no valid one end here.
  void transform_round(int64_t round, at::Tensor x, std::vector<int64_t> image) {
    for (int64_t step = 0; step < options_.iterations && !over(); ++step) {
      const at::Tensor originals = images_.index_select(0, at::tensor(image, at::kLong));
      const Transformer::Advance next = transformer_->advance(x, originals, lineages_, rng_);
      progress_.dropped += next.broken;
      std::vector<int64_t> on;
      for (const int64_t r : next.rows) on.push_back(image[static_cast<size_t>(r)]);
      image = std::move(on);
      if (image.empty()) break;
      x = next.x;
      const Looks seen = look(x);
      progress_.candidates += x.size(0);
      idle_ = -1;
      keep(x, image, seen, step);
      judge(x, image, seen, round, step);
    }
    if (++idle_ >= kIdle) active_.clear();
  }

  struct Rows {
    at::Tensor original;               // [n, D]
    at::Tensor reach;                  // [n, 1], the longest change
    std::vector<at::Tensor> of_class;  // per model [n, K]: weights of the classes
  };

  // One model: the runner-up classes against the image's own. Several: its class in all but one,
  // drawn for every row, against that one (Pei et al., 2017, Eq. 2).
  Rows gather(const std::vector<int64_t>& image) {
    const auto n = std::ssize(image);
    const bool several = subjects_.size() > 1;
    Rows out;
    out.original = images_.index_select(0, at::tensor(image, at::kLong));
    out.reach = reach(constraints_, {out.original, options_.limits, shape_});
    const at::Tensor odd = at::randint(std::ssize(subjects_), {n}, rng_.generator(), at::kLong);
    const auto* against = odd.const_data_ptr<int64_t>();
    for (size_t s = 0; s < subjects_.size(); ++s) {
      out.of_class.push_back(at::zeros({n, subjects_[s]->model().outputs()}));
      auto weight = out.of_class.back().accessor<float, 2>();
      for (int64_t r = 0; r < n; ++r) {
        const Reference& reference =
            references_[static_cast<size_t>(image[static_cast<size_t>(r)])];
        const auto more = static_cast<float>(options_.weight);
        if (several && against[r] != static_cast<int64_t>(s)) {
          weight[r][reference.label] = more;
          continue;
        }
        weight[r][reference.label] = -1.f;
        if (several) continue;
        for (const int64_t rival : reference.rivals) weight[r][rival] = more;
      }
    }
    return out;
  }

  // The gradient [n, D] of the joint objective as the constraint has it, over its root mean square.
  at::Tensor direction(const at::Tensor& x, const Rows& rows, const Looks& seen) {
    at::Tensor sum = at::zeros_like(x);
    for (size_t s = 0; s < subjects_.size(); ++s) {
      sum += subjects_[s]->climb(x, rows.of_class[s], seen[s], rng_);
    }
    const at::Tensor safe = sum.nan_to_num(0., 0., 0.);
    // A probability that is 1 to the last bit has no slope: any direction will do.
    const at::Tensor steep = safe.abs().amax(1, true) > 1e-20;
    const at::Tensor noise = at::randn(x.sizes(), rng_.generator());
    const at::Tensor way =
        shape_direction(constraints_, at::where(steep, safe, noise), held(rows), rng_);
    return way / way.square().mean(1, true).sqrt().clamp_min(1e-30);
  }

  // A step, and back to what is allowed.
  at::Tensor advance(const at::Tensor& x, const at::Tensor& way, const Rows& rows) const {
    const at::Tensor step =
        options_.step > 0. ? at::full_like(rows.reach, options_.step) : rows.reach * (0.5 / width_);
    return bring_back(constraints_, x + way * step, held(rows));
  }

  Held held(const Rows& rows) const { return {rows.original, options_.limits, shape_, amplitude_}; }

  // Inputs that gain enough go on as seeds of their image, less and less being enough.
  void keep(const at::Tensor& x, const std::vector<int64_t>& image, const Looks& seen,
            int64_t step) {
    at::Tensor gain = at::zeros({x.size(0)});
    int64_t neurons = 0;
    for (size_t s = 0; s < subjects_.size(); ++s) {
      gain += seen[s].gain;
      neurons += subjects_[s]->neurons();
    }
    const double enough =
        options_.keep / static_cast<double>(step + 1) * static_cast<double>(neurons);
    const auto* g = gain.const_data_ptr<float>();
    for (size_t r = 0; r < image.size(); ++r) {
      if (!(g[r] > 0.f) || (counts_neurons_ && static_cast<double>(g[r]) < enough)) continue;
      auto& queue = queue_[static_cast<size_t>(image[r])];
      queue.push_back({x[static_cast<int64_t>(r)].clone(), lineages_[r]});
      if (queue.size() > kSeeds) queue.pop_front();
      ++progress_.kept;
    }
  }

  void judge(const at::Tensor& x, const std::vector<int64_t>& image, const Looks& seen,
             int64_t round, int64_t step) {
    std::vector<int64_t> differing, not_finite;
    for (int64_t r = 0; r < std::ssize(image); ++r) {
      const Reference& of = references_[static_cast<size_t>(image[static_cast<size_t>(r)])];
      // Of several models one at least has to stay with the class.
      size_t away = 0, lost = 0;
      for (const Subject::Look& each : seen) {
        lost += each.finite.const_data_ptr<bool>()[r] ? 0 : 1;
        away += each.label.const_data_ptr<int64_t>()[r] != of.label ? 1 : 0;
      }
      if (lost > 0) {
        not_finite.push_back(r);
        continue;
      }
      if (away > 0 && (subjects_.size() == 1 || away < subjects_.size())) differing.push_back(r);
    }
    progress_.differing += std::ssize(differing);
    for (const int64_t r : not_finite) {
      const int64_t i = image[static_cast<size_t>(r)];
      if (deadline_.expired() || (!options_.keep_going && lost_[static_cast<size_t>(i)])) continue;
      const at::Tensor fresh = seen_.insert(hash_rows(x.narrow(0, r, 1)));
      if (fresh.item<bool>()) confirm_not_finite(x[r].contiguous(), i, {round, step, r});
    }
    if (differing.empty()) return;
    const at::Tensor rows = at::tensor(differing, at::kLong);
    const at::Tensor fresh = seen_.insert(hash_rows(x.index_select(0, rows)));
    const auto* is_fresh = fresh.const_data_ptr<bool>();
    for (int64_t k = 0; k < std::ssize(differing) && !deadline_.expired(); ++k) {
      const int64_t r = differing[static_cast<size_t>(k)];
      const int64_t i = image[static_cast<size_t>(r)];
      // Two evaluations each: not for images that want no more.
      if (!options_.keep_going && broken_[static_cast<size_t>(i)]) continue;
      if (is_fresh[k] && is_clear(i))
        confirm(x[r].contiguous(), image[static_cast<size_t>(r)], {round, step, r});
    }
  }

  struct Where {
    int64_t round, iteration, row;
  };

  // Rows on which the other runtime is apart in the batch and, each alone, by more than rounding.
  void judge_runtimes(const at::Tensor& x, const std::vector<int64_t>& image, int64_t round,
                      int64_t step) {
    const at::Tensor rows = oracle_->propose(x).nonzero().flatten().contiguous();
    if (rows.numel() == 0) return;
    progress_.differing += rows.numel();
    const at::Tensor fresh = seen_.insert(hash_rows(x.index_select(0, rows)));
    for (int64_t k = 0; k < rows.numel() && !deadline_.expired(); ++k) {
      const auto r = rows.const_data_ptr<int64_t>()[k];
      const int64_t i = image[static_cast<size_t>(r)];
      const bool done = !options_.keep_going && broken_[static_cast<size_t>(i)];
      if (done || !fresh.const_data_ptr<bool>()[k]) continue;
      Difference out;
      out.runtimes = oracle_->compare(x[r].contiguous());
      out.after = out.runtimes->their_class;
      if (!out.runtimes->disagree()) {
        ++progress_.undecided;
      } else if (tell(out, x[r].contiguous(), i, {round, step, r})) {
        ++progress_.disagreements;
        finish(i);
      }
    }
  }

  // The image is done, unless all go on.
  void finish(int64_t image) {
    const auto i = static_cast<size_t>(image);
    if (broken_[i]) return;
    broken_[i] = true;
    ++progress_.broken;
    if (!options_.keep_going) std::erase(active_, image);
  }

  // By the graphs as read, alone, in float32 and in float64, and the distance in float64.
  void confirm(const at::Tensor& x, int64_t image, Where where) {
    const Reference& reference = references_[static_cast<size_t>(image)];
    Difference out;
    size_t away = 0;
    for (size_t s = 0; s < subjects_.size(); ++s) {
      const int64_t label = subjects_[s]->prediction(x);
      if (label < 0) return;  // rounding decides
      out.predictions.push_back(label);
      if (label == reference.label) continue;
      if (away++ == 0) out.model = static_cast<int64_t>(s);
    }
    if (away == 0 || (subjects_.size() > 1 && away == subjects_.size())) return;
    out.after = out.predictions[static_cast<size_t>(out.model)];
    if (!tell(out, x, image, where)) return;
    ++progress_.differences;
    progress_.l2_sum += out.l2;
    progress_.share_sum += out.share;
    finish(image);
  }

  // An output of the first such model is NaN or infinite by the graph as read, alone, in float32.
  void confirm_not_finite(const at::Tensor& x, int64_t image, Where where) {
    const auto by = std::ranges::find_if(subjects_, [&](const auto& s) { return s->overflows(x); });
    if (by == subjects_.end() || !is_clear(image)) return;
    Difference out;
    out.not_finite = true;
    out.model = by - subjects_.begin();
    out.after = -1;
    if (!tell(out, x, image, where)) return;
    ++progress_.not_finite;
    lost_[static_cast<size_t>(image)] = true;
  }

  // Whether it keeps to every limit, measured in float64, and the observer counts it.
  bool tell(Difference& out, const at::Tensor& x, int64_t image, Where where) {
    const at::Tensor& original = images_[image];
    if (!broken_limit(options_.limits, shape_, x, original).empty()) return false;
    if (transformer_) {
      out.lineage = lineages_[static_cast<size_t>(where.row)];
      if (!broken_lineage(out.lineage, original, x, shape_, valid_range(options_.limits),
                          options_.validity)
               .empty()) {
        return false;
      }
    }
    const Reference& reference = references_[static_cast<size_t>(image)];
    out.image = image;
    out.x = x.clone();
    out.before = reference.label;
    out.l2 = (x.to(at::kDouble) - original.to(at::kDouble)).norm().item<double>();
    out.share = reference.norm > 0. ? out.l2 / reference.norm : 0.;
    out.round = where.round;
    out.iteration = where.iteration;
    out.row = where.row;
    out.seconds = seconds_since(began_);
    return observer_.on_difference(out);
  }

  DiffOptions options_;
  DiffObserver& observer_;
  const RuntimeOracle* oracle_;  // or none
  at::Tensor images_;
  std::vector<int64_t> shape_;
  std::vector<const Constraint*> constraints_;
  bool draws_ = false;     // a constraint chooses places itself
  double amplitude_ = 0.;  // as Held has it
  std::vector<std::unique_ptr<Subject>> subjects_;
  Rng rng_;
  bool counts_neurons_;
  Clock::time_point began_ = Clock::now();
  Deadline deadline_;
  std::vector<int64_t> active_;  // images without a difference, unless they go on
  int64_t turn_ = 0;
  double width_;  // the L2 norm of a change by one everywhere
  std::vector<Reference> references_;
  std::optional<Transformer> transformer_;  // with --transform
  std::vector<Lineage> lineages_;           // of the rows of a round
  int idle_ = 0;                            // rounds without a candidate, one after another
  std::vector<std::deque<Seed>> queue_;     // of every image
  std::vector<int64_t> tried_;              // rows that began at the image
  std::vector<int8_t> clear_;               // -1: not asked yet
  std::vector<bool> broken_, lost_;
  HashSet seen_;
  DiffProgress progress_;
};

}  // namespace

DiffProgress run_diff(const std::vector<const Model*>& models, const at::Tensor& images,
                      const DiffOptions& options, const Profile* profile, DiffObserver& observer,
                      const std::atomic<bool>& stop, const RuntimeOracle* oracle) {
  check_options(options);
  check_models(models, images, options, oracle != nullptr);
  at::set_num_threads(1);
  if (options.as_published) {
    return run_as_published(*models[0], images, options, profile, observer, stop);
  }
  Run run(models, images, options, profile, observer, stop, oracle);
  return run.run();
}

}  // namespace grapeshot::diff
