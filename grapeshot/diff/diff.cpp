#include "grapeshot/diff/diff.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/base/error.h"
#include "grapeshot/core/corpus.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/core/worker.h"
#include "grapeshot/diff/neurons.h"

namespace grapeshot::diff {
namespace {

// Seeds kept of one image at most; the oldest make room.
constexpr size_t kSeeds = 64;

// What the image itself is taken for.
struct Reference {
  int64_t label = 0;
  std::vector<int64_t> rivals;  // the next classes, best first
  double norm = 0.;             // L2, of the image
};

class Run {
 public:
  Run(const Model& model, const at::Tensor& images, const DiffOptions& options,
      const Profile* profile, DiffObserver& observer, const std::atomic<bool>& stop)
      : model_(model),
        options_(options),
        observer_(observer),
        images_(images.contiguous()),
        coverage_(model, loop_options(options), profile),
        chosen_(parse_strategies(options.strategy)),
        rng_(options.seed),
        counts_neurons_(counts_neurons(options.criterion)),
        deadline_(options.seconds > 0. ? options.seconds : 1e12, &stop),
        queue_(static_cast<size_t>(images.size(0))),
        broken_(static_cast<size_t>(images.size(0)), false) {
    taps_ = counted_taps(model, false);
    for (const int64_t tap : taps_) {
      neurons_ += model.taps()[static_cast<size_t>(tap)].neurons;
    }
    hits_ = at::zeros({neurons_});
    weight_ = at::cat(outgoing());
    if (options_.low == 0. && options_.high == 0.) {
      options_.low = images_.min().item<double>();
      options_.high = images_.max().item<double>();
    }
    refer();
    progress_.images = images.size(0);
  }

  DiffProgress run() {
    const int64_t most = batch_rows();
    // The images themselves are the first inputs tested.
    for (const at::Tensor& part : at::arange(images_.size(0)).split(most)) {
      (void)look(images_.index_select(0, part));
    }
    progress_.before = progress_.coverage = coverage_.values();
    for (int64_t round = 0; !over(); ++round) {
      rng_.reseed(derive_seed({options_.seed, static_cast<uint64_t>(round)}));
      go_round(round, most);
      progress_.seconds = seconds_since(began_);
      progress_.coverage = coverage_.values();
      observer_.on_progress(progress_);
    }
    progress_.seconds = seconds_since(began_);
    progress_.coverage = coverage_.values();
    return progress_;
  }

 private:
  static LoopOptions loop_options(const DiffOptions& options) {
    LoopOptions out;
    out.tau = options.tau;
    out.criterion = options.criterion;
    out.criteria = options.criteria;
    out.per_criterion = options.per_criterion;
    return out;
  }

  // Whether its gain is a number of neurons.
  static bool counts_neurons(const std::string& criterion) {
    if (criterion == "none") return false;
    const CriterionRow& row = find_criterion(criterion);
    return row.activations || row.extremes;
  }

  std::vector<at::Tensor> outgoing() const {
    std::vector<at::Tensor> out = {at::zeros({0})};
    const std::vector<at::Tensor> known = model_.outgoing_weights();
    for (const int64_t tap : taps_) {
      const auto i = static_cast<size_t>(tap);
      const bool has = i < known.size() && known[i].defined();
      out.push_back(has ? known[i] : at::zeros({model_.taps()[i].neurons}));
    }
    return out;
  }

  // The prediction of every image, and which of them have none that rounding would keep.
  void refer() {
    for (int64_t i = 0; i < images_.size(0); ++i) {
      const at::Tensor x = images_.slice(0, i, i + 1);
      const at::Tensor y = model_.evaluate(x).to(at::kDouble);
      const at::Tensor order = y.argsort(/*stable=*/true, 1, /*descending=*/true).squeeze(0);
      const auto* at = order.const_data_ptr<int64_t>();
      Reference reference;
      reference.label = at[0];
      for (int64_t k = 1; k < std::min(options_.top_k + 1, order.size(0)); ++k) {
        reference.rivals.push_back(at[k]);
      }
      reference.norm = x.to(at::kDouble).norm().item<double>();
      references_.push_back(std::move(reference));
      const bool clear = at::isfinite(y).all().item<bool>() &&
                         model_.evaluate(x.to(at::kDouble)).argmax(1).item<int64_t>() == at[0];
      if (clear) {
        active_.push_back(i);
      } else {
        ++progress_.ambiguous;
      }
    }
  }

  int64_t batch_rows() const {
    if (options_.batch > 0) return options_.batch;
    return std::max<int64_t>(micro_batch(model_), 1);
  }

  bool over() const {
    return deadline_.expired() || active_.empty() ||
           (options_.candidates > 0 && progress_.candidates >= options_.candidates);
  }

  // A forward pass of x [n, D] that counts for coverage; what the strategies and the oracle need.
  struct Look {
    at::Tensor label;     // [n]
    at::Tensor response;  // [n, T] on the scale of tau
    at::Tensor gain;      // [n]
  };

  Look look(const at::Tensor& x) {
    Wanted wanted = coverage_.wanted();
    wanted.taps = taps_;
    wanted.means = wanted.extremes = true;
    const Trace trace = model_.trace(x, Head::kLogits, wanted);
    Look out;
    out.label = trace.y.argmax(1);
    std::vector<at::Tensor> parts = {at::zeros({x.size(0), 0})};
    for (size_t t = 0; t < taps_.size(); ++t) {
      const at::Tensor least = trace.extremes[t].slice(1, 0, 1),
                       most = trace.extremes[t].slice(1, 1);
      parts.push_back(((trace.means[t] - least) / (most - least)).nan_to_num(0., 0., 0.));
    }
    out.response = at::cat(parts, 1);
    hits_ += (out.response > options_.tau).sum(0);
    out.gain = coverage_.update(wanted, trace);
    if (!out.gain.defined()) out.gain = at::zeros({x.size(0)});
    return out;
  }

  // Rows for the images whose turn it is, each from a seed of its own.
  void go_round(int64_t round, int64_t most) {
    const int64_t rows = most;
    std::vector<int64_t> image;
    std::vector<at::Tensor> start;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = active_[static_cast<size_t>(turn_++ % std::ssize(active_))];
      auto& queue = queue_[static_cast<size_t>(i)];
      image.push_back(i);
      if (queue.empty()) {
        start.push_back(images_[i]);
      } else {
        start.push_back(queue.front());
        queue.pop_front();
      }
    }
    Rows rows_of = gather(image);
    at::Tensor x = at::stack(start);
    Look seen = look(x);
    for (int64_t step = 0; step < options_.iterations && !over(); ++step) {
      const at::Tensor direction = climb(x, rows_of, seen.response);
      x = advance(x, direction, rows_of);
      seen = look(x);
      progress_.candidates += x.size(0);
      keep(x, image, seen.gain, step);
      judge(x, image, seen.label, round, step);
    }
  }

  struct Rows {
    at::Tensor original;  // [n, D]
    at::Tensor radius;    // [n, 1]
    at::Tensor of_class;  // [n, K]: weights of the classes in the objective
    at::Tensor label;     // [n]
  };

  Rows gather(const std::vector<int64_t>& image) const {
    const auto n = std::ssize(image);
    Rows out;
    out.original = images_.index_select(0, at::tensor(image, at::kLong));
    out.of_class = at::zeros({n, model_.outputs()});
    out.radius = at::empty({n, 1});
    out.label = at::empty({n}, at::kLong);
    auto weight = out.of_class.accessor<float, 2>();
    for (int64_t r = 0; r < n; ++r) {
      const Reference& reference = references_[static_cast<size_t>(image[static_cast<size_t>(r)])];
      for (const int64_t rival : reference.rivals) {
        weight[r][rival] = static_cast<float>(options_.weight);
      }
      weight[r][reference.label] = -1.f;
      // What float32 adds to a distance stays below the bound.
      out.radius[r][0] = options_.l2 * reference.norm * (1. - 1e-5);
      out.label[r] = reference.label;
    }
    return out;
  }

  // The gradient [n, D] of the joint objective, over its root mean square.
  at::Tensor climb(const at::Tensor& x, const Rows& rows, const at::Tensor& response) {
    const Neurons known{hits_, weight_, response, options_.tau};
    const at::Tensor driven = select_neurons(chosen_, known, options_.neurons, rng_);
    std::vector<at::Tensor> of_taps;
    int64_t begin = 0;
    bool any = false;
    for (const int64_t tap : taps_) {
      const int64_t width = model_.taps()[static_cast<size_t>(tap)].neurons;
      of_taps.push_back(driven.slice(1, begin, begin + width) * options_.lambda);
      any = any || of_taps.back().any().item<bool>();
      begin += width;
    }
    const std::vector<int64_t> taps = any ? taps_ : std::vector<int64_t>{};
    const Gradient g = model_.joint_gradient(
        x, Head::kLogits, Surrogate::kLoose, taps, [&](const at::Tensor& y) -> JointCotangent {
          // Of sum_k w_k softmax(y)_k.
          const at::Tensor p = at::softmax(y, 1);
          const at::Tensor mean = (p * rows.of_class).sum(1, true);
          return {p * (rows.of_class - mean), of_taps};
        });
    const at::Tensor safe = g.x.nan_to_num(0., 0., 0.);
    const at::Tensor scale = safe.square().mean(1, true).sqrt();
    // A probability that is 1 to the last bit has no slope: any direction will do.
    const at::Tensor noise = at::randn(x.sizes(), rng_.generator());
    return at::where(scale > 1e-20, safe / scale, noise);
  }

  // A step, and back to what is allowed: the ball around the image, the range, the grid.
  at::Tensor advance(const at::Tensor& x, const at::Tensor& direction, const Rows& rows) const {
    const double width = std::sqrt(static_cast<double>(x.size(1)));
    const at::Tensor step = options_.step > 0. ? at::full_like(rows.radius, options_.step)
                                               : rows.radius * (0.5 / width);
    const at::Tensor off = x + direction * step - rows.original;
    const at::Tensor length = off.norm(2, {1}, /*keepdim=*/true);
    const at::Tensor shrink = (rows.radius / length.clamp_min(1e-30)).clamp_max(1.);
    const at::Tensor in = at::clamp(rows.original + off * shrink, options_.low, options_.high);
    return options_.grid > 0. ? on_grid(in) : in;
  }

  at::Tensor on_grid(const at::Tensor& x) const {
    const at::Tensor exact = x.to(at::kDouble);
    return ((exact / options_.grid).round() * options_.grid)
        .clamp(options_.low, options_.high)
        .to(at::kFloat);
  }

  // Inputs that gain enough go on as seeds of their image, less and less being enough.
  void keep(const at::Tensor& x, const std::vector<int64_t>& image, const at::Tensor& gain,
            int64_t step) {
    const double enough =
        options_.keep / static_cast<double>(step + 1) * static_cast<double>(neurons_);
    const auto* g = gain.const_data_ptr<float>();
    for (size_t r = 0; r < image.size(); ++r) {
      if (!(g[r] > 0.f) || (counts_neurons_ && static_cast<double>(g[r]) < enough)) continue;
      auto& queue = queue_[static_cast<size_t>(image[r])];
      queue.push_back(x[static_cast<int64_t>(r)].clone());
      if (queue.size() > kSeeds) queue.pop_front();
      ++progress_.kept;
    }
  }

  void judge(const at::Tensor& x, const std::vector<int64_t>& image, const at::Tensor& label,
             int64_t round, int64_t step) {
    const auto* now = label.const_data_ptr<int64_t>();
    std::vector<int64_t> differing;
    for (int64_t r = 0; r < std::ssize(image); ++r) {
      const auto i = static_cast<size_t>(image[static_cast<size_t>(r)]);
      if (now[r] != references_[i].label) differing.push_back(r);
    }
    progress_.differing += std::ssize(differing);
    if (differing.empty()) return;
    const at::Tensor rows = at::tensor(differing, at::kLong);
    const at::Tensor fresh = seen_.insert(hash_rows(x.index_select(0, rows)));
    for (int64_t k = 0; k < std::ssize(differing); ++k) {
      if (!fresh[k].item<bool>()) continue;
      const int64_t r = differing[static_cast<size_t>(k)];
      confirm(x[r].contiguous(), image[static_cast<size_t>(r)], {round, step, r});
    }
  }

  struct Where {
    int64_t round, iteration, row;
  };

  // By the graph as read, alone, in float32 and in float64, and the distance in float64.
  void confirm(const at::Tensor& x, int64_t image, Where where) {
    const Reference& reference = references_[static_cast<size_t>(image)];
    const at::Tensor row = x.unsqueeze(0);
    const at::Tensor y32 = model_.evaluate(row), y64 = model_.evaluate(row.to(at::kDouble));
    if (!at::isfinite(y32).all().item<bool>() || !at::isfinite(y64).all().item<bool>()) return;
    const auto after = y32.argmax(1).item<int64_t>();
    if (after == reference.label || y64.argmax(1).item<int64_t>() == reference.label) return;
    Difference out;
    out.image = image;
    out.x = x.clone();
    out.before = reference.label;
    out.after = after;
    out.l2 = (x.to(at::kDouble) - images_[image].to(at::kDouble)).norm().item<double>();
    out.share = reference.norm > 0. ? out.l2 / reference.norm : 0.;
    if (!(out.share <= options_.l2)) return;
    out.round = where.round;
    out.iteration = where.iteration;
    out.row = where.row;
    out.seconds = seconds_since(began_);
    ++progress_.differences;
    progress_.l2_sum += out.l2;
    progress_.share_sum += out.share;
    const auto i = static_cast<size_t>(image);
    if (!broken_[i]) {
      broken_[i] = true;
      ++progress_.broken;
      if (!options_.keep_going) std::erase(active_, image);
    }
    observer_.on_difference(out);
  }

  const Model& model_;
  DiffOptions options_;
  DiffObserver& observer_;
  at::Tensor images_;
  SharedCoverage coverage_;
  std::vector<const Strategy*> chosen_;
  Rng rng_;
  bool counts_neurons_;
  Clock::time_point began_ = Clock::now();
  Deadline deadline_;
  std::vector<int64_t> taps_, active_;
  int64_t neurons_ = 0, turn_ = 0;
  at::Tensor hits_, weight_;  // [T]
  std::vector<Reference> references_;
  std::vector<std::deque<at::Tensor>> queue_;  // seeds of every image
  std::vector<bool> broken_;
  HashSet seen_;
  DiffProgress progress_;
};

void check(bool ok, std::string_view flag, std::string_view range) {
  GRAPESHOT_CHECK(ok, kInvalidArgument, "--", flag, " must be ", range);
}

}  // namespace

void check_options(const DiffOptions& o) {
  check(o.seconds >= 0. && std::isfinite(o.seconds), "seconds", "at least 0");
  check(o.candidates >= 0, "candidates", "at least 0");
  check(o.seconds > 0. || o.candidates > 0, "seconds", "above 0 without --candidates");
  check(o.batch >= 0 && o.batch <= (int64_t{1} << 20), "batch", "from 0 to 1048576");
  check(o.top_k >= 1, "top-k", "at least 1");
  check(o.neurons >= 0, "neurons", "at least 0");
  check(o.weight >= 0. && std::isfinite(o.weight), "weight", "at least 0");
  check(o.lambda >= 0. && std::isfinite(o.lambda), "lambda", "at least 0");
  check(o.iterations >= 1, "iterations", "at least 1");
  check(o.step >= 0. && std::isfinite(o.step), "step", "at least 0");
  check(o.l2 > 0. && std::isfinite(o.l2), "l2", "above 0");
  check((o.low == 0. && o.high == 0.) || (o.low < o.high && std::isfinite(o.high - o.low)), "low",
        "below --high");
  check(o.grid >= 0. && std::isfinite(o.grid), "grid", "at least 0");
  check(o.keep >= 0. && std::isfinite(o.keep), "keep", "at least 0");
  check_criterion_options(o.per_criterion, o.tau);
  (void)parse_strategies(o.strategy);
}

DiffProgress run_diff(const Model& model, const at::Tensor& images, const DiffOptions& options,
                      const Profile* profile, DiffObserver& observer,
                      const std::atomic<bool>& stop) {
  check_options(options);
  GRAPESHOT_CHECK(images.dim() == 2 && images.size(1) == model.inputs() && images.size(0) > 0,
                  kInvalidArgument, model.name(), ": expects rows of ", model.inputs(), " inputs");
  GRAPESHOT_CHECK(model.outputs() >= 2, kInvalidArgument, model.name(),
                  ": has one output; predictions need at least two classes");
  at::set_num_threads(1);
  Run run(model, images, options, profile, observer, stop);
  return run.run();
}

}  // namespace grapeshot::diff
