// grapeshot/diff/diff.h: differential fuzzing: inputs near given ones on which a network predicts
// something else (DLFuzz: Guo, Jiang, Zhao, Chen, Sun, 2018).
//
// Every row of a batch climbs from an image, or from what was kept of it, by a joint objective: the
// runner-up classes of the image against its own, plus neurons to drive. The reference is always
// the prediction on the image itself. What is found obeys the limits (diff/constraint.h).
// With `transform` it goes by transformations of images instead (diff/lineage.h). Several models
// climb away from each other instead (DeepXplore: Pei, Cao, Yang, Jana, 2017).
//
// Shapes: N images, D inputs, K classes. Units: the model's own input units.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"
#include "grapeshot/core/options.h"
#include "grapeshot/core/profile.h"
#include "grapeshot/diff/constraint.h"
#include "grapeshot/diff/lineage.h"
#include "grapeshot/diff/runtime_oracle.h"

namespace grapeshot::diff {

struct DiffOptions {
  double seconds = 10.;
  int64_t candidates = 0;  ///< 0: no budget of them
  bool keep_going = false;
  uint64_t seed = 0;
  int64_t batch = 0;
  int64_t top_k = 4;
  int64_t neurons = 10;
  std::string strategy = "1";
  std::string objective = "classes";
  std::string constraint = "none";
  std::string transform;
  ValidityBound validity = {};
  double weight = 0.5;
  double lambda = 0.5;
  int64_t iterations = 3;
  double step = 0.;
  Limits limits = {};
  double keep = 0.01;
  double tolerance = kRounding;
  bool as_published = false;
  double tau = 0.25;
  std::string criterion = "nc-scaled";
  std::string criteria;
  CriterionOptions per_criterion = {};
};

/// As core/options.h has it.
template <class Options, class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("seconds", options.seconds, "Stop after this many seconds");
  visit("candidates", options.candidates,
        "Stop with the batch that reaches this many candidates: the reproducible budget (0: none)");
  visit("keep-going", options.keep_going, "Go on with images whose prediction has changed");
  visit("seed", options.seed, "Seed of all randomness");
  visit("batch", options.batch, "Rows of a batch (0: what the models handle well)");
  visit("top-k", options.top_k, "Runner-up classes of the objective");
  visit("neurons", options.neurons, "m, neurons that a step drives");
  visit("strategy", options.strategy,
        "How they are chosen: 1, 2, 3, 4, random, none, or several as in 1+3");
  visit("constraint", options.constraint,
        "What a step may change: none (anything), light, occlusion or blackout, or several joined "
        "by +");
  visit("objective", options.objective,
        "What a step climbs: classes, boundary or magnitude (towards outputs that are not finite)");
  visit("transform", options.transform,
        "Transform images instead of climbing: deephunter, deeptest, or several as in rotate+blur");
  visit("free-share", options.validity.free_share,
        "Of --transform: where fewer inputs than this share of them change, by any amount");
  visit("change-share", options.validity.change_share,
        "Of --transform: otherwise all by less than this share of the valid range");
  visit("weight", options.weight,
        "Of the runner-up classes against the image's own; with several models, of its class in "
        "all but one against that one");
  visit("lambda", options.lambda, "Of the neurons against the classes");
  visit("iterations", options.iterations, "Steps of a row before it takes another seed");
  visit("step", options.step,
        "Times the gradient over its root mean square, input units (0: half of what the limits "
        "allow)");
  visit("l2", options.limits.l2,
        "Largest L2 distance from the image, as a share of its norm (0: none, where another limit "
        "is given)");
  visit("linf", options.limits.linf, "Largest change of one input, input units (0: none)");
  visit("l0", options.limits.l0, "Inputs that differ at most (0: any number)");
  visit("pixels", options.limits.pixels,
        "--l0 counts places of the last two axes, all channels of one together");
  visit("snr", options.limits.snr,
        "Smallest signal-to-noise ratio, 10 log10(|image|^2 / |change|^2), dB (0: any)");
  visit("smooth", options.limits.smooth,
        "Largest second difference of the change along the last axis, input units (0: any)");
  visit("low", options.limits.low, "Smallest valid input; with --high, both 0: that of the data");
  visit("high", options.limits.high, "Largest valid input");
  visit("grid", options.limits.grid,
        "Inputs are multiples of this, as the images are (1: whole numbers; 0: any)");
  visit("keep", options.keep, "Share of neurons that a seed has to gain, less with every step");
  visit("tolerance", options.tolerance,
        "Of --against onnxruntime: the difference of outputs, over the largest, that counts");
  visit(
      "as-published", options.as_published,
      "Do what DLFuzz's released code does where it departs from the paper, and count what of its "
      "findings would not pass the checks; strategies are then 0, 1, 2, 3");
  visit("tau", options.tau,
        "A neuron fires above this activation, 0 to 1: of its layer's range for the strategies");
  visit("criterion", options.criterion, "Coverage criterion that decides what is kept");
  visit("criteria", options.criteria, "More criteria to report, joined by commas");
  describe_criteria(options.per_criterion, visit);
}

/// Throws Error{kInvalidArgument, kNotFound} naming the first option that is wrong.
void check_options(const DiffOptions& options);
/// The same for models and images that do not fit each other or the options; `has_oracle`: whether
/// another runtime is compared with.
void check_models(const std::vector<const Model*>& models, const at::Tensor& images,
                  const DiffOptions& options, bool has_oracle);

/// A confirmed input with another prediction, with an output that is NaN or infinite, or on which
/// two runtimes disagree.
struct Difference {
  bool not_finite = false;  ///< the latter, in float32; `after` is then -1
  int64_t image = 0;
  at::Tensor x;                   ///< [D] float32
  int64_t before = 0, after = 0;  ///< classes, by Model::evaluate
  int64_t model = 0;              ///< whose prediction `after` is, the first that has left `before`
  std::vector<int64_t> predictions = {};    ///< of every model
  double l2 = 0., share = 0.;               ///< the distance, and over the image's norm
  std::optional<Comparison> runtimes = {};  ///< that disagree; `after` is then the other's class
  int64_t round = 0, iteration = 0, row = 0;
  double seconds = 0.;
  Lineage lineage = {};  ///< with --transform
};

struct DiffProgress {
  double seconds = 0.;
  int64_t images = 0, broken = 0;  ///< broken: with a difference
  int64_t left_out = 0;            ///< images on which the models do not agree as they are, or
                                   ///< whose prediction rounding decides
  int64_t candidates = 0;          ///< rows that a step made
  int64_t dropped = 0;             ///< transformed images that were not valid
  int64_t differing = 0;           ///< of them, with another prediction
  int64_t differences = 0;         ///< of these, distinct and confirmed
  double l2_sum = 0., share_sum = 0.;
  int64_t not_finite = 0;     ///< distinct confirmed inputs with an output that is NaN or infinite
  int64_t disagreements = 0;  ///< of two runtimes, distinct and confirmed; differing: proposed
  int64_t undecided = 0;      ///< proposals that are within rounding
  // As published: of `differing`, all of which it reports, those that are no differences; and why.
  int64_t would_not_pass = 0;
  int64_t as_image = 0;  ///< predicted as the image is: it is its seed that was not
  int64_t past_limits = 0, within_rounding = 0;
  double published_l2_sum = 0.;  ///< of all
  int64_t kept = 0;              ///< seeds
  std::vector<std::pair<std::string, double>> coverage;
  std::vector<std::pair<std::string, double>> before;  ///< coverage of the images themselves
};

/// Called between two steps. What it throws ends the run and reaches its caller.
class DiffObserver {
 public:
  virtual ~DiffObserver() = default;
  /// Whether it counts.
  virtual bool on_difference(const Difference& difference) = 0;
  virtual void on_progress(const DiffProgress& progress) = 0;
  /// Something that the user should know.
  virtual void on_note(const std::string& /*text*/) {}
};

/// Until the budget is spent, every image has a difference (unless keep_going), or `stop` is set.
/// `images` [N, D] float32 in [low, high]. The same seed, images and budget of candidates give the
/// same differences. Throws Error{kInvalidArgument} for images or options that do not fit.
///
/// Several models: a difference is an input on which one at least has left the class that all of
/// them give the image, and one at least has not.
///
/// With an oracle, which takes one model, what is looked for is disagreement of runtimes instead.
[[nodiscard]] DiffProgress run_diff(const std::vector<const Model*>& models,
                                    const at::Tensor& images, const DiffOptions& options,
                                    const Profile* profile, DiffObserver& observer,
                                    const std::atomic<bool>& stop,
                                    const RuntimeOracle* oracle = nullptr);

}  // namespace grapeshot::diff
