// grapeshot/report/sarif.cpp: SARIF 2.1.0 as GitHub's code scanning takes it: a rule per kind of
// property, a result per broken instance at its specification's file, or its model's.
#include <filesystem>
#include <map>

#include "grapeshot/base/error.h"
#include "grapeshot/report/escape.h"
#include "grapeshot/report/formats.h"

namespace grapeshot::report {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostResults = 5000;  // GitHub keeps no more of a run

std::string rule_id(const std::string& property) {
  return "grapeshot/" + property;
}

ordered_json rules(const Run& run) {
  ordered_json out = ordered_json::array();
  for (const PropertyKind& each : run.properties) {
    out.push_back({{"id", rule_id(each.name)},
                   {"shortDescription", {{"text", "A violated property: " + each.name}}},
                   {"fullDescription", {{"text", each.summary}}},
                   {"defaultConfiguration", {{"level", "error"}}}});
  }
  return out;
}

// A path below the working folder is relative to it, so that it means the same in every checkout.
ordered_json location(const Run& run, const Instance& instance) {
  const std::string path = instance.spec.empty() ? run.models[instance.model].path : instance.spec;
  const std::string uri = uri_of(path, std::filesystem::current_path().string());
  ordered_json artifact = {{"uri", uri}};
  if (!uri.starts_with("file:")) artifact["uriBaseId"] = "%SRCROOT%";
  return {{"physicalLocation", {{"artifactLocation", artifact}, {"region", {{"startLine", 1}}}}}};
}

ordered_json result(const Run& run, const Finding& finding) {
  const Instance& instance = run.instances[finding.instance];
  const std::string model = run.models[instance.model].name();
  std::string text = str(model, ", ", instance.name, ": ", describe(run, finding));
  if (finding.margin) text += str(", margin ", number(*finding.margin));
  // The same instance of the same model, in whatever folder and after whatever training.
  const std::string fingerprint =
      sha256_base64(str(model, "\n", instance.name, "\n", finding.property));
  return {{"ruleId", rule_id(finding.property)},
          {"level", "error"},
          {"message", {{"text", text}}},
          {"locations", {location(run, instance)}},
          {"partialFingerprints", {{"grapeshotInstance/v1", fingerprint}}},
          {"occurrenceCount", std::max<int64_t>(1, instance.findings)},
          {"properties",
           {{"witness", finding.folder + "/input.npy"}, {"replay", replay_line(finding)}}}};
}

}  // namespace

std::string write_sarif(const Run& run) {
  ordered_json results = ordered_json::array(), notes = ordered_json::array();
  const std::vector<size_t> deepest = deepest_of_each(run);
  for (size_t i = 0; i < deepest.size() && i < kMostResults; ++i) {
    results.push_back(result(run, run.findings[deepest[i]]));
  }
  const auto note = [&](const std::string& text) {
    notes.push_back({{"level", "warning"}, {"message", {{"text", text}}}});
  };
  if (!caveat(run).empty()) note(caveat(run));
  if (deepest.size() > kMostResults) {
    note(str("Only ", kMostResults, " of ", deepest.size(), " broken instances are listed."));
  }
  ordered_json invocation = {{"executionSuccessful", run.ending == Ending::kComplete}};
  if (!notes.empty()) invocation["toolExecutionNotifications"] = notes;
  const ordered_json driver = {
      {"name", "Grapeshot"}, {"semanticVersion", run.version}, {"rules", rules(run)}};
  const ordered_json out = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                            {"version", "2.1.0"},
                            {"runs",
                             {{{"tool", {{"driver", driver}}},
                               {"automationDetails", {{"id", "grapeshot/" + run.command + "/"}}},
                               {"invocations", {invocation}},
                               {"results", results}}}}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace grapeshot::report
