// grapeshot/cli/cmd_fuzz.cpp: `grapeshot fuzz`.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include <unistd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/run_folder.h"
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
    const std::string id = folder_.write_finding(problem_, finding, seed_);
    ids_.push_back(id);
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
    const double coverage = p.coverage.empty() ? 0. : p.coverage[0].second;
    std::fprintf(stderr,
                 "%s%6.1f s  %" PRId64 " broken, %" PRId64
                 " left  %.0f inputs/s  coverage %.1f %%  best margin %.4g%s",
                 live_ ? "\r" : "", p.seconds, p.broken, p.instances - p.broken,
                 static_cast<double>(p.inputs_checked) / std::max(p.seconds, 1e-9), 100. * coverage,
                 p.best_margin, live_ ? "   " : "\n");
    std::fflush(stderr);
    drew_ = live_;
  }

  void end_line() const {
    if (drew_) std::fputc('\n', stderr);
  }

  [[nodiscard]] const std::vector<std::string>& ids() const { return ids_; }

 private:
  const Problem& problem_;
  RunFolder& folder_;
  uint64_t seed_;
  bool quiet_, live_, drew_ = false;
  double next_stats_ = 0., next_line_ = 0.;
  std::vector<std::string> ids_;
};

ordered_json summarize(const Problem& problem, const CampaignResult& result,
                       const LoopOptions& options, const RunFolder& folder, double start_up_s,
                       std::vector<std::string> ids) {
  const Progress& p = result.totals;
  const double seconds = std::max(p.seconds, 1e-9);
  ordered_json models = ordered_json::array();
  for (const ProblemModel& each : problem.models) models.push_back(each.path);
  ordered_json first = ordered_json::object();
  for (size_t i = 0; i < result.instances.size(); ++i) {
    const double s = result.instances[i].seconds_to_first;
    if (s >= 0.) first[std::to_string(i)] = s;
  }
  std::ranges::sort(ids);
  ordered_json out;
  out["command"] = "fuzz";
  out["model"] = models.size() == 1 ? models[0] : models;
  out["instances"] = p.instances;
  out["instances_falsified"] = p.broken;
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
               (measured_peak_macs(0.05) * static_cast<double>(result.lanes));
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
  std::printf("%" PRId64 " candidates (%.0f/s), %" PRId64 " inputs checked (%.0f/s)\n",
              count("candidates"), s["candidates_per_s"].get<double>(), count("inputs_checked"),
              s["inputs_checked_per_s"].get<double>());
  std::printf("%" PRId64 " violations, %" PRId64 " distinct; coverage", count("violations"),
              count("distinct_violations"));
  for (const auto& [name, value] : s["coverage"].items()) {
    std::printf(" %s %.1f %%", name.c_str(), 100. * value.get<double>());
  }
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

struct FuzzCommand {
  ProblemFiles files;
  std::string out;
  CommonOptions common;
  std::unique_ptr<LoopFlags> flags;

  void check_usage() const {
    const bool specs = !files.specs.empty(), data = !files.data.empty();
    const int forms = static_cast<int>(specs) + static_cast<int>(data) +
                      static_cast<int>(!files.instances.empty());
    GRAPESHOT_CHECK(forms == 1, kInvalidArgument,
                    "fuzz needs one of: MODEL SPEC..., --instances FILE.csv, or MODEL --data X.npy "
                    "--eps E");
    GRAPESHOT_CHECK(
        files.instances.empty() == !files.model.empty(), kInvalidArgument,
        files.instances.empty() ? "fuzz needs a MODEL" : "--instances names its models itself");
    GRAPESHOT_CHECK(!data || (files.eps > 0. && std::isfinite(files.eps)), kInvalidArgument,
                    "--data needs a finite --eps above 0");
    GRAPESHOT_CHECK(data || (files.labels.empty() && files.eps == 0.), kInvalidArgument,
                    "--labels and --eps go with --data");
  }

  int run() const {
    check_usage();
    const LoopOptions options = flags->resolve();
    const Problem problem = load_problem(files);
    GRAPESHOT_CHECK(!problem.instances.empty(), kInvalidArgument, files.instances,
                    ": holds no instance");
    for (const ProblemInstance& each : problem.instances) {
      const auto& regions = each.property.regions;
      if (std::ranges::all_of(regions, [](const Region& r) { return r.box.empty; })) {
        std::cerr << "grapeshot: note: " << each.name << ": no float32 input lies in its box\n";
      }
    }
    for (const ProblemModel& each : problem.models) note_model(each);
    // From here on an interrupt ends with a complete run folder.
    const std::atomic<bool>& stop = stop_on_interrupt();
    RunFolder folder(out.empty() ? default_run_path(problem.models[0].path) : out);
    ordered_json run;
    run["command"] = "fuzz";
    run["options"] = to_json(options);
    run["mode"] = flags->mode();
    run["machine"] = describe_machine();
    run.update(describe_files(problem));
    for (const ProblemModel& each : problem.models) {
      run["micro_batch_rows"].push_back(micro_batch(*each.model));
    }
    folder.write_json("run.json", run);
    Reporter reporter(problem, folder, options.seed, common.quiet);
    const double start_up_s = process_age_s();
    CampaignParts parts;
    if (options.mutations == "portfolio") parts.make = falsify::make_portfolio;
    const CampaignResult result =
        run_campaign(problem.campaign_models(), options, reporter, stop, parts);
    reporter.end_line();
    run["batch_rows"] = result.batch;
    run["lanes"] = result.lanes;
    folder.write_json("run.json", run);
    folder.write_instances(problem, result);
    const ordered_json summary =
        summarize(problem, result, options, folder, start_up_s, reporter.ids());
    folder.write_json("summary.json", summary);
    if (common.json) {
      std::cout << summary.dump(2) << "\n";
    } else {
      print_summary(summary);
    }
    return result.totals.broken > 0 ? kFound : kNothingFound;
  }
};

}  // namespace

Action declare_fuzz(CLI::App& app) {
  auto command = std::make_shared<FuzzCommand>();
  app.add_option("MODEL", command->files.model, "An .onnx or .onnx.gz file");
  app.add_option("SPEC", command->files.specs, "VNN-LIB files for it");
  app.add_option("--instances", command->files.instances,
                 "A csv of onnx,vnnlib,timeout rows, as VNN-COMP has them");
  app.add_option("--data", command->files.data, "Inputs, .npy, [N, ...]");
  app.add_option("--labels", command->files.labels,
                 "Their labels, .npy, [N]; -1 or no file: the model's own prediction");
  app.add_option("--eps", command->files.eps, "Radius around each input, input units");
  app.add_option("--out", command->out, "Run folder (default grapeshot-out/<time>-<model>)");
  add_common_options(app, command->common);
  command->flags = std::make_unique<LoopFlags>(app);
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
