// grapeshot/cli/cmd_replay.cpp: `grapeshot replay`.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/calls.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/judgement.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/other_runtime.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/recorded_finding.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/diff/constraint.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/variant.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Outcome {
  bool confirmed = false;
  std::string why;
  ordered_json json = ordered_json::object();
};

class Replayer {
 public:
  explicit Replayer(const GivenModels& given) : given_(given) {}

  Outcome replay(const RecordedFinding& finding) {
    Outcome out;
    try {
      out.why = changed(finding.model, finding.model_sha256);
      if (out.why.empty()) out.why = changed(finding.spec, finding.spec_sha256);
      if (out.why.empty()) judge(finding, out);
    } catch (const Error& error) {
      // A model or specification that cannot be read any more.
      if (error.code() == ErrorCode::kInternal) throw;
      out.why = error.what();
    }
    return out;
  }

 private:
  // Why the file is not the one that the finding is about, or "".
  std::string changed(const std::string& path, const std::string& sha256) {
    auto known = sha256_.find(path);
    if (known == sha256_.end()) known = sha256_.emplace(path, sha256_file(path)).first;
    if (known->second == sha256) return {};
    return path + ": changed since the finding was made (its SHA-256 differs)";
  }

  void judge(const RecordedFinding& finding, Outcome& out) {
    if (!specs_.contains(finding.spec) && needs_networks(finding.spec)) {
      for (const auto& [path, sha256] : finding.spec_files) {
        out.why = changed(path, sha256);
        if (!out.why.empty()) return;
      }
      for (const auto& [name, network] : finding.networks) {
        out.why = changed(network.path, network.sha256);
        if (!out.why.empty()) return;
      }
      const Problem& problem = load(finding);
      compare(finding, *problem.models[0].model, on_grid_of(finding, problem.instances[0]), out);
      return;
    }
    const std::shared_ptr<const Model> model = load(finding.model, finding.variant, finding.shape);
    auto spec = specs_.find(finding.spec);
    if (spec == specs_.end()) {
      spec = specs_.emplace(finding.spec, ProblemInstance{}).first;
      spec->second.property = read_vnnlib(finding.spec);
    }
    check_fits(*model, spec->second.property, finding.spec);
    compare(finding, *model, on_grid_of(finding, spec->second), out);
    if (out.confirmed && !finding.words.empty()) out.why = str(finding.words, "; ", out.why);
  }

  // With the grid that the run kept to.
  static ProblemInstance on_grid_of(const RecordedFinding& finding, ProblemInstance instance) {
    keep_to_grid(instance.property, finding.grid, finding.spec);
    return instance;
  }

  // The model and the specification say what the finding says.
  void compare(const RecordedFinding& finding, const Model& model, const ProblemInstance& instance,
               Outcome& out) {
    const Property& property = instance.property;
    const Judgement judgement =
        judge_witness(model, property, finding.x, words_of(instance), input_names(instance));
    out.json = to_json(judgement, property);
    out.confirmed = judgement.holds;
    out.why = judgement.why;
    if (finding.not_finite) {
      judge_not_finite(model, judgement, finding, out);
      return;
    }
    if (finding.runtimes) {
      judge_runtimes(model, judgement, finding, out);
      return;
    }
    if (judgement.holds) check_others(finding, property, out);
    if (judgement.holds && !out.confirmed) return;
    if (judgement.holds && !keeps_to_limits(model, finding, out)) return;
    if (!judgement.holds || !finding.margin) return;
    // Another machine may add in another order.
    const Confirmation& c = judgement.confirmation;
    const double tolerance = std::max(2. * c.rounding, 1e-5 * (1. + std::abs(*finding.margin)));
    const double difference = std::abs(c.verdict32.margin - *finding.margin);
    if (difference <= tolerance) return;
    out.confirmed = false;
    out.why =
        str("the margin was ", *finding.margin, " when it was found, it is ", c.verdict32.margin);
  }

  // Whether it does; says what it does not keep to.
  static bool keeps_to_limits(const Model& model, const RecordedFinding& finding, Outcome& out) {
    if (!finding.limits) return true;
    const at::Tensor x = at::tensor(finding.x, at::kDouble);
    const at::Tensor original = at::tensor(finding.original, at::kDouble);
    if (finding.limits->l2 > 0.) {
      out.json["l2_share"] = number(((x - original).norm() / original.norm()).item<double>());
    }
    diff::check_fits({}, *finding.limits, model.input_shape(), model.name());
    out.why = diff::broken_limit(*finding.limits, model.input_shape(), x, original);
    if (out.why.empty() && finding.lineage) {
      const RecordedLineage& of = *finding.lineage;
      diff::check_images(model.input_shape(), model.name());
      out.why =
          diff::broken_lineage(of.lineage, original, x, model.input_shape(), of.range, of.bound);
    }
    if (out.why.empty()) {
      out.why = out.json["why"];
      return true;
    }
    out.confirmed = false;
    return false;
  }

  // An output that is NaN or infinite, on an input that may be.
  static void judge_not_finite(const Model& model, const Judgement& judgement,
                               const RecordedFinding& finding, Outcome& out) {
    const auto is_finite = [](double y) { return std::isfinite(y); };
    if (!judgement.evaluated || judgement.exit || judgement.not_float32 > 0) return;
    const auto& y = judgement.confirmation.y32;
    const auto lost = std::ranges::find_if_not(y, is_finite);
    if (lost == y.end()) {
      out.why = "all outputs are finite";
      return;
    }
    if (!keeps_to_limits(model, finding, out)) return;
    out.confirmed = true;
    out.why = str("Y_", lost - y.begin(), " is ", std::isnan(*lost) ? "NaN" : "infinite");
  }

  // Two runtimes that disagree on an input that may be.
  void judge_runtimes(const Model& model, const Judgement& judgement,
                      const RecordedFinding& finding, Outcome& out) {
    out.confirmed = false;
    if (!judgement.evaluated || judgement.exit || judgement.not_float32 > 0) return;
    const RecordedRuntimes& of = *finding.runtimes;
    out.why = changed(of.reference_model, of.reference_model_sha256);
    if (!out.why.empty() || !keeps_to_limits(model, finding, out)) return;
    const OtherRuntime other(model, of.reference_model);
    const diff::RuntimeOracle oracle(
        model, [&](const at::Tensor& x) { return other.outputs(x); }, of.tolerance);
    const diff::Comparison comparison = oracle.compare(at::tensor(finding.x, at::kFloat));
    out.json["runtimes"] = to_json(comparison, of.tolerance, other);
    out.confirmed = comparison.disagree();
    out.why = describe(comparison, other);
  }

  std::shared_ptr<const Model> load(const std::string& path, const std::string& variant,
                                    const std::vector<int64_t>& shape) {
    std::shared_ptr<const Model>& model = models_[path + "\n" + variant];
    if (!model) {
      model = variant.empty() ? open_model(path, shape, given_) : onnx::load_variant(path, variant);
    }
    return model;
  }

  const Problem& load(const RecordedFinding& finding) {
    std::string key = finding.model + "\n" + finding.spec;
    for (const auto& [name, network] : finding.networks) key += "\n" + network.path;
    auto known = problems_.find(key);
    if (known == problems_.end()) {
      ProblemFiles files = files_of(finding);
      files.shape = (fs::path(finding.folder) / "input.npy").string();
      known = problems_.emplace(key, load_problem(files, given_)).first;
    }
    return known->second;
  }

  // Models that are said not to follow the finding's model.
  void check_others(const RecordedFinding& finding, const Property& property, Outcome& out) {
    for (const RecordedModel& other : finding.others) {
      std::string why = changed(other.path, other.sha256);
      if (why.empty()) {
        const Judgement judgement =
            judge_witness(*load(other.path, other.variant, finding.shape), property, finding.x);
        if (judgement.evaluated && !judgement.holds) continue;
        why = str(other.path, other.variant.empty() ? "" : " as ", other.variant,
                  ": predicts something else than on the original too");
      }
      out.confirmed = false;
      out.why = why;
      return;
    }
  }

  const GivenModels& given_;
  std::map<std::string, std::string> sha256_;
  std::map<std::string, std::shared_ptr<const Model>> models_;
  std::map<std::string, ProblemInstance> specs_;  // of VNN-LIB 1.0
  std::map<std::string, Problem> problems_;       // of JSON specifications and VNN-LIB 2.0
};

struct ReplayCommand {
  std::vector<std::string> paths;
  bool json = false, quiet = false;

  // `told` hears of each one.
  ordered_json run(const Session& session,
                   const std::function<void(const ordered_json&)>& told) const {
    // All of them before any is run: a damaged one is an error, not a verdict.
    std::vector<RecordedFinding> findings;
    for (const std::string& path : paths) {
      for (const fs::path& folder : finding_folders(path)) findings.push_back(read_finding(folder));
    }
    Replayer replayer(session.models);
    size_t confirmed = 0;
    ordered_json rows = ordered_json::array();
    for (const RecordedFinding& finding : findings) {
      const Outcome outcome = replayer.replay(finding);
      confirmed += outcome.confirmed ? 1 : 0;
      const std::string id = fs::path(finding.folder).filename().string();
      ordered_json& row = rows.emplace_back(ordered_json{{"id", id}, {"path", finding.folder}});
      row.update(outcome.json);
      row["confirmed"] = outcome.confirmed;
      row["why"] = outcome.why;
      row["recorded_margin"] = finding.margin ? ordered_json(*finding.margin) : ordered_json();
      told(row);
    }
    return {{"command", "replay"},
            {"findings", findings.size()},
            {"confirmed", confirmed},
            {"results", rows}};
  }

  // For a terminal; the exit status.
  int print() const {
    const auto tell = [this](const ordered_json& row) {
      const bool confirmed = row["confirmed"];
      if (json || (confirmed && quiet)) return;
      std::cout << (confirmed ? "confirmed " : "NOT CONFIRMED ") << row["id"].get<std::string>()
                << ": " << row["why"].get<std::string>() << std::endl;
    };
    const ordered_json out = run(terminal_session(), tell);
    if (json) {
      std::cout << out.dump(2) << "\n";
    } else {
      std::cout << out["confirmed"] << " of " << out["findings"] << " findings confirmed\n";
    }
    return out["confirmed"] == out["findings"] ? kNothingFound : kFound;
  }
};

std::shared_ptr<ReplayCommand> declare(CLI::App& app) {
  auto command = std::make_shared<ReplayCommand>();
  app.add_option("FINDING", command->paths, "Finding folders, or run folders: all their findings")
      ->required();
  app.add_flag("--json", command->json, "One JSON object on stdout");
  app.add_flag("--quiet", command->quiet, "Only what is not confirmed, and the count");
  return command;
}

}  // namespace

Action declare_replay(CLI::App& app) {
  return [command = declare(app)] { return command->print(); };
}

Call declare_replay_call(CLI::App& app) {
  return [command = declare(app)](const Session& session) {
    return command->run(session, [](const ordered_json&) {});
  };
}

}  // namespace grapeshot::cli
