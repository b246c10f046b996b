#include "grapeshot/cli/recorded_finding.h"

#include <algorithm>
#include <system_error>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/other_runtime.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/io/npy.h"

namespace grapeshot::cli {

namespace fs = std::filesystem;

RecordedFinding read_finding(const fs::path& folder) {
  const std::string path = (folder / "finding.json").string();
  const nlohmann::json file = read_json(path);
  const auto text = [&](const char* key) { return json_field<std::string>(file, key, path); };
  RecordedFinding out;
  out.folder = folder.string();
  out.model = text("model");
  out.model_sha256 = text("model_sha256");
  out.spec = text("spec");
  out.spec_sha256 = text("spec_sha256");
  if (file.contains("instance") && file["instance"].is_number_integer()) {
    out.instance = file["instance"];
  }
  const auto margin = json_field<nlohmann::json>(file, "margin", path);
  if (margin.is_number()) out.margin = margin.get<double>();
  // A property of the finding's own moves with its folder.
  for (const char* name : {kOwnVnnlib, kOwnJson}) {
    const fs::path own = folder / name;
    if (!fs::exists(out.spec) && fs::exists(own)) out.spec = own.string();
  }
  if (file.contains("grid")) out.grid = json_field<double>(file, "grid", path);
  NpyArray input = read_npy((folder / "input.npy").string());
  out.x = std::move(input.values);
  out.shape = std::move(input.shape);
  if (file.contains("words")) out.words = text("words");
  if (file.contains("spec_files")) {
    for (const nlohmann::json& each : file["spec_files"]) {
      out.spec_files.emplace_back(json_field<std::string>(each, "path", path),
                                  json_field<std::string>(each, "sha256", path));
    }
  }
  if (file.contains("networks")) {
    for (const nlohmann::json& each : file["networks"]) {
      out.networks.emplace_back(json_field<std::string>(each, "name", path),
                                RecordedModel{json_field<std::string>(each, "path", path),
                                              json_field<std::string>(each, "sha256", path), ""});
    }
  }
  if (file.contains("variant")) out.variant = text("variant");
  if (file.contains("others")) {
    for (const nlohmann::json& other : file["others"]) {
      out.others.push_back({json_field<std::string>(other, "model", path),
                            json_field<std::string>(other, "model_sha256", path),
                            json_field<std::string>(other, "variant", path)});
    }
  }
  out.not_finite = file.contains("kind") && text("kind") == kNotFinite;
  if (file.contains("kind") && text("kind") == kRuntimes) {
    const auto of = json_field<nlohmann::json>(file, "runtimes", path);
    GRAPESHOT_CHECK(of.is_object(), kParse, path, ": runtimes is no object");
    out.runtimes = {json_field<std::string>(of, "reference_model", path),
                    json_field<std::string>(of, "reference_model_sha256", path),
                    json_field<double>(of, "tolerance", path)};
  }
  if (file.contains("limits") || file.contains("l2_bound")) {
    out.limits = parse_limits(file, path);
    out.original = read_npy((folder / "original.npy").string()).values;
    GRAPESHOT_CHECK(out.original.size() == out.x.size(), kParse, (folder / "original.npy").string(),
                    ": is of another size than input.npy");
    out.lineage = read_lineage(file, folder, out.x.size());
  }
  return out;
}

ProblemFiles files_of(const RecordedFinding& finding) {
  ProblemFiles out;
  out.model = finding.model;
  out.specs = {finding.spec};
  if (!finding.networks.empty()) out.model.clear();
  for (const auto& [name, model] : finding.networks) {
    out.networks.push_back(str(name, "=", model.path));
  }
  return out;
}

nlohmann::ordered_json limits_json(const diff::Limits& limits) {
  nlohmann::ordered_json out = {{"l2", limits.l2},   {"linf", limits.linf},
                                {"l0", limits.l0},   {"pixels", limits.pixels},
                                {"snr", limits.snr}, {"smooth", limits.smooth}};
  const at::Tensor& frozen = limits.frozen;
  out["frozen"] = frozen.defined() ? frozen.sum().item<int64_t>() : 0;
  return out;
}

diff::Limits parse_limits(const nlohmann::json& file, const std::string& path) {
  diff::Limits out;
  if (file.contains("limits")) {
    const auto of = json_field<nlohmann::json>(file, "limits", path);
    GRAPESHOT_CHECK(of.is_object(), kParse, path, ": limits is no object");
    out.linf = json_field<double>(of, "linf", path);
    out.l0 = json_field<int64_t>(of, "l0", path);
    out.pixels = json_field<bool>(of, "pixels", path);
    out.snr = json_field<double>(of, "snr", path);
    out.smooth = json_field<double>(of, "smooth", path);
  }
  out.l2 = file.contains("l2_bound") ? json_field<double>(file, "l2_bound", path) : 0.;
  return out;
}

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

}  // namespace grapeshot::cli
