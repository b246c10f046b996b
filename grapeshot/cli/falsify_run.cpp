#include "grapeshot/cli/falsify_run.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/error.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/cli/second_opinion.h"
#include "grapeshot/cli/time_limit.h"
#include "grapeshot/falsify/portfolio.h"

namespace grapeshot::cli {
namespace {

constexpr double kClosing_s = 0.02;   // for what is left to do after the search
constexpr double kLateness_s = 0.05;  // what takes longer than this is not waited for
constexpr double kReading_s = 1.;     // of reading files, at least

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
      progress_(nlohmann::ordered_json{{"seconds", p.seconds},
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
  std::function<void(const nlohmann::ordered_json& line)> progress_ = nullptr;
  std::atomic<bool> drew_ = false;
  double next_ = 0.;
};

FalsifyAnswer answer_of(const Problem& problem, CampaignResult result,
                        std::optional<Finding> finding, double start_up_s, bool late, bool empty) {
  FalsifyAnswer out{problem, std::move(result), std::move(finding), start_up_s, late, "timeout",
                    ""};
  if (out.finding) {
    out.answer = "sat";
    const at::Tensor& x = out.finding->x;
    const Confirmation& c = out.finding->confirmation;
    if (const auto words = words_of(problem.instances[0])) {
      out.words =
          words({x.const_data_ptr<float>(), static_cast<size_t>(x.numel())}, c.y32, c.verdict32);
    }
  } else if (empty || out.instance().exhausted || out.result.interrupted) {
    out.answer = "unknown";
  }
  return out;
}

struct Search {
  Problem problem;  // outlives the limit, which may look at it once it is loaded
  std::atomic<bool> loaded = false;
  std::atomic<double> start_up_s = 0.;
  bool empty = false, late = false;  // no input; no time for one
  CampaignResult result;
};

int64_t threads_of(const FalsifyRun& run) {
  return run.threads > 0 ? run.threads : core_count();
}

// `ready` is called when everything is read.
void search_for(const FalsifyRun& run, const Session& session, Watcher& watcher, Search& s,
                const std::function<void()>& ready) {
  s.problem = load_problem(run.files, session.models);
  s.loaded = true;
  const ProblemInstance& instance = s.problem.instances[0];
  const std::atomic<bool>& stop = session.stop();
  LoopOptions options;
  options.mutations = "portfolio";
  options.attacks = run.attacks;
  options.criterion = "none";
  options.seed = run.seed;
  options.threads = threads_of(run);
  CampaignParts parts;
  parts.make = falsify::make_portfolio;
  ask_onnxruntime(parts, s.problem, run.confirm);
  (void)falsify::parse_attacks(run.attacks);
  s.empty =
      std::ranges::all_of(instance.property.regions, [](const Region& r) { return r.box.empty; });
  if (s.empty) {
    session.note(instance.name +
                 ": no float32 input lies in its box, so that nothing can violate it");
  }
  s.start_up_s = session.age_s();
  options.seconds = std::max(run.timeout - s.start_up_s - kClosing_s, 0.);
  s.late = options.seconds <= 0.;
  ready();
  if (!s.late) {
    s.result = run_campaign(s.problem.campaign_models(), options, watcher, stop, parts);
  }
}

FalsifyAnswer answer_of(Search& s, const Watcher& watcher) {
  return answer_of(s.problem, std::move(s.result), watcher.finding(), s.start_up_s, s.late,
                   s.empty);
}

void check_timeout(const FalsifyRun& run) {
  GRAPESHOT_CHECK(run.timeout >= 0., kInvalidArgument, "--timeout must be at least 0");
}

}  // namespace

int falsify_in_time(const FalsifyRun& run, const std::function<int(const FalsifyAnswer&)>& report) {
  check_timeout(run);
  const Session session = terminal_session();
  // The limit counts from the start of the process. However short it is, files are read for a
  // second: what is wrong with them is said.
  Watcher watcher(run.quiet);
  const Problem nothing;
  Search s;
  s.start_up_s = session.age_s();
  TimeLimit limit(std::max(run.timeout + kLateness_s, s.start_up_s + kReading_s), [&] {
    // Something that cannot be stopped takes longer: perhaps another lane after a finding.
    watcher.end_line();
    CampaignResult result;
    result.totals = watcher.latest();
    result.lanes = threads_of(run);
    const bool late = result.totals.inputs_checked == 0;
    return report(answer_of(s.loaded ? std::as_const(s.problem) : nothing, std::move(result),
                            watcher.finding(), s.start_up_s, late, false));
  });
  search_for(run, session, watcher, s,
             [&] { limit.move_to(std::max(run.timeout, s.start_up_s.load()) + kLateness_s); });
  limit.claim();
  watcher.end_line();
  return report(answer_of(s, watcher));
}

void falsify(const FalsifyRun& run, const Session& session,
             const std::function<void(const FalsifyAnswer&)>& report) {
  check_timeout(run);
  Watcher watcher(session);
  Search s;
  search_for(run, session, watcher, s, [] {});
  report(answer_of(s, watcher));
}

}  // namespace grapeshot::cli
