#include "grapeshot/cli/vnncomp_report.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "grapeshot/base/error.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

double median(std::vector<double> v) {
  if (v.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(v);
  return v[v.size() / 2];
}

}  // namespace

void Line::add(const Task& t, const Outcome& o) {
  const bool broken = o.answer == "sat";
  ++instances;
  errors += o.answer == "error";
  if (t.expected == "sat") {
    ++sat;
    sat_broken += broken;
  } else if (t.expected == "unsat") {
    ++unsat;
    unsat_broken += broken;
  } else {
    ++unknown;
    unknown_broken += broken;
  }
  if (!broken) return;
  wall.push_back(o.wall_s);
  search.push_back(o.wall_s - o.start_up_s);
  if (t.best_s && t.expected == "sat") {
    ++timed;
    faster += o.wall_s < *t.best_s;
  }
}

ordered_json Line::to_json() const {
  const auto number = [](double v) { return std::isnan(v) ? ordered_json() : ordered_json(v); };
  return {{"instances", instances},
          {"sat", sat},
          {"sat_broken", sat_broken},
          {"unsat", unsat},
          {"unsat_broken", unsat_broken},
          {"unknown", unknown},
          {"unknown_broken", unknown_broken},
          {"errors", errors},
          {"median_wall_s", number(median(wall))},
          {"median_search_s", number(median(search))},
          {"faster_than_best", faster},
          {"compared_with_best", timed}};
}

VnncompReport make_report(const std::vector<Task>& tasks, const std::vector<Outcome>& outcomes) {
  VnncompReport report;
  report.missed = report.broken = report.disagreements = ordered_json::array();
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task& t = tasks[i];
    const Outcome& o = outcomes[i];
    if (o.answer == "not run" || o.answer == "interrupted") continue;
    report.lines[t.category].add(t, o);
    report.total.add(t, o);
    const ordered_json margin = std::isnan(o.margin) ? ordered_json() : ordered_json(o.margin);
    const ordered_json entry = {{"category", t.category}, {"onnx", t.model},    {"vnnlib", t.spec},
                                {"expected", t.expected}, {"answer", o.answer}, {"margin", margin},
                                {"witness", o.witness}};
    const bool broken = o.answer == "sat";
    if (broken && t.expected == "unsat") report.disagreements.push_back(entry);
    if (broken && t.expected != "unsat" && t.expected != "sat") report.broken.push_back(entry);
    if (!broken && t.expected == "sat") report.missed.push_back(entry);
  }
  return report;
}

ordered_json to_json(const VnncompReport& report) {
  ordered_json out = {
      {"command", "vnncomp"}, {"seconds", report.seconds}, {"interrupted", report.interrupted}};
  out["total"] = report.total.to_json();
  out["categories"] = ordered_json::object();
  for (const auto& [category, line] : report.lines) out["categories"][category] = line.to_json();
  out["missed"] = report.missed;
  out["unknown_broken"] = report.broken;
  out["unsat_broken"] = report.disagreements;
  out["witnesses"] = report.witnesses;
  return out;
}

void print(const VnncompReport& report) {
  const auto row = [](const char* name, const Line& l) {
    std::printf("%-42s %4" PRId64 " of %4" PRId64 "  %4" PRId64 " of %4" PRId64 "  %4" PRId64
                " of %4" PRId64 " %7.2f %7.2f  %4" PRId64 " of %4" PRId64 "%s\n",
                name, l.sat_broken, l.sat, l.unknown_broken, l.unknown, l.unsat_broken, l.unsat,
                median(l.wall), median(l.search), l.faster, l.timed,
                l.errors > 0 ? str("  ", l.errors, " errors").c_str() : "");
  };
  std::printf("%-42s %12s  %12s  %12s %7s %7s  %12s\n", "broken of those known to be", "sat",
              "unknown", "unsat", "wall s", "search", "faster");
  for (const auto& [category, line] : report.lines) row(category.c_str(), line);
  row("all", report.total);
  const auto list = [](const char* title, const ordered_json& entries) {
    if (entries.empty()) return;
    std::printf("\n%s\n", title);
    for (const auto& e : entries) {
      std::printf("  %s %s %s  margin %s%s%s\n", e["category"].get<std::string>().c_str(),
                  e["onnx"].get<std::string>().c_str(), e["vnnlib"].get<std::string>().c_str(),
                  e["margin"].dump().c_str(), e["witness"] == "" ? "" : "  ",
                  e["witness"].get<std::string>().c_str());
    }
  };
  list(!report.of_a_tool ? "broken although expected.csv says unsat:"
                         : "broken although the results say unsat:",
       report.disagreements);
  list("broken, unknown before:", report.broken);
  list("known to be sat, not broken:", report.missed);
  std::printf(
      "\nwall s: median time of those broken, start-up included; faster: of those, less "
      "than the best tool's\n%.0f s in all%s; counterexamples in %s\n",
      report.seconds, report.interrupted ? ", interrupted" : "", report.witnesses.c_str());
}

}  // namespace grapeshot::cli
