// grapeshot/cli/vnncomp_report.h: what a run of benchmark folders comes to, as a table.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/io/instances.h"

namespace grapeshot::cli {

/// An instance with what is known of it.
struct Task {
  std::string category;
  InstanceRow files;
  std::string model, spec;  // relative to the category's folder
  std::string expected = "unknown", best_tool = {};
  std::optional<double> best_s = {};
  double timeout_s = 0.;
};

/// What `falsify` said of it.
struct Outcome {
  std::string answer = "not run", attack, witness, message;
  double wall_s = 0., start_up_s = 0.;
  double margin = std::numeric_limits<double>::quiet_NaN();
};

/// What became of a category's instances.
struct Line {
  int64_t instances = 0, sat = 0, sat_broken = 0, unsat = 0, unsat_broken = 0, unknown = 0,
          unknown_broken = 0, errors = 0, faster = 0, timed = 0;
  std::vector<double> wall, search;  ///< seconds of those broken

  void add(const Task& task, const Outcome& outcome);
  [[nodiscard]] nlohmann::ordered_json to_json() const;
};

struct VnncompReport {
  std::map<std::string, Line> lines;  ///< by category
  Line total;
  nlohmann::ordered_json missed, broken, disagreements;  ///< arrays of instances
  double seconds = 0.;
  bool interrupted = false;
  bool of_a_tool = false;  ///< whether what is called unsat comes from a tool's results
  std::string witnesses;   ///< their folder
};

/// `outcomes` of `tasks`, those that were not run left out.
[[nodiscard]] VnncompReport make_report(const std::vector<Task>& tasks,
                                        const std::vector<Outcome>& outcomes);

void print(const VnncompReport& report);
[[nodiscard]] nlohmann::ordered_json to_json(const VnncompReport& report);

}  // namespace grapeshot::cli
