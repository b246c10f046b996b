#include "grapeshot/cli/falsify_run.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <limits>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>
#include <unistd.h>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/error.h"
#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/machine.h"
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

}  // namespace

int falsify_in_time(const FalsifyRun& run, const std::function<int(const FalsifyAnswer&)>& report) {
  GRAPESHOT_CHECK(run.timeout >= 0., kInvalidArgument, "--timeout must be at least 0");
  // The limit counts from the start of the process. However short it is, files are read for a
  // second: what is wrong with them is said.
  Watcher watcher(run.quiet);
  const int64_t threads = run.threads > 0 ? run.threads : core_count();
  std::atomic<double> start_up_s = process_age_s();
  const Problem nothing;
  Problem problem;  // outlives the limit, which may look at it once it is loaded
  std::atomic<bool> loaded = false;
  TimeLimit limit(std::max(run.timeout + kLateness_s, start_up_s + kReading_s), [&] {
    // Something that cannot be stopped takes longer: perhaps another lane after a finding.
    watcher.end_line();
    CampaignResult result;
    result.totals = watcher.latest();
    result.lanes = threads;
    const bool late = result.totals.inputs_checked == 0;
    return report(answer_of(loaded ? std::as_const(problem) : nothing, std::move(result),
                            watcher.finding(), start_up_s, late, false));
  });
  problem = load_problem(run.files);
  loaded = true;
  const Property& property = problem.instances[0].property;
  const std::atomic<bool>& stop = stop_on_interrupt();
  LoopOptions options;
  options.mutations = "portfolio";
  options.attacks = run.attacks;
  options.criterion = "none";
  options.seed = run.seed;
  options.threads = threads;
  CampaignParts parts;
  parts.make = falsify::make_portfolio;
  ask_onnxruntime(parts, problem, run.confirm);
  (void)falsify::parse_attacks(run.attacks);
  const bool empty =
      std::ranges::all_of(property.regions, [](const Region& r) { return r.box.empty; });
  if (empty) {
    std::cerr << "grapeshot: note: " << problem.instances[0].name
              << ": no float32 input lies in its box, so that nothing can violate it\n";
  }
  start_up_s = process_age_s();
  options.seconds = std::max(run.timeout - start_up_s - kClosing_s, 0.);
  CampaignResult result;
  const bool late = options.seconds <= 0.;
  limit.move_to(std::max(run.timeout, start_up_s.load()) + kLateness_s);
  if (!late) result = run_campaign(problem.campaign_models(), options, watcher, stop, parts);
  limit.claim();
  watcher.end_line();
  return report(answer_of(problem, std::move(result), watcher.finding(), start_up_s, late, empty));
}

}  // namespace grapeshot::cli
