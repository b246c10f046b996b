#include "grapeshot/cli/recorded_lineage.h"

#include <span>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/io/npy.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

diff::AppliedTransformation read_step(const nlohmann::json& of, const std::string& path) {
  diff::AppliedTransformation out;
  out.row = &diff::find_transformation(json_field<std::string>(of, "name", path));
  for (const diff::Parameter& each : std::span(out.row->parameters).first(out.row->count)) {
    out.parameters.push_back(json_field<double>(of, std::string(each.name).c_str(), path));
  }
  return out;
}

at::Tensor read_input(const fs::path& path, size_t inputs) {
  const NpyArray array = read_npy(path.string());
  GRAPESHOT_CHECK(array.values.size() == inputs, kParse, path.string(),
                  ": is of another size than input.npy");
  return at::tensor(array.values, at::kDouble);
}

}  // namespace

ordered_json lineage_json(const diff::Difference& difference, const at::Tensor& original,
                          const diff::DiffOptions& options) {
  const diff::Lineage& lineage = difference.lineage;
  ordered_json steps = ordered_json::array();
  for (const diff::AppliedTransformation& step : lineage.steps) {
    ordered_json& said = steps.emplace_back(ordered_json{{"name", step.row->name}});
    for (size_t p = 0; p < step.row->count; ++p) {
      said[std::string(step.row->parameters[p].name)] = step.parameters[p];
    }
  }
  const diff::Distance d = diff::lineage_distance(lineage, original, difference.x);
  return {{"steps", steps},
          {"changed", d.changed},
          {"largest_change", d.largest},
          {"free_share", options.validity.free_share},
          {"change_share", options.validity.change_share},
          {"low", options.limits.low},
          {"high", options.limits.high},
          {"grid", options.limits.grid}};
}

std::vector<std::pair<std::string, at::Tensor>> lineage_inputs(const diff::Lineage& lineage) {
  if (lineage.affine < 0) return {};
  return {{"before.npy", lineage.before}, {"reference.npy", lineage.reference}};
}

std::optional<RecordedLineage> read_lineage(const nlohmann::json& file, const fs::path& folder,
                                            size_t inputs) {
  if (!file.contains("lineage")) return std::nullopt;
  const std::string path = (folder / "finding.json").string();
  const auto of = json_field<nlohmann::json>(file, "lineage", path);
  const auto value = [&](const char* key) { return json_field<double>(of, key, path); };
  RecordedLineage out;
  out.bound = {value("free_share"), value("change_share")};
  out.range = {value("low"), value("high"), value("grid")};
  const auto steps = json_field<nlohmann::json>(of, "steps", path);
  GRAPESHOT_CHECK(steps.is_array() && !steps.empty(), kParse, path, ": its lineage has no steps");
  for (const nlohmann::json& each : steps) {
    out.lineage.steps.push_back(read_step(each, path));
    if (!out.lineage.steps.back().row->affine) continue;
    GRAPESHOT_CHECK(out.lineage.affine < 0, kParse, path,
                    ": its lineage has more than one affine step");
    out.lineage.affine = std::ssize(out.lineage.steps) - 1;
  }
  if (out.lineage.affine < 0) return out;
  out.lineage.before = read_input(folder / "before.npy", inputs);
  out.lineage.reference = read_input(folder / "reference.npy", inputs);
  return out;
}

}  // namespace grapeshot::cli
