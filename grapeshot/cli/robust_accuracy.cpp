#include "grapeshot/cli/robust_accuracy.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <map>
#include <set>

#include "grapeshot/base/error.h"

namespace grapeshot::cli {

using nlohmann::ordered_json;

ordered_json robust_accuracy(const Problem& problem, const CampaignResult& result) {
  std::map<int64_t, double> smallest;  // row -> eps, infinite where it was not broken
  std::set<double> all;
  for (size_t i = 0; i < problem.instances.size(); ++i) {
    const ProblemInstance& instance = problem.instances[i];
    if (instance.row < 0) continue;
    all.insert(instance.eps);
    double& least =
        smallest.try_emplace(instance.row, std::numeric_limits<double>::infinity()).first->second;
    if (result.instances[i].findings > 0) least = std::min(least, instance.eps);
  }
  ordered_json out = ordered_json::object();
  if (smallest.empty() || *all.begin() <= 0.) return out;  // of no data; of radii for each input
  out["robust_accuracy"] = ordered_json::array();
  for (const double eps : all) {
    int64_t robust = 0;
    for (const auto& [row, least] : smallest) robust += least > eps ? 1 : 0;
    // What is not predicted as its label says is not robust either.
    const int64_t rows = std::ssize(smallest) + problem.misread;
    out["robust_accuracy"].push_back(
        {{"eps", eps},
         {"rows", rows},
         {"robust", robust},
         {"accuracy", static_cast<double>(robust) / static_cast<double>(rows)}});
  }
  out["smallest_eps"] = ordered_json::object();
  for (const auto& [row, least] : smallest) {
    if (least <= *all.rbegin()) out["smallest_eps"][std::to_string(row)] = least;
  }
  return out;
}

std::string robust_accuracy_table(const ordered_json& summary) {
  if (!summary.contains("robust_accuracy")) return {};
  std::string out = "       eps   robust     rows  robust accuracy\n";
  for (const ordered_json& row : summary["robust_accuracy"]) {
    char line[80];
    std::snprintf(line, sizeof line, "%10.6g %8" PRId64 " %8" PRId64 " %14.1f %%\n",
                  row["eps"].get<double>(), row["robust"].get<int64_t>(),
                  row["rows"].get<int64_t>(), 100. * row["accuracy"].get<double>());
    out += line;
  }
  return out;
}

}  // namespace grapeshot::cli
