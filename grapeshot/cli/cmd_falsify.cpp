// grapeshot/cli/cmd_falsify.cpp: `grapeshot falsify`.
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <unistd.h>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/judgement.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/cli/second_opinion.h"
#include "grapeshot/cli/time_limit.h"
#include "grapeshot/falsify/portfolio.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

// Keeps the finding; says how it goes where somebody watches.
class Watcher final : public CampaignObserver {
 public:
  explicit Watcher(bool quiet) : live_(!quiet && isatty(STDERR_FILENO) == 1), quiet_(quiet) {
    latest_.best_margin = std::numeric_limits<double>::infinity();
  }

  void on_finding(const Finding& finding) override {
    const std::lock_guard lock(mutex_);
    if (!finding_) finding_ = finding;
  }

  void on_progress(const Progress& p) override {
    {
      const std::lock_guard lock(mutex_);
      latest_ = p;
    }
    if (quiet_ || p.seconds < next_) return;
    next_ = live_ ? p.seconds + 0.25 : std::max(5., p.seconds * 1.5);
    if (p.seconds < 2.) return;
    std::fprintf(stderr, "%s%6.1f s  %" PRId64 " inputs checked  best margin %.4g%s",
                 live_ ? "\r" : "", p.seconds, p.inputs_checked, p.best_margin,
                 live_ ? "   " : "\n");
    drew_ = live_;
  }

  void end_line() const {
    if (drew_) std::fputc('\n', stderr);
  }

  // From any thread.
  [[nodiscard]] std::optional<Finding> finding() const {
    const std::lock_guard lock(mutex_);
    return finding_;
  }
  [[nodiscard]] Progress latest() const {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

 private:
  mutable std::mutex mutex_;
  Progress latest_;
  std::optional<Finding> finding_;
  bool live_, quiet_;
  std::atomic<bool> drew_ = false;
  double next_ = 0.;
};

std::span<const float> values(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), static_cast<size_t>(x.numel())};
}

struct FalsifyCommand {
  std::string model, spec, witness, shape, confirm = "auto", attacks = "all";
  double timeout = 60.;
  bool integer = false;
  double grid = 0.;
  uint64_t seed = 0;
  int64_t threads = 0;
  CommonOptions common;

  // Before the search, so that nothing found is lost.
  static void check_writable(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    GRAPESHOT_CHECK(access(folder.c_str(), W_OK) == 0 && !std::filesystem::is_directory(path),
                    kInvalidArgument, path, ": cannot be written");
  }

  int run() const {
    GRAPESHOT_CHECK(timeout >= 0., kInvalidArgument, "--timeout must be at least 0");
    if (!witness.empty()) check_writable(witness);
    // The limit counts from the start of the process. However short it is, files are read for a
    // second: what is wrong with them is said.
    Watcher watcher(common.quiet || common.json);
    std::atomic<double> start_up_s = process_age_s();
    const Problem nothing;
    Problem problem;  // outlives the limit, which may look at it once it is loaded
    std::atomic<bool> loaded = false;
    TimeLimit limit(std::max(timeout + kLateness_s, start_up_s + kReading_s), [&] {
      return report_in_time(loaded ? std::as_const(problem) : nothing, watcher, start_up_s);
    });
    ProblemFiles files;
    files.model = model;
    files.specs = {spec};
    files.shape = shape;
    files.change.integer = integer;
    files.change.grid = grid;
    problem = load_problem(files);
    loaded = true;
    const Property& property = problem.instances[0].property;
    const std::atomic<bool>& stop = stop_on_interrupt();
    LoopOptions options;
    options.mutations = "portfolio";
    options.attacks = attacks;
    options.criterion = "none";
    options.seed = seed;
    options.threads = threads > 0 ? threads : core_count();
    CampaignParts parts;
    parts.make = falsify::make_portfolio;
    ask_onnxruntime(parts, problem, confirm);
    (void)falsify::parse_attacks(attacks);
    const bool empty =
        std::ranges::all_of(property.regions, [](const Region& r) { return r.box.empty; });
    if (empty) {
      std::cerr << "grapeshot: note: " << problem.instances[0].name
                << ": no float32 input lies in its box, so that nothing can violate it\n";
    }
    start_up_s = process_age_s();
    options.seconds = std::max(timeout - start_up_s - kClosing_s, 0.);
    CampaignResult result;
    const bool late = options.seconds <= 0.;
    limit.move_to(std::max(timeout, start_up_s.load()) + kLateness_s);
    if (!late) result = run_campaign(problem.campaign_models(), options, watcher, stop, parts);
    limit.claim();
    watcher.end_line();
    return report(problem, result, watcher.finding(), start_up_s, late, empty);
  }

  // Something that cannot be stopped takes longer: perhaps another lane after a finding.
  int report_in_time(const Problem& problem, const Watcher& watcher, double start_up_s) const {
    watcher.end_line();
    CampaignResult result;
    result.totals = watcher.latest();
    result.lanes = threads > 0 ? threads : core_count();
    return report(problem, result, watcher.finding(), start_up_s, result.totals.inputs_checked == 0,
                  false);
  }

  int report(const Problem& problem, const CampaignResult& result,
             const std::optional<Finding>& finding, double start_up_s, bool late,
             bool empty) const {
    const InstanceResult none;
    const InstanceResult& instance = result.instances.empty() ? none : result.instances[0];
    const auto path = [](const std::string& given) {
      return std::filesystem::absolute(given).lexically_normal().string();
    };
    std::string answer = "timeout";
    if (finding) {
      answer = "sat";
    } else if (empty || instance.exhausted || result.interrupted) {
      answer = "unknown";
    }
    if (finding && !witness.empty())
      save_witness(witness, finding->x, finding->confirmation.y32,
                   problem.models[0].model->input_shape());
    if (instance.nan.defined()) {
      std::cerr << "grapeshot: note: the network's output is NaN for an input of the box"
                << nan_file(problem, instance.nan) << "; NaN violates nothing\n";
    }
    std::string words;
    if (const auto in_words = finding ? words_of(problem.instances[0]) : properties::Words()) {
      const Confirmation& c = finding->confirmation;
      words = in_words(values(finding->x), c.y32, c.verdict32);
    }
    ordered_json out = {{"command", "falsify"},
                        {"answer", answer},
                        {"model", problem.models.empty() ? path(model) : problem.models[0].path},
                        {"spec", problem.models.empty() ? path(spec) : problem.instances[0].spec},
                        {"seconds", process_age_s()},
                        {"start_up_s", start_up_s},
                        {"seed", seed},
                        {"threads", result.lanes}};
    out["inputs_checked"] = result.totals.inputs_checked;
    out["best_margin"] =
        number(finding                            ? finding->confirmation.verdict32.margin
               : result.totals.inputs_checked > 0 ? result.totals.best_margin
                                                  : std::numeric_limits<double>::infinity());
    out["borderline"] = result.totals.borderline;
    out["exhausted"] = instance.exhausted;
    out["nan"] = instance.nan.defined();
    if (finding) {
      out["attack"] = finding->mutation;
      out["margin32"] = finding->confirmation.verdict32.margin;
      out["margin64"] = finding->confirmation.verdict64.margin;
      out["clear"] = finding->confirmation.clear;
      if (!words.empty()) out["words"] = words;
      out["onnxruntime"] = finding->opinion ? ordered_json(*finding->opinion) : ordered_json();
      out["witness"] = witness.empty() ? ordered_json() : ordered_json(witness);
    }
    if (common.json) {
      std::cout << out.dump(2) << "\n";
    } else {
      std::cout << answer << "\n";
      if (finding && witness.empty()) {
        const std::string text = write_witness(values(finding->x), finding->confirmation.y32);
        std::cout << text.substr(text.find('\n') + 1);
      }
      if (!common.quiet) say(result, finding, words, start_up_s, late, instance);
    }
    std::cout.flush();
    return finding ? kFound : kNothingFound;
  }

  void say(const CampaignResult& result, const std::optional<Finding>& finding,
           const std::string& words, double start_up_s, bool late,
           const InstanceResult& instance) const {
    if (!words.empty()) std::fprintf(stderr, "%s\n", words.c_str());
    if (finding) {
      std::fprintf(stderr, "found by %s after %.2f s (start-up %.2f s), margin %.4g\n",
                   finding->mutation.c_str(), start_up_s + finding->seconds, start_up_s,
                   finding->confirmation.verdict32.margin);
    } else if (instance.exhausted && result.totals.inputs_checked > 0) {
      std::fprintf(stderr, "no input is free: all there are were tried\n");
    } else if (instance.exhausted) {
      std::fprintf(stderr, "none of these attacks applies to the instance\n");
    } else if (late) {
      std::fprintf(stderr, "the limit of %g s was over before the first input (start-up %.2f s)\n",
                   timeout, start_up_s);
    } else {
      std::fprintf(stderr, "%" PRId64 " inputs checked, best margin %.6g\n",
                   result.totals.inputs_checked, result.totals.best_margin);
    }
  }

  // Where it was written, for a note.
  [[nodiscard]] std::string nan_file(const Problem& problem, const at::Tensor& x) const {
    if (witness.empty()) return {};
    const std::string path = witness + ".nan.npy";
    try {
      save_npy(path, x, problem.models[0].model->input_shape());
    } catch (const Error& error) {
      return str(" (which could not be kept: ", error.what(), ")");
    }
    return str(", written to ", path);
  }

  static constexpr double kClosing_s = 0.02;   // for what is left to do after the search
  static constexpr double kLateness_s = 0.05;  // what takes longer than this is not waited for
  static constexpr double kReading_s = 1.;     // of reading files, at least
};

}  // namespace

Action declare_falsify(CLI::App& app) {
  auto command = std::make_shared<FalsifyCommand>();
  app.add_option("MODEL", command->model, kModelHelp)->required();
  app.add_option("SPEC", command->spec, "A VNN-LIB or JSON file for it")->required();
  app.add_option("--timeout", command->timeout,
                 "Seconds from the start of the process to the answer")
      ->capture_default_str();
  app.add_option("--witness", command->witness,
                 "Write the counterexample here: VNN-COMP's text, or an array (.npy)");
  app.add_option("--confirm", command->confirm,
                 "auto: ONNX Runtime, where it is installed, decides what rounding may undo; ort: "
                 "it has to agree with every counterexample; none")
      ->capture_default_str();
  app.add_option("--attacks", command->attacks, "all, or names joined by commas")
      ->capture_default_str();
  add_shape_option(app, command->shape);
  add_grid_options(app, command->integer, command->grid);
  app.add_option("--seed", command->seed, "Seed of all randomness")->capture_default_str();
  app.add_option("--threads", command->threads, "Lanes, one core each (0: all cores)")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1024}));
  add_common_options(app, command->common);
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
