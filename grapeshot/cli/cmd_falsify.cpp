// grapeshot/cli/cmd_falsify.cpp: `grapeshot falsify`.
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <unistd.h>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/error.h"
#include "grapeshot/cli/calls.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/judgement.h"
#include "grapeshot/cli/machine.h"
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
  /// Tells the program that called.
  explicit Watcher(const Session& session) : Watcher(/*quiet=*/true) {
    progress_ = session.progress;
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
    if (progress_) {
      progress_({{"seconds", p.seconds},
                 {"inputs_checked", p.inputs_checked},
                 {"best_margin", number(p.best_margin)}});
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
  std::function<void(const ordered_json& line)> progress_ = nullptr;
  std::atomic<bool> drew_ = false;
  double next_ = 0.;
};

std::span<const float> values(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), static_cast<size_t>(x.numel())};
}

struct FalsifyCommand {
  std::string model, spec, witness, confirm = "auto", attacks = "all";
  double timeout = 60.;
  uint64_t seed = 0;
  int64_t threads = 0;
  CommonOptions common;

  // Before the search, so that nothing found is lost.
  static void check_writable(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    GRAPESHOT_CHECK(access(folder.c_str(), W_OK) == 0 && !std::filesystem::is_directory(path),
                    kInvalidArgument, path, ": cannot be written");
  }

  // What a search came to.
  struct Search {
    Problem problem;  // outlives the limit, which may look at it once it is loaded
    std::atomic<bool> loaded = false;
    std::atomic<double> start_up_s = 0.;
    bool empty = false, late = false;  // no input; no time for one
    CampaignResult result;
  };

  void check_usage() const {
    GRAPESHOT_CHECK(timeout >= 0., kInvalidArgument, "--timeout must be at least 0");
    if (!witness.empty()) check_writable(witness);
  }

  // `ready` is called when everything is read.
  void search(const Session& session, Watcher& watcher, Search& s,
              const std::function<void()>& ready) const {
    ProblemFiles files;
    files.model = model;
    files.specs = {spec};
    s.problem = load_problem(files, session.models);
    s.loaded = true;
    const ProblemInstance& instance = s.problem.instances[0];
    const std::atomic<bool>& stop = session.stop();
    LoopOptions options;
    options.mutations = "portfolio";
    options.attacks = attacks;
    options.criterion = "none";
    options.seed = seed;
    options.threads = threads > 0 ? threads : core_count();
    CampaignParts parts;
    parts.make = falsify::make_portfolio;
    ask_onnxruntime(parts, s.problem, confirm);
    (void)falsify::parse_attacks(attacks);
    s.empty =
        std::ranges::all_of(instance.property.regions, [](const Region& r) { return r.box.empty; });
    if (s.empty) {
      session.note(instance.name +
                   ": no float32 input lies in its box, so that nothing can violate it");
    }
    s.start_up_s = session.age_s();
    options.seconds = std::max(timeout - s.start_up_s - kClosing_s, 0.);
    s.late = options.seconds <= 0.;
    ready();
    if (!s.late) {
      s.result = run_campaign(s.problem.campaign_models(), options, watcher, stop, parts);
    }
  }

  // For a program: no limit that ends the process.
  ordered_json call(const Session& session) const {
    check_usage();
    Watcher watcher(session);
    Search s;
    search(session, watcher, s, [] {});
    const std::optional<Finding> finding = watcher.finding();
    if (finding && session.found) session.found("", *finding);
    return describe(s.problem, s.result, finding, s.start_up_s, s.empty, session);
  }

  int run() const {
    check_usage();
    const Session session = terminal_session();
    // The limit counts from the start of the process. However short it is, files are read for a
    // second: what is wrong with them is said.
    Watcher watcher(common.quiet || common.json);
    const Problem nothing;
    Search s;
    s.start_up_s = process_age_s();
    TimeLimit limit(std::max(timeout + kLateness_s, s.start_up_s + kReading_s), [&] {
      return report_in_time(s.loaded ? s.problem : nothing, watcher, s.start_up_s, session);
    });
    search(session, watcher, s,
           [&] { limit.move_to(std::max(timeout, s.start_up_s.load()) + kLateness_s); });
    limit.claim();
    watcher.end_line();
    return report(s.problem, s.result, watcher.finding(), s.start_up_s, s.late, s.empty, session);
  }

  // Something that cannot be stopped takes longer: perhaps another lane after a finding.
  int report_in_time(const Problem& problem, const Watcher& watcher, double start_up_s,
                     const Session& session) const {
    watcher.end_line();
    CampaignResult result;
    result.totals = watcher.latest();
    result.lanes = threads > 0 ? threads : core_count();
    return report(problem, result, watcher.finding(), start_up_s, result.totals.inputs_checked == 0,
                  false, session);
  }

  static InstanceResult instance_of(const CampaignResult& result) {
    return result.instances.empty() ? InstanceResult() : result.instances[0];
  }

  // What --json prints; writes the witness.
  ordered_json describe(const Problem& problem, const CampaignResult& result,
                        const std::optional<Finding>& finding, double start_up_s, bool empty,
                        const Session& session) const {
    const InstanceResult instance = instance_of(result);
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
      session.note(str("the network's output is NaN for an input of the box",
                       nan_file(problem, instance.nan), "; NaN violates nothing"));
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
                        {"seconds", session.age_s()},
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
    return out;
  }

  int report(const Problem& problem, const CampaignResult& result,
             const std::optional<Finding>& finding, double start_up_s, bool late, bool empty,
             const Session& session) const {
    const ordered_json out = describe(problem, result, finding, start_up_s, empty, session);
    if (common.json) {
      std::cout << out.dump(2) << "\n";
    } else {
      std::cout << out["answer"].get<std::string>() << "\n";
      if (finding && witness.empty()) {
        const std::string text = write_witness(values(finding->x), finding->confirmation.y32);
        std::cout << text.substr(text.find('\n') + 1);
      }
      if (!common.quiet) {
        say(result, finding, out.value("words", std::string()), start_up_s, late,
            instance_of(result));
      }
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

std::shared_ptr<FalsifyCommand> declare(CLI::App& app) {
  auto command = std::make_shared<FalsifyCommand>();
  app.add_option("MODEL", command->model, "An .onnx or .onnx.gz file")->required();
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
  app.add_option("--seed", command->seed, "Seed of all randomness")->capture_default_str();
  app.add_option("--threads", command->threads, "Lanes, one core each (0: all cores)")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1024}));
  add_common_options(app, command->common);
  return command;
}

}  // namespace

Action declare_falsify(CLI::App& app) {
  return [command = declare(app)] { return command->run(); };
}

Call declare_falsify_call(CLI::App& app) {
  return [command = declare(app)](const Session& session) { return command->call(session); };
}

}  // namespace grapeshot::cli
