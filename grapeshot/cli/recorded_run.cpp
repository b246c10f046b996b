#include "grapeshot/cli/recorded_run.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/recorded_finding.h"
#include "grapeshot/cli/recorded_run_parts.h"
#include "grapeshot/io/file.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string file_of(const report::Run& run, const char* name) {
  return (fs::path(run.folder) / name).string();
}

// Models and instances of run.json.
void read_subjects(const json& file, const std::string& path, report::Run& run) {
  for (const json& each : json_field<json>(file, "models", path)) {
    run.models.push_back({json_field<std::string>(each, "path", path)});
  }
  if (!file.contains("instances")) return;
  for (const json& each : file["instances"]) {
    report::Instance instance;
    instance.model = static_cast<size_t>(json_field<int64_t>(each, "model", path));
    GRAPESHOT_CHECK(instance.model < run.models.size(), kParse, path, ": an instance is of model ",
                    instance.model, ", but there are ", run.models.size());
    instance.name = json_field<std::string>(each, "name", path);
    if (each.contains("path")) instance.spec = json_field<std::string>(each, "path", path);
    run.instances.push_back(std::move(instance));
  }
}

// The numbers behind the names, which may hold commas; std::nullopt for an empty field.
std::vector<std::optional<double>> last_fields(std::string_view line, size_t count) {
  std::vector<std::optional<double>> out(count);
  for (size_t i = count; i-- > 0;) {
    const size_t comma = line.rfind(',');
    if (comma == line.npos) return {};
    const std::string_view field = line.substr(comma + 1);
    double value = 0.;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (!field.empty() && (error != std::errc() || end != field.data() + field.size())) return {};
    if (!field.empty()) out[i] = value;
    line = line.substr(0, comma);
  }
  return out;
}

// Margins, candidates and times of instances.csv, which a run that was killed has not.
void read_instances_csv(report::Run& run) {
  const std::string path = file_of(run, "instances.csv");
  if (!fs::exists(path)) return;
  const std::string text = read_file(path);
  const std::string_view header = std::string_view(text).substr(0, text.find('\n'));
  const size_t of_data = header.ends_with(",row,eps,target") ? 3 : 0;
  size_t row = 0;
  for (const std::string_view line : split_at('\n', text)) {
    // findings, best margin, candidates, seconds to the first one
    const std::vector<std::optional<double>> fields = last_fields(line, 4 + of_data);
    if (fields.empty() || !fields[0]) continue;  // the header, or a part of a name with line breaks
    if (++row > run.instances.size()) break;
    report::Instance& instance = run.instances[row - 1];
    instance.best_margin = fields[1];
    if (fields[2]) instance.candidates = static_cast<int64_t>(*fields[2]);
    instance.seconds_to_first = fields[3];
  }
  GRAPESHOT_CHECK(row == run.instances.size(), kParse, path,
                  ": does not have one row for each of the run's ", run.instances.size(),
                  " instances");
}

// Curves of stats.jsonl. Of a long file every few lines are enough; the last one may be cut off.
void read_stats(report::Run& run) {
  constexpr size_t kMostLines = 2000;
  const std::string path = file_of(run, "stats.jsonl");
  if (!fs::exists(path)) return;
  const std::string text = read_file(path);
  const std::vector<std::string_view> lines = split_at('\n', text);
  const size_t step = lines.size() / kMostLines + 1;
  const char* broken = run.command == "diff" ? "images_with_differences" : "instances_falsified";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i % step != 0 && i + 1 < lines.size()) continue;
    const std::string where = str(path, ":", i + 1);
    const json line = json::parse(lines[i], nullptr, false);
    if (line.is_discarded() && i + 1 == lines.size() && !text.ends_with('\n')) break;
    GRAPESHOT_CHECK(line.is_object(), kParse, where, ": no JSON object");
    const auto seconds = json_field<double>(line, "seconds", where);
    run.seconds = std::max(run.seconds, seconds);
    run.broken.points.emplace_back(seconds, json_field<double>(line, broken, where));
    const json coverage = line.value("coverage", json::object());
    GRAPESHOT_CHECK(coverage.is_object(), kParse, where, ": 'coverage' is of the wrong type");
    for (const auto& [name, value] : coverage.items()) {
      add_coverage(run, name, seconds, json_field<double>(coverage, name.c_str(), where));
    }
  }
}

// summary.json, which a run has that ended by itself or was asked to.
void read_summary(report::Run& run) {
  const std::string path = file_of(run, "summary.json");
  if (!fs::exists(path)) {
    run.ending = report::Ending::kUnfinished;
    return;
  }
  const json summary = read_json(path);
  if (json_field<bool>(summary, "interrupted", path)) run.ending = report::Ending::kInterrupted;
  run.seconds = json_field<double>(summary, "seconds", path);
  const json coverage = json_field<json>(summary, "coverage", path);
  GRAPESHOT_CHECK(coverage.is_object(), kParse, path, ": 'coverage' is of the wrong type");
  for (const auto& [name, value] : coverage.items()) {
    add_coverage(run, name, run.seconds, json_field<double>(coverage, name.c_str(), path));
  }
  add_facts(summary,
            {"candidates", "inputs_checked", "violations", "distinct_violations", "borderline",
             "differences", "corpus_size", "start_up_s", "peak_rss_mib"},
            run);
}

// Where every first finding's time is known, that is exact; stats.jsonl has a line per second.
void settle_broken(report::Run& run) {
  std::vector<double> times;
  for (const report::Instance& each : run.instances) {
    if (each.broken() && each.seconds_to_first) times.push_back(*each.seconds_to_first);
  }
  const auto broken = static_cast<double>(run.falsified());
  if (!times.empty() && std::ssize(times) == run.falsified()) {
    std::ranges::sort(times);
    run.broken.points = {{0., 0.}};
    for (const double time : times) {
      run.broken.points.emplace_back(time, run.broken.points.back().second + 1.);
    }
  } else if (!run.broken.points.empty()) {
    run.broken.points.insert(run.broken.points.begin(), {0., 0.});
    run.broken.points.emplace_back(std::max(run.seconds, run.broken.points.back().first), broken);
  }
}

// Of every instance one before any second one, as their names begin with its number.
std::vector<fs::path> chosen(std::vector<fs::path> folders, int64_t most) {
  if (std::ssize(folders) <= most) return folders;
  std::map<std::string, int64_t> seen;
  std::vector<std::pair<int64_t, fs::path>> ranked;
  for (const fs::path& each : folders) {
    const std::string name = each.filename().string();
    ranked.emplace_back(seen[name.substr(0, name.find('-'))]++, each);
  }
  std::ranges::stable_sort(ranked, std::less<>(), &std::pair<int64_t, fs::path>::first);
  folders.clear();
  for (const auto& [rank, path] : std::span(ranked).first(static_cast<size_t>(most))) {
    folders.push_back(path);
  }
  std::ranges::sort(folders);
  return folders;
}

void read_findings(report::Run& run, const RunParts& parts) {
  const std::vector<fs::path> folders = finding_folders(run.folder);
  run.findings_in_folder = std::ssize(folders);
  // The number of an instance begins the name, so that what is not read counts as well.
  for (const fs::path& folder : folders) {
    const size_t instance = instance_of(folder, run.instances.size());
    ++run.instances[instance].findings;
  }
  std::set<std::string> kinds;
  for (const fs::path& folder : chosen(folders, parts.most_findings)) {
    run.findings.push_back(read_reported(folder, run, parts.inputs));
    kinds.insert(run.findings.back().property);
  }
  for (const std::string& each : kinds) run.properties.push_back({each, summary_of_kind(each)});
  if (!parts.constraints) return;
  for (const size_t f : deepest_of_each(run)) read_constraints(run.findings[f]);
}

}  // namespace

report::Run read_run(const std::string& path, const RunParts& parts) {
  const std::string run_file = (fs::path(path) / "run.json").string();
  GRAPESHOT_CHECK(fs::is_directory(path) && fs::exists(run_file), kNotFound, path,
                  ": no run folder (no run.json in it)");
  report::Run run;
  run.folder = fs::absolute(path).lexically_normal().string();
  if (run.folder.ends_with('/')) run.folder.pop_back();
  const json file = read_json(run_file);
  run.command = json_field<std::string>(file, "command", run_file);
  GRAPESHOT_CHECK(run.command == "fuzz" || run.command == "diff", kInvalidArgument, run_file,
                  ": a run of `", printable(run.command), "`; reports are of `fuzz` and `diff`");
  read_subjects(file, run_file, run);
  read_options(file, run_file, run);
  read_stats(run);
  read_instances_csv(run);
  read_findings(run, parts);
  read_summary(run);
  settle_broken(run);
  return run;
}

}  // namespace grapeshot::cli
