#include "grapeshot/cli/fuzz_campaign.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/recorded_finding.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/falsify/portfolio.h"
#include "grapeshot/io/onnx/gradient_path.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

ordered_json coverage_json(const Progress& p) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, value] : p.coverage) out[name] = value;
  return out;
}

// Findings to disk at once, progress to stderr and stats.jsonl.
class Reporter final : public CampaignObserver {
 public:
  Reporter(const Problem& problem, RunFolder& folder, uint64_t seed, bool quiet)
      : problem_(problem),
        folder_(folder),
        seed_(seed),
        quiet_(quiet),
        live_(isatty(STDERR_FILENO) == 1) {}

  void on_finding(const Finding& finding) override {
    (void)folder_.write_finding(problem_, finding, seed_);
  }

  void on_note(const std::string& text) override {
    std::cerr << (live_ ? "\r\x1b[K" : "") << "grapeshot: note: " << text << "\n";
  }

  void on_progress(const Progress& p) override {
    // stats.jsonl once a second, a log line less and less often, a live line every time.
    if (p.seconds >= next_stats_) {
      next_stats_ = p.seconds + 1.;
      folder_.append_stats({{"seconds", p.seconds},
                            {"instances_falsified", p.broken},
                            {"candidates", p.candidates},
                            {"inputs_checked", p.inputs_checked},
                            {"violations", p.violations},
                            {"distinct_violations", p.distinct_violations},
                            {"best_margin", number(p.best_margin)},
                            {"corpus_size", p.corpus_size},
                            {"coverage", coverage_json(p)}});
    }
    if (quiet_ || (!live_ && p.seconds < next_line_)) return;
    next_line_ = std::max(2., p.seconds * 1.5);
    if (!live_ && p.seconds < 1.) return;
    const bool share = p.coverage.empty() || find_criterion(p.coverage[0].first).share;
    const double coverage = (p.coverage.empty() ? 0. : p.coverage[0].second) * (share ? 100. : 1.);
    std::fprintf(stderr,
                 "%s%6.1f s  %" PRId64 " broken, %" PRId64
                 " left  %.0f inputs/s  coverage %.4g%s  best margin %.4g%s",
                 live_ ? "\r" : "", p.seconds, p.broken, p.instances - p.broken,
                 static_cast<double>(p.inputs_checked) / std::max(p.seconds, 1e-9), coverage,
                 share ? " %" : "", p.best_margin, live_ ? "   " : "\n");
    std::fflush(stderr);
    drew_ = live_;
  }

  void end_line() const {
    if (drew_) std::fputc('\n', stderr);
  }

 private:
  const Problem& problem_;
  RunFolder& folder_;
  uint64_t seed_;
  bool quiet_, live_, drew_ = false;
  double next_stats_ = 0., next_line_ = 0.;
};

ordered_json summarize(const Problem& problem, const CampaignResult& result,
                       const LoopOptions& options, const RunFolder& folder, double start_up_s,
                       const std::vector<std::string>& ids) {
  const Progress& p = result.totals;
  const double seconds = std::max(p.seconds, 1e-9);
  ordered_json models = ordered_json::array();
  for (const ProblemModel& each : problem.models) models.push_back(each.path);
  ordered_json first = ordered_json::object();
  for (size_t i = 0; i < result.instances.size(); ++i) {
    const double s = result.instances[i].seconds_to_first;
    if (s >= 0.) first[std::to_string(i)] = s;
  }
  ordered_json out;
  out["command"] = "fuzz";
  out["model"] = models.size() == 1 ? models[0] : models;
  out["instances"] = p.instances;
  out["instances_falsified"] = p.broken;
  if (problem.rows) out["inputs_misread"] = problem.misread;
  out["candidates"] = p.candidates;
  out["candidates_per_s"] = static_cast<double>(p.candidates) / seconds;
  out["inputs_checked"] = p.inputs_checked;
  out["inputs_checked_per_s"] = static_cast<double>(p.inputs_checked) / seconds;
  out["violations"] = p.violations;
  out["distinct_violations"] = p.distinct_violations;
  out["borderline"] = p.borderline;
  out["ttfv_s"] = p.ttfv_s < 0. ? ordered_json(nullptr) : ordered_json(p.ttfv_s);
  out["ttfv_s_per_instance"] = first;
  out["coverage"] = coverage_json(p);
  out["corpus_size"] = p.corpus_size;
  out["seconds"] = p.seconds;
  out["start_up_s"] = start_up_s;
  // FLOPs done over what the lanes' cores do in a large matrix product.
  out["mfu"] = static_cast<double>(p.cost) / seconds /
               (measured_peak_macs(0.05) * static_cast<double>(result.lanes * result.threads));
  // Of the lanes' time, what is not spent in batched passes of the networks.
  out["outside_network"] = p.lane_s > 0. ? 1. - p.network_s / p.lane_s : 0.;
  out["peak_rss_mib"] = peak_rss_mib();
  out["seed"] = options.seed;
  out["interrupted"] = result.interrupted;
  out["findings"] = ids;
  out["out"] = folder.path();
  return out;
}

void print_summary(const ordered_json& s) {
  const auto count = [&](const char* key) { return s[key].get<int64_t>(); };
  std::printf("%" PRId64 " of %" PRId64 " instances broken in %.1f s (start-up %.2f s)\n",
              count("instances_falsified"), count("instances"), s["seconds"].get<double>(),
              s["start_up_s"].get<double>());
  if (s.value("inputs_misread", int64_t{0}) > 0) {
    std::printf("%" PRId64 " inputs left out: the model does not predict their labels\n",
                count("inputs_misread"));
  }
  std::printf("%" PRId64 " candidates (%.0f/s), %" PRId64 " inputs checked (%.0f/s)\n",
              count("candidates"), s["candidates_per_s"].get<double>(), count("inputs_checked"),
              s["inputs_checked_per_s"].get<double>());
  std::printf("%" PRId64 " violations, %" PRId64 " distinct; coverage", count("violations"),
              count("distinct_violations"));
  for (const auto& [name, value] : s["coverage"].items()) {
    const bool share = find_criterion(name).share;
    std::printf(" %s %.4g%s", name.c_str(), (share ? 100. : 1.) * value.get<double>(),
                share ? " %" : "");
  }
  // Of some findings, what they mean.
  constexpr size_t kMostSaid = 5;
  size_t said = 0;
  if (s.contains("words")) {
    for (const auto& [id, words] : s["words"].items()) {
      if (said++ < kMostSaid) std::printf("\n%s", words.get<std::string>().c_str());
    }
  }
  if (said > kMostSaid) std::printf("\nand %zu more", said - kMostSaid);
  const std::string out = s["out"].get<std::string>();
  std::printf("\nrun folder: %s\n", out.c_str());
  if (!s["findings"].empty()) {
    std::printf("replay a finding: grapeshot replay %s/findings/%s\n", out.c_str(),
                s["findings"][0].get<std::string>().c_str());
  }
}

// What makes a model slower or harder than it looks, once.
void note_model(const ProblemModel& each) {
  const auto note = [&](const auto&... parts) {
    std::cerr << "grapeshot: note: " << str(each.path, ": ", parts...) << "\n";
  };
  const onnx::OnnxModel& net = *each.model;
  if (!net.fallback().empty()) note("runs row by row: ", net.fallback());
  if (!net.islands().empty()) {
    note(net.islands().size(),
         " nodes run row by row, since a shape depends on the row's values, the rest as a batch; "
         "first ",
         net.islands()[0]);
  }
  const onnx::GradientPath path = onnx::gradient_path(net.network());
  if (!path.reaches && !path.cut.empty()) {
    note("no gradient passes ", path.cut[0], ", so that only random and boundary mutations move");
  }
}

// The ids of all findings in the folder, and what they say in words. What was written after the
// checkpoint that a campaign went on from, and was not found again, counts as well.
std::vector<std::string> settle_findings(const RunFolder& folder, CampaignResult& result,
                                         ordered_json& words) {
  std::vector<std::string> ids;
  std::vector<int64_t> there(result.instances.size(), 0);
  for (const auto& place : finding_folders(folder.path())) {
    ids.push_back(place.filename().string());
    const RecordedFinding finding = read_finding(place);
    if (!finding.words.empty()) words[ids.back()] = finding.words;
    if (finding.instance < 0 || finding.instance >= std::ssize(there)) continue;
    const auto i = static_cast<size_t>(finding.instance);
    InstanceResult& each = result.instances[i];
    if (++there[i] <= each.findings) continue;
    if (each.findings++ == 0) {
      ++result.totals.broken;
      each.best_margin = finding.margin.value_or(0.);
    }
    ++result.totals.findings;
  }
  return ids;
}

}  // namespace

int run_fuzz(const Problem& problem, const LoopOptions& options, RunFolder& folder,
             ordered_json run, const CommonOptions& common, const State* resume) {
  for (const ProblemModel& each : problem.models) note_model(each);
  // From here on an interrupt ends with a complete run folder.
  const std::atomic<bool>& stop = stop_on_interrupt();
  run["options"] = to_json(options);
  run["machine"] = describe_machine();
  folder.write_json("run.json", run);
  Reporter reporter(problem, folder, options.seed, common.quiet);
  const double start_up_s = process_age_s();
  CampaignParts parts;
  if (options.mutations == "portfolio") parts.make = falsify::make_portfolio;
  if (options.checkpoint_s > 0.) {
    parts.keep = [&](const State& state) { folder.write_checkpoint(state); };
    parts.checkpoint_s = options.checkpoint_s;
  }
  parts.resume = resume;
  CampaignResult result = run_campaign(problem.campaign_models(), options, reporter, stop, parts);
  reporter.end_line();
  ordered_json words;  // of findings that have some
  const std::vector<std::string> ids = settle_findings(folder, result, words);
  run["batch_rows"] = result.batch;
  run["lanes"] = result.lanes;
  folder.write_json("run.json", run);
  folder.write_instances(problem, result);
  ordered_json summary = summarize(problem, result, options, folder, start_up_s, ids);
  if (!words.is_null()) summary["words"] = words;
  folder.write_json("summary.json", summary);
  if (common.json) {
    std::cout << summary.dump(2) << "\n";
  } else {
    print_summary(summary);
  }
  return result.totals.broken > 0 ? kFound : kNothingFound;
}

}  // namespace grapeshot::cli
