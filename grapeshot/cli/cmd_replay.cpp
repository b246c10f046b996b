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

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/judgement.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// A finding as its folder tells it.
struct Recorded {
  std::string folder, model, model_sha256, spec, spec_sha256;
  std::optional<double> margin;  ///< nothing when it was not finite
  std::vector<double> x;
};

struct Outcome {
  bool confirmed = false;
  std::string why;
  ordered_json json = ordered_json::object();
};

Recorded read_finding(const fs::path& folder) {
  const std::string path = (folder / "finding.json").string();
  const nlohmann::json file = read_json(path);
  const auto text = [&](const char* key) { return json_field<std::string>(file, key, path); };
  Recorded out{.folder = folder.string(),
               .model = text("model"),
               .model_sha256 = text("model_sha256"),
               .spec = text("spec"),
               .spec_sha256 = text("spec_sha256"),
               .margin = {},
               .x = {}};
  const auto margin = json_field<nlohmann::json>(file, "margin", path);
  if (margin.is_number()) out.margin = margin.get<double>();
  // A property of the finding's own moves with its folder.
  const fs::path own = folder / "property.vnnlib";
  if (!fs::exists(out.spec) && fs::exists(own)) out.spec = own.string();
  out.x = read_npy((folder / "input.npy").string()).values;
  return out;
}

// `path` is a finding or a run: the folders of its findings, by name.
std::vector<fs::path> finding_folders(const std::string& path) {
  std::error_code ignored;
  fs::path place = path;
  if (place.filename() == "finding.json") place = fs::absolute(place).parent_path();
  GRAPESHOT_CHECK(fs::exists(place, ignored), kNotFound, path, ": no such folder");
  if (fs::exists(place / "finding.json", ignored)) return {place};
  GRAPESHOT_CHECK(fs::is_directory(place / "findings", ignored), kInvalidArgument, path,
                  ": neither a run folder (findings/ in it) nor a finding (finding.json in it)");
  std::vector<fs::path> out;
  for (const fs::directory_entry& each : fs::directory_iterator(place / "findings")) {
    // A name with a dot is a finding that was being written when its process ended.
    if (each.is_directory() && !each.path().filename().string().starts_with('.')) {
      out.push_back(each.path());
    }
  }
  std::ranges::sort(out);
  return out;
}

class Replayer {
 public:
  Outcome replay(const Recorded& finding) {
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

  void judge(const Recorded& finding, Outcome& out) {
    auto& model = models_[finding.model];
    if (!model) model = onnx::load_model(finding.model);
    auto spec = specs_.find(finding.spec);
    if (spec == specs_.end()) {
      spec = specs_.emplace(finding.spec, read_vnnlib(finding.spec)).first;
    }
    check_fits(*model, spec->second, finding.spec);
    const Judgement judgement = judge_witness(*model, spec->second, finding.x);
    out.json = to_json(judgement, spec->second);
    out.confirmed = judgement.holds;
    out.why = judgement.why;
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

  std::map<std::string, std::string> sha256_;
  std::map<std::string, std::unique_ptr<onnx::OnnxModel>> models_;
  std::map<std::string, Property> specs_;
};

struct ReplayCommand {
  std::vector<std::string> paths;
  bool json = false, quiet = false;

  int run() const {
    // All of them before any is run: a damaged one is an error, not a verdict.
    std::vector<Recorded> findings;
    for (const std::string& path : paths) {
      for (const fs::path& folder : finding_folders(path)) findings.push_back(read_finding(folder));
    }
    Replayer replayer;
    size_t confirmed = 0;
    ordered_json rows = ordered_json::array();
    for (const Recorded& finding : findings) {
      const Outcome outcome = replayer.replay(finding);
      confirmed += outcome.confirmed ? 1 : 0;
      const std::string id = fs::path(finding.folder).filename().string();
      if (json) {
        ordered_json& row = rows.emplace_back(ordered_json{{"id", id}, {"path", finding.folder}});
        row.update(outcome.json);
        row["confirmed"] = outcome.confirmed;
        row["why"] = outcome.why;
        row["recorded_margin"] = finding.margin ? ordered_json(*finding.margin) : ordered_json();
      } else if (!outcome.confirmed || !quiet) {
        std::cout << (outcome.confirmed ? "confirmed " : "NOT CONFIRMED ") << id << ": "
                  << outcome.why << std::endl;
      }
    }
    if (json) {
      const ordered_json out = {{"command", "replay"},
                                {"findings", findings.size()},
                                {"confirmed", confirmed},
                                {"results", rows}};
      std::cout << out.dump(2) << "\n";
    } else {
      std::cout << confirmed << " of " << findings.size() << " findings confirmed\n";
    }
    return confirmed == findings.size() ? kNothingFound : kFound;
  }
};

}  // namespace

Action declare_replay(CLI::App& app) {
  auto command = std::make_shared<ReplayCommand>();
  app.add_option("FINDING", command->paths, "Finding folders, or run folders: all their findings")
      ->required();
  app.add_flag("--json", command->json, "One JSON object on stdout");
  app.add_flag("--quiet", command->quiet, "Only what is not confirmed, and the count");
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
