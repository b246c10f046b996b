#include "grapeshot/cli/recorded_run_parts.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/other_runtime.h"
#include "grapeshot/cli/recorded_finding.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/core/spec.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/properties/specification.h"
#include "grapeshot/io/vnnlib.h"
#include "grapeshot/report/escape.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Kinds of finding that `diff` has besides.
constexpr std::string_view kPrediction = "prediction";

std::vector<float> read_floats(const fs::path& path, std::vector<int64_t>* shape = nullptr) {
  const NpyArray array = read_npy(path.string());
  if (shape != nullptr) *shape = array.shape;
  return {array.values.begin(), array.values.end()};
}

// Outputs of finding.json; null stands for what JSON has no number for.
std::vector<double> outputs(const json& file, const char* key, const std::string& path) {
  std::vector<double> out;
  if (!file.contains(key)) return out;
  const json& values = file[key];
  GRAPESHOT_CHECK(values.is_array(), kParse, path, ": '", key, "' is of the wrong type");
  for (const json& each : values) {
    GRAPESHOT_CHECK(each.is_number() || each.is_null(), kParse, path, ": '", key,
                    "' holds something else than numbers");
    out.push_back(each.is_null() ? NAN : each.get<double>());
  }
  return out;
}

std::string text_or(const json& file, const char* key, const std::string& path,
                    std::string_view otherwise = "") {
  return file.contains(key) ? json_field<std::string>(file, key, path) : std::string(otherwise);
}

// Tokens that a vocabulary names.
std::vector<std::string> token_notes(const json& file, const std::string& path) {
  std::vector<std::string> out;
  if (!file.contains("tokens")) return out;
  for (const json& each : file["tokens"]) {
    const auto was = json_field<std::string>(each, "was", path);
    const bool dropped = !each.contains("is") || each["is"].is_null();
    out.push_back(
        str("token ", json_field<int64_t>(each, "token", path), ": ", was,
            dropped ? " was dropped" : " → " + json_field<std::string>(each, "is", path)));
  }
  return out;
}

}  // namespace

size_t instance_of(const fs::path& folder, size_t instances) {
  const std::string name = folder.filename().string();
  size_t out = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), out);
  GRAPESHOT_CHECK(error == std::errc() && end != name.data() && out < instances, kParse,
                  folder.string(), ": its name says no instance of this run, which has ",
                  instances);
  return out;
}

report::Finding read_reported(const fs::path& folder, const report::Run& run, bool inputs) {
  const std::string path = (folder / "finding.json").string();
  const json file = read_json(path);
  report::Finding out;
  out.id = folder.filename().string();
  out.folder = folder.string();
  out.instance = instance_of(folder, run.instances.size());
  const auto margin = json_field<json>(file, "margin", path);
  if (margin.is_number()) out.margin = margin.get<double>();
  out.violated = text_or(file, "violated", path);
  out.words = text_or(file, "words", path);
  out.notes = token_notes(file, path);
  out.pair = file.contains("second_outputs");
  out.after = outputs(file, out.pair ? "second_outputs" : "outputs", path);
  out.before = outputs(file, out.pair ? "first_outputs" : "original_outputs", path);
  out.property = text_or(file, "property", path, "specification");
  out.network = text_or(file, out.pair ? "network" : "model", path);
  if (run.command == "diff") {
    out.property = text_or(file, "kind", path, kPrediction);
    out.not_finite = out.property == kNotFinite;
    if (out.property == kRuntimes) {
      out.no_test = "two runtimes disagree on it, which one of them cannot tell";
    }
  } else {
    out.mutation = text_or(file, "mutation", path);
  }
  const std::string variant = text_or(file, "variant", path);
  if (!variant.empty())
    out.no_test = "it is about weights as " + variant + ", which are in no file";
  if (inputs) {
    const std::string x = (folder / (out.pair ? "second.npy" : "input.npy")).string();
    out.input = read_floats(x, &out.shape);
    out.original = read_floats(folder / (out.pair ? "first.npy" : "original.npy"));
    GRAPESHOT_CHECK(out.input.size() == out.original.size(), kParse, x,
                    ": is of another size than what it is compared with");
  }
  return out;
}

void read_constraints(report::Finding& finding) {
  if (!finding.no_test.empty()) return;
  const fs::path folder = finding.folder;
  finding.witness = read_floats(folder / "input.npy");
  const RecordedFinding recorded = read_finding(folder);
  const bool own = properties::is_specification(recorded.spec);
  const std::string spec = own ? (folder / "region.vnnlib").string() : recorded.spec;
  try {
    finding.constraints = read_vnnlib(spec);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    finding.no_test = error.what();
    return;
  }
  if (finding.constraints.inputs != std::ssize(finding.witness)) {
    finding.no_test = spec + " has another number of inputs";
  }
}

std::string summary_of_kind(const std::string& name) {
  for (const OutputKind& each : output_kinds()) {
    if (each.name == name) return std::string(each.summary);
  }
  for (const properties::Kind& each : properties::kinds()) {
    if (each.name == name) return std::string(each.summary);
  }
  if (name == kPrediction) return "Another class is predicted than for the original.";
  if (name == kNotFinite) return "An output is NaN or infinite.";
  if (name == kRuntimes) return "ONNX Runtime computes something else.";
  return {};
}

void add_coverage(report::Run& run, const std::string& name, double seconds, double value) {
  auto curve = std::ranges::find(run.coverage, name, &report::Curve::name);
  if (curve == run.coverage.end()) {
    const auto all = criteria();
    const auto row = std::ranges::find(all, name, &CriterionRow::name);
    run.coverage.push_back({name, row != all.end() && row->share, {}});
    curve = run.coverage.end() - 1;
  }
  curve->points.emplace_back(seconds, value);
}

void add_facts(const json& from, std::initializer_list<const char*> keys, report::Run& run) {
  for (const char* key : keys) {
    if (!from.is_object() || !from.contains(key)) continue;
    const json& value = from[key];
    std::string text;
    if (value.is_string()) text = value.get<std::string>();
    if (value.is_number_float()) text = report::number(value.get<double>());
    if (value.is_number_integer()) text = value.dump();
    std::string label = key;
    std::ranges::replace(label, '_', ' ');
    if (!text.empty()) run.facts.emplace_back(label, text);
  }
}

void read_options(const json& file, const std::string& path, report::Run& run) {
  const json machine = file.value("machine", json::object());
  run.version = text_or(machine, "grapeshot", path);
  constexpr size_t kMostModels = 8;
  for (size_t m = 0; m < run.models.size() && m < kMostModels; ++m) {
    run.facts.emplace_back("model", run.models[m].path);
  }
  if (run.models.size() > kMostModels) {
    run.facts.emplace_back("model", str("and ", run.models.size() - kMostModels, " more"));
  }
  add_facts(file, {"mode"}, run);
  add_facts(file.value("options", json::object()),
            {"seconds", "seed", "threads", "mutations", "schedule", "criterion", "criteria",
             "strategy", "constraint", "transform"},
            run);
  add_facts(machine, {"processor", "libtorch"}, run);
}

}  // namespace grapeshot::cli
