// grapeshot/cli/cmd_diff.cpp: `grapeshot diff`: inputs near given ones that are predicted
// otherwise.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/calls.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/diff_limits.h"
#include "grapeshot/cli/diff_summary.h"
#include "grapeshot/cli/free_inputs.h"
#include "grapeshot/cli/live_view.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/other_runtime.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/recorded_finding.h"
#include "grapeshot/cli/recorded_lineage.h"
#include "grapeshot/cli/rows.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/core/confirm.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/diff/diff.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/variant.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

// The box around what differences lie in, and the range: what `check` and `replay` read.
Property property_of(const at::Tensor& image, int64_t label, int64_t outputs,
                     const diff::DiffOptions& options) {
  const at::Tensor exact = image.to(at::kDouble).contiguous();
  const diff::Limits& limits = options.limits;
  double radius =
      limits.l2 > 0. ? limits.l2 * exact.norm().item<double>() : limits.high - limits.low;
  if (limits.linf > 0.) radius = std::min(radius, limits.linf);
  Property out =
      top1_property(std::span(exact.const_data_ptr<double>(), static_cast<size_t>(exact.numel())),
                    radius, label, outputs);
  const at::Tensor frozen = limits.frozen.defined() ? limits.frozen.contiguous() : at::Tensor();
  const bool* is_frozen = frozen.defined() ? frozen.const_data_ptr<bool>() : nullptr;
  Box& box = out.regions[0].box;
  for (size_t i = 0; i < box.lo.size(); ++i) {
    box.lo[i] = std::max(box.lo[i], static_cast<float>(options.limits.low));
    box.hi[i] = std::min(box.hi[i], static_cast<float>(options.limits.high));
    if (is_frozen != nullptr && is_frozen[i]) {
      box.lo[i] = box.hi[i] = static_cast<float>(exact.const_data_ptr<double>()[i]);
    }
  }
  return out;
}

class Reporter final : public diff::DiffObserver {
 public:
  Reporter(Problem& problem, RunFolder& folder, const diff::DiffOptions& options, int64_t per_image,
           bool keep_all, LiveView& view, const OtherRuntime* other, const Session& session)
      : problem_(problem),
        folder_(folder),
        options_(options),
        per_image_(per_image),
        keep_all_(keep_all),
        view_(view),
        other_(other),
        session_(session),
        written_(problem.instances.size(), 0) {}

  bool on_difference(const diff::Difference& d) override {
    const auto i = static_cast<size_t>(d.image);
    ProblemInstance& instance = problem_.instances[i];
    instance.model = static_cast<size_t>(d.model);
    const Model& model = *problem_.models[instance.model].model;
    instance.property = property_of(instance.original, d.before, model.outputs(), options_);
    Finding finding;
    finding.instance = d.image;
    finding.x = d.x;
    finding.original = instance.original;
    finding.confirmation = confirm(model, instance.property,
                                   {d.x.const_data_ptr<float>(), static_cast<size_t>(d.x.numel())});
    // On the very edge of the box; nothing violates with outputs that are no numbers, or has to
    // where two runtimes disagree.
    const bool differs = !d.not_finite && !d.runtimes;
    if (differs ? !finding.confirmation.holds : finding.confirmation.verdict32.region < 0) {
      return false;
    }
    if (keep_all_ && differs) found_.push_back(d);
    if (written_[i] >= per_image_) return true;
    ++written_[i];
    finding.mutation = "diff";
    finding.shard_seed = options_.seed;
    finding.iteration = d.round;
    finding.row = d.row;
    ordered_json more = {{"before", d.before},  {"after", d.after},
                         {"l2", d.l2},          {"l2_share", d.share},
                         {"step", d.iteration}, {"limits", limits_json(options_.limits)}};
    if (options_.limits.l2 > 0.) more["l2_bound"] = options_.limits.l2;
    if (options_.as_published) more["as_published"] = true;
    if (d.not_finite) more["kind"] = kNotFinite;
    if (d.runtimes) {
      more["kind"] = kRuntimes;
      more["runtimes"] = to_json(*d.runtimes, options_.tolerance, *other_);
    }
    // The models that stay with the image's class are what it differs from.
    for (size_t s = 0; s < d.predictions.size() && d.predictions.size() > 1; ++s) {
      if (d.predictions[s] != d.before) continue;
      const ProblemModel& other = problem_.models[s];
      more["others"].push_back(
          {{"model", other.path}, {"model_sha256", other.sha256}, {"variant", other.variant}});
    }
    std::vector<std::pair<std::string, at::Tensor>> inputs;
    if (!d.lineage.steps.empty()) {
      more["lineage"] = lineage_json(d, instance.original, options_);
      inputs = lineage_inputs(d.lineage);
    }
    ids_.push_back(folder_.write_finding(problem_, finding, options_.seed, more, inputs));
    if (session_.found) session_.found(ids_.back(), finding);
    return true;
  }

  void on_note(const std::string& text) override { view_.note(text); }

  void on_progress(const diff::DiffProgress& p) override {
    const bool writes = p.seconds >= next_stats_;
    if (!writes && !view_.due()) return;
    ordered_json line = {{"seconds", p.seconds}};
    line.update(diff_counts(p));
    line["rss_mib"] = rss_mib();
    view_.show(line);
    if (!writes) return;
    next_stats_ = p.seconds + 0.1 + 0.05 * p.seconds;
    folder_.append_stats(line);
  }

  [[nodiscard]] const std::vector<diff::Difference>& found() const { return found_; }
  [[nodiscard]] const std::vector<std::string>& ids() const { return ids_; }

 private:
  Problem& problem_;
  RunFolder& folder_;
  const diff::DiffOptions& options_;
  int64_t per_image_;
  bool keep_all_;
  LiveView& view_;
  const OtherRuntime* other_;  // or none
  const Session& session_;
  std::vector<int64_t> written_;
  std::vector<diff::Difference> found_;
  std::vector<std::string> ids_;
  double next_stats_ = 0.;
};

struct DiffCommand {
  ProblemFiles files;
  std::vector<std::string> others;  // more models
  std::string out, retraining, against, frozen, reference_model;
  int64_t per_image = 3;
  bool integer = false;
  diff::DiffOptions options;
  CommonOptions common;
  diff::DiffProgress counted = {};  // of the run

  ordered_json run(const Session& session) {
    check_usage();
    files.change.eps = {1.};  // boxes are made for every difference
    Problem problem = load_problem(files, session.models);
    const diff::DiffOptions given = options;
    to_network_units(options, *problem.rows);
    if (!frozen.empty()) options.limits.frozen = frozen_inputs(frozen, *problem.rows);
    const Model& model = *problem.models[0].model;
    const std::unique_ptr<OtherRuntime> other = other_runtime(problem);
    const std::vector<const Model*> models = add_others(problem, session.models);
    const at::Tensor images = images_of(problem);
    note_undriven(problem, session);
    if (!retraining.empty()) make_retraining_folder();
    RunFolder folder(out.empty() ? default_run_path(problem.models[0].path) : out);
    const diff::DiffOptions& said = problem.rows->same_units() ? options : given;
    const ordered_json record = record_of(problem, said, other.get());
    folder.write_json("run.json", record);
    const std::atomic<bool>& stop = session.stop();
    LiveView view(record, common, session);
    Reporter reporter(problem, folder, options, per_image, !retraining.empty(), view, other.get(),
                      session);
    std::optional<diff::RuntimeOracle> oracle;
    if (other) {
      oracle.emplace(
          model, [&](const at::Tensor& x) { return other->outputs(x); }, options.tolerance);
    }
    const double start_up_s = session.age_s();
    const diff::DiffProgress p = diff::run_diff(models, images, options, problem.profile.get(),
                                                reporter, stop, oracle ? &*oracle : nullptr);
    view.close();
    ordered_json summary = summarize(problem, p, other.get());
    summary["start_up_s"] = start_up_s;
    summary["peak_rss_mib"] = peak_rss_mib();
    summary["seed"] = options.seed;
    summary["interrupted"] = stop.load();
    summary["findings"] = reporter.ids();
    summary["out"] = folder.path();
    if (!retraining.empty()) summary["retraining"] = export_retraining(reporter, model);
    folder.write_json("summary.json", summary);
    counted = p;
    return summary;
  }

  // For a terminal; the exit status.
  int print() {
    const ordered_json summary = run(terminal_session());
    if (common.json) {
      std::cout << summary.dump(2) << "\n";
    } else {
      print_diff(counted, summary, summary["images_misread"]);
    }
    return counted.differences + counted.not_finite + counted.disagreements > 0 ? kFound
                                                                                : kNothingFound;
  }

  // And what follows from some options for others.
  void check_usage() {
    if (integer) options.limits.grid = options.limits.grid > 0. ? options.limits.grid : 1.;
    GRAPESHOT_CHECK(per_image >= 1, kInvalidArgument, "--per-image must be at least 1");
    if (!files.stats.empty()) {
      GRAPESHOT_CHECK(std::filesystem::exists(files.stats), kNotFound, files.stats,
                      ": no such file");
    }
    if (!options.transform.empty()) {
      options.limits.l2 = 0.;
      options.strategy = "none";  // nothing climbs
    }
    diff::check_options(options);
  }

  // [N, D], checked.
  at::Tensor images_of(const Problem& problem) {
    std::vector<at::Tensor> rows;
    for (const ProblemInstance& each : problem.instances) rows.push_back(each.original);
    at::Tensor images = at::stack(rows);
    check_range(options.limits, images, files.data);
    if (!options.transform.empty()) {
      const Model& model = *problem.models[0].model;
      diff::check_images(model.input_shape(), model.name());
    }
    return images;
  }

  void note_undriven(const Problem& problem, const Session& session) const {
    for (const ProblemModel& each : problem.models) {
      if (options.strategy == "none" || each.model->has_joint_gradient()) continue;
      // A model without layers has none to drive.
      if (each.model->taps().empty()) continue;
      session.note(each.path +
                   ": parts of it run row by row, so that --strategy drives no neurons");
    }
  }

  // Before the run: afterwards it would be too late to say that it cannot be made.
  void make_retraining_folder() const {
    namespace fs = std::filesystem;
    std::error_code failure;
    fs::create_directories(retraining, failure);
    GRAPESHOT_CHECK(!failure && fs::is_directory(retraining), kInvalidArgument, retraining,
                    ": cannot be made a folder");
    check_can_write((fs::path(retraining) / "X.npy").string());
  }

  // What run.json says.
  [[nodiscard]] ordered_json record_of(const Problem& problem, const diff::DiffOptions& said,
                                       const OtherRuntime* other) const {
    ordered_json record = {{"command", "diff"}, {"files", to_json(files)}};
    record.update(describe_files(problem));
    diff::describe(said, [&](std::string_view name, const auto& member, std::string_view) {
      record["options"][std::string(name)] = member;
    });
    if (!frozen.empty()) {
      record["options"]["frozen"] = frozen;
    }
    if (!against.empty()) record["options"]["against"] = against;
    if (other) record["options"]["reference_model"] = other->path();
    record["machine"] = describe_machine();
    return record;
  }

  // What was found, and at which speed.
  [[nodiscard]] ordered_json summarize(const Problem& problem, const diff::DiffProgress& p,
                                       const OtherRuntime* other) const {
    ordered_json summary = {{"command", "diff"}, {"model", problem.models[0].path}};
    for (size_t s = 1; s < problem.models.size(); ++s) {
      const ProblemModel& each = problem.models[s];
      summary["others"].push_back({{"model", each.path}, {"variant", each.variant}});
    }
    summary.update(diff_counts(p));
    if (other) {
      summary["runtimes"] = {{"onnxruntime", other->version()},
                             {"reference_model", other->path()},
                             {"tolerance", options.tolerance},
                             {"disagreements", p.disagreements},
                             {"within_rounding", p.undecided}};
    }
    if (options.as_published) {
      summary["as_published"] = true;
      summary["mean_l2_as_published"] = mean(p.published_l2_sum, p.differing);
      summary["would_not_pass"] = p.would_not_pass;
      summary["would_not_pass_because"] = {{"predicted_as_the_image", p.as_image},
                                           {"past_a_limit", p.past_limits},
                                           {"within_rounding", p.within_rounding}};
    }
    if (!options.transform.empty()) summary["candidates_dropped"] = p.dropped;
    summary["images_misread"] = problem.misread;
    summary["coverage_of_images"] = by_name(p.before);
    const double seconds = std::max(p.seconds, 1e-9);
    summary["candidates_per_s"] = static_cast<double>(p.candidates) / seconds;
    summary["differences_per_s"] = static_cast<double>(p.differences) / seconds;
    summary["seconds"] = p.seconds;
    return summary;
  }

  // ONNX Runtime, where it is what the model is compared with.
  [[nodiscard]] std::unique_ptr<OtherRuntime> other_runtime(const Problem& problem) const {
    const std::vector<std::string_view> names = split_at(',', against);
    const bool wanted = std::ranges::find(names, kOnnxRuntime) != names.end();
    GRAPESHOT_CHECK(wanted || reference_model.empty(), kInvalidArgument,
                    "--reference-model is what ONNX Runtime runs: it goes with --against "
                    "onnxruntime");
    if (!wanted) return nullptr;
    if (reference_model.empty()) (void)need_onnx(*problem.models[0].model, "ONNX Runtime");
    GRAPESHOT_CHECK(names.size() == 1 && others.empty(), kInvalidArgument,
                    "--against onnxruntime compares one model, without others or variants");
    const std::string place =
        reference_model.empty() ? problem.models[0].path : absolute_path(reference_model);
    return std::make_unique<OtherRuntime>(*problem.models[0].model, place);
  }

  // The model, the other ones, and its own variants.
  std::vector<const Model*> add_others(Problem& problem, const GivenModels& given) const {
    const std::vector<int64_t> sizes = input_shape(files.shape, files.data);
    for (const std::string& path : others) {
      const std::string place = absolute_path(path);
      problem.models.push_back({place, sha256_file(place), open_model(place, sizes, given), ""});
    }
    const std::string path = problem.models[0].path, sha256 = problem.models[0].sha256;
    for (const std::string_view name : split_at(',', against)) {
      if (name == kOnnxRuntime) continue;
      (void)need_onnx(*problem.models[0].model, "a variant of its weights");
      problem.models.push_back({path, sha256, onnx::load_variant(path, name), std::string(name)});
    }
    std::vector<const Model*> models;
    for (const ProblemModel& each : problem.models) models.push_back(each.model.get());
    return models;
  }

  // Labelled arrays for training: every difference with the class of its image.
  ordered_json export_retraining(const Reporter& reporter, const Model& model) const {
    namespace fs = std::filesystem;
    const auto n = std::ssize(reporter.found());
    at::Tensor x = at::empty({n, model.inputs()}), y = at::empty({n});
    for (int64_t i = 0; i < n; ++i) {
      const diff::Difference& d = reporter.found()[static_cast<size_t>(i)];
      x[i].copy_(d.x);
      y[i] = static_cast<float>(d.before);
    }
    std::vector<int64_t> shape = model.input_shape();
    if (!shape.empty() && shape[0] == 1) {
      shape[0] = n;
    } else {
      shape.insert(shape.begin(), n);
    }
    write_tensor((fs::path(retraining) / "X.npy").string(), x.reshape(shape));
    write_tensor((fs::path(retraining) / "y.npy").string(), y);
    return {{"folder", retraining}, {"inputs", n}};
  }
};

// Options of steps and of their limits say nothing of transformations.
void refuse_with_transform(const CLI::App& app, const DiffCommand& command) {
  if (command.options.transform.empty()) return;
  for (const char* name :
       {"--frozen", "--top-k", "--neurons", "--strategy", "--constraint", "--objective", "--weight",
        "--lambda", "--step", "--l2", "--linf", "--l0", "--pixels", "--snr", "--smooth"}) {
    GRAPESHOT_CHECK(
        app.get_option(name)->count() == 0, kInvalidArgument, name,
        " does not go with --transform: --free-share and --change-share are its limits");
  }
}

// What depends on which options were given.
void settle(DiffCommand& command, const CLI::App& app) {
  // A budget of candidates alone is not cut short by the default number of seconds.
  if (command.options.candidates > 0 && app.get_option("--seconds")->count() == 0) {
    command.options.seconds = 0.;
  }
  if (command.against == kOnnxRuntime && !command.options.as_published &&
      app.get_option("--objective")->count() == 0) {
    command.options.objective = "boundary";
  }
  refuse_with_transform(app, command);
}

std::shared_ptr<DiffCommand> declare(CLI::App& app) {
  auto command = std::make_shared<DiffCommand>();
  app.add_option("MODEL", command->files.model, kModelHelp)->required();
  add_shape_option(app, command->files.shape);
  app.add_option("OTHER", command->others,
                 "More models of the same inputs and classes: inputs on which they do not agree");
  app.add_option("--against", command->against,
                 "Variants of MODEL's weights that it is compared with, joined by commas: float16, "
                 "bfloat16, int8, pruned; or onnxruntime: what that computes");
  app.add_option("--reference-model", command->reference_model,
                 "The file that --against onnxruntime runs there (default MODEL)");
  add_data_options(app, command->files, "Images or other inputs")->required();
  app.add_flag("--misclassified", command->files.misclassified,
               "Also inputs that the model does not predict as labelled");
  app.add_option("--out", command->out, "Run folder (default grapeshot-out/<time>-<model>)");
  app.add_option("--per-image", command->per_image, "Findings written of one image at most")
      ->capture_default_str();
  app.add_option(
      "--frozen", command->frozen,
      "Inputs that never change: a file of an input's size, 1 for them, else 0; or names "
      "of columns, joined by commas");
  app.add_flag("--integer", command->integer, "Inputs are whole numbers, or multiples of --grid");
  app.add_option("--export-retraining", command->retraining,
                 "Folder for all differences as arrays to train with: X.npy, y.npy");
  app.add_option("--stats", command->files.stats,
                 "Reference statistics for --criterion and --criteria");
  diff::describe(command->options, [&](std::string_view name, auto& member, std::string_view help) {
    add_described(app, name, member, help);
  });
  add_common_options(app, command->common);
  add_screen_option(app, command->common);
  return command;
}

}  // namespace

Action declare_diff(CLI::App& app) {
  return [command = declare(app), &app] {
    settle(*command, app);
    return command->print();
  };
}

Call declare_diff_call(CLI::App& app) {
  return [command = declare(app), &app](const Session& session) {
    settle(*command, app);
    return command->run(session);
  };
}

}  // namespace grapeshot::cli
