#include "grapeshot/cli/fuzz_campaign.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/fuzz_reporter.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/recorded_finding.h"
#include "grapeshot/cli/robust_accuracy.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/falsify/portfolio.h"
#include "grapeshot/io/onnx/gradient_path.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

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
  out.update(fuzz_counts(p));
  if (problem.rows) out["inputs_misread"] = problem.misread;
  out["candidates_per_s"] = static_cast<double>(p.candidates) / seconds;
  out["inputs_checked_per_s"] = static_cast<double>(p.inputs_checked) / seconds;
  out["ttfv_s_per_instance"] = first;
  out.update(robust_accuracy(problem, result));
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
  const std::string robust = robust_accuracy_table(s);
  if (!robust.empty()) std::printf("\n%s", robust.substr(0, robust.size() - 1).c_str());
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
void note_model(const ProblemModel& each, const Session& session) {
  const auto note = [&](const auto&... parts) { session.note(str(each.path, ": ", parts...)); };
  const onnx::OnnxModel* read = as_network(*each.model);
  if (read == nullptr) return;
  const onnx::OnnxModel& net = *read;
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

ordered_json run_fuzz(const Problem& problem, const LoopOptions& options, RunFolder& folder,
                      ordered_json run, const CommonOptions& common, const State* resume,
                      const Session& session) {
  for (const ProblemModel& each : problem.models) note_model(each, session);
  // From here on an interrupt ends with a complete run folder.
  const std::atomic<bool>& stop = session.stop();
  run["options"] = to_json(options);
  run["machine"] = describe_machine();
  folder.write_json("run.json", run);
  LiveView view(run, common, session);
  FuzzReporter reporter(problem, folder, options.seed, view, session);
  const double start_up_s = session.age_s();
  CampaignParts parts;
  if (options.mutations == "portfolio") parts.make = falsify::make_portfolio;
  if (options.checkpoint_s > 0.) {
    parts.keep = [&](const State& state) { folder.write_checkpoint(state); };
    parts.checkpoint_s = options.checkpoint_s;
  }
  parts.resume = resume;
  CampaignResult result = run_campaign(problem.campaign_models(), options, reporter, stop, parts);
  view.close();
  ordered_json words;  // of findings that have some
  const std::vector<std::string> ids = settle_findings(folder, result, words);
  run["batch_rows"] = result.batch;
  run["lanes"] = result.lanes;
  folder.write_json("run.json", run);
  folder.write_instances(problem, result);
  ordered_json summary = summarize(problem, result, options, folder, start_up_s, ids);
  if (!words.is_null()) summary["words"] = words;
  folder.write_json("summary.json", summary);
  return summary;
}

int print_fuzz(const ordered_json& summary, const CommonOptions& common, const AfterRun& after) {
  if (common.json) {
    std::cout << summary.dump(2) << "\n";
  } else {
    print_summary(summary);
  }
  return finish_run(summary["out"].get<std::string>(), after, !common.json,
                    summary["instances_falsified"].get<int64_t>() > 0 ? kFound : kNothingFound);
}

}  // namespace grapeshot::cli
