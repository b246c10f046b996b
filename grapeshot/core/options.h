// grapeshot/core/options.h: what a campaign can be told, in one place.
//
// A member and its line in describe() are all there is to an option: the command line, its help,
// --config files and run.json walk describe().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace grapeshot {

/// Of single criteria (core/coverage.h); defaults are those of the papers that define them.
struct CriterionOptions {
  int64_t sections = 1000;  ///< k of kmnc
  double sigma = 0.;        ///< standard deviations by which nbc and snac widen a range
  int64_t top = 10;         ///< k of tknc, tknp, bknc
  int64_t buckets = 1000;   ///< of lsa, dsa, mdsa
  double upper_bound = 0.;  ///< the largest surprise that has a bucket
  double distance = 1.;     ///< of ann: squared, between outputs
  double sign_ratio = 0.2;  ///< of ss, sv, vs, vv: other neurons that may change sign, a share
  double value_ratio = 2.;  ///< and the factor that counts as a change of value
  int64_t cells = 10;       ///< of hidden, attention: parts of a unit's range, of an entropy's
};

template <class Options, class Visitor>
void describe_criteria(Options& options, Visitor&& visit) {
  visit("sections", options.sections, "kmnc: sections of a neuron's range");
  visit("sigma", options.sigma, "nbc, snac: standard deviations that a range is widened by");
  visit("top-neurons", options.top, "tknc, tknp, bknc: neurons of a layer");
  visit("buckets", options.buckets, "lsa, dsa, mdsa: buckets of surprise");
  visit("upper-bound", options.upper_bound,
        "lsa, dsa, mdsa: the largest surprise with a bucket (0: 2 for dsa, 2000 for the others)");
  visit("distance", options.distance, "ann: squared distance of outputs that counts as new");
  visit("sign-ratio", options.sign_ratio,
        "ss, sv, vs, vv: share of a layer's other neurons that may change sign");
  visit("value-ratio", options.value_ratio, "sv, vs, vv: factor that counts as a change of value");
  visit("cells", options.cells,
        "hidden: parts of a unit's range; attention: parts of a head's range of entropy");
}

struct LoopOptions {
  double seconds = 60.;
  int64_t candidates = 0;
  double seconds_per_instance = 0.;
  int64_t per_instance = 1;
  bool keep_going = false;
  uint64_t seed = 0;
  int64_t threads = 0;
  std::string batch = "auto";
  int64_t memory_mib = 1024;
  double checkpoint_s = 5.;
  std::string device = "cpu";
  std::string precision = "auto";
  std::string schedule = "fair";
  std::string mutations = "default";
  std::string weights;
  std::string attacks = "all";
  std::string scale = "ani";
  double scale_factor = 0.1;
  double eta = 0.01;
  int64_t steps = 10;
  double tau = 0.1;
  double alpha = 10., beta = 100., e_min = 0.1;
  std::string criterion = "nc";
  std::string criteria;
  std::string coverage = "global";
  bool every_tap = false;
  CriterionOptions per_criterion = {};
};

/// Calls visit(flag name, member, help) for every option, in the order of the help page. `options`
/// may be const. Flags are spelled with dashes.
template <class Options, class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("seconds", options.seconds, "Stop after this many seconds");
  visit("candidates", options.candidates,
        "Stop with the batch that reaches this many candidates: the reproducible budget (0: none)");
  visit("seconds-per-instance", options.seconds_per_instance,
        "Give every instance this many seconds, one after another (0: all at once)");
  visit("per-instance", options.per_instance, "Findings kept before an instance retires");
  visit("keep-going", options.keep_going, "Go on with broken instances, to count violations");
  visit("seed", options.seed, "Seed of all randomness");
  visit("threads", options.threads, "Lanes, one core each (0: all cores)");
  visit("batch", options.batch, "Rows of a batch, or auto");
  visit("memory", options.memory_mib,
        "MiB for the kept inputs, one half, and for the passes of the networks, the other");
  visit("checkpoint", options.checkpoint_s,
        "Seconds from one checkpoint, for `resume`, to the next (0: none)");
  visit("device", options.device, "Where the batched passes run: cpu or cuda");
  visit("precision", options.precision,
        "Of the passes that propose inputs: float32, bfloat16, or auto (where it is faster)");
  visit("schedule", options.schedule,
        "fair: every unbroken instance gets its share; paper: by energy, with replacement");
  visit("mutations", options.mutations,
        "paper, default, portfolio (attacks that choose by themselves), or names joined by commas");
  visit("weights", options.weights, "Shares of the mutations of the set, e.g. descent=1,random=0");
  visit("attacks", options.attacks, "Of --mutations portfolio: all, or names joined by commas");
  visit("scale", options.scale, "Step sizes: fixed, iso or ani");
  visit("scale-factor", options.scale_factor, "s in (0, 1]: share of a range that a step moves");
  visit("eta", options.eta, "The step of --scale fixed, input units");
  visit("steps", options.steps, "T, gradient steps of one candidate");
  visit("tau", options.tau, "A neuron fires above this activation");
  visit("alpha", options.alpha, "Energy of a row that gains coverage");
  visit("beta", options.beta, "Energy of a row that violates");
  visit("e-min", options.e_min, "Smallest energy");
  visit("criterion", options.criterion, "Coverage criterion that drives the campaign, or none");
  visit("criteria", options.criteria, "More criteria to report, joined by commas");
  visit("coverage", options.coverage,
        "global: new neurons of the union; best-input: more than any single input");
  visit("every-tap", options.every_tap,
        "Count a convolution and the ReLU behind it both, as the paper does");
  describe_criteria(options.per_criterion, visit);
}

/// Sets what --mode NAME stands for: seq-fixed, batch-iso or batch-ani, the three configurations of
/// Zhang and Sui, 2026. Throws Error{kNotFound} for other names.
void apply_mode(LoopOptions& options, std::string_view mode);

/// Throw Error{kInvalidArgument} naming the first option that is out of its range, kNotFound for a
/// name that no table has.
void check_criterion_options(const CriterionOptions& options, double tau);
void check_options(const LoopOptions& options);

}  // namespace grapeshot
