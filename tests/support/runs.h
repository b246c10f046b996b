// tests/support/runs.h: lines as a run's stats.jsonl has them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "grapeshot/cli/standing.h"
#include "grapeshot/io/properties/field.h"

namespace grapeshot::testing {

/// What run.json says of a campaign on `instances` instances.
inline nlohmann::json run_json(size_t instances) {
  nlohmann::json out = {
      {"command", "fuzz"},
      {"models", {{{"path", "/models/net.onnx"}}}},
      {"options", {{"seconds", 60.}, {"memory", 1024}, {"criterion", "nc-scaled"}}},
      {"instances", nlohmann::json::array()}};
  for (size_t i = 0; i < instances; ++i) out["instances"].push_back({{"name", "spec"}});
  return out;
}

/// A line after `seconds` with `broken` of 45 instances.
inline nlohmann::json stats_line(double seconds, int64_t broken) {
  const auto n = static_cast<int64_t>(1000. * seconds);
  return {{"seconds", seconds},
          {"instances", 45},
          {"instances_falsified", broken},
          {"candidates", n},
          {"inputs_checked", 11 * n},
          {"violations", 7 * broken},
          {"distinct_violations", 5 * broken},
          {"borderline", 3},
          {"ttfv_s", broken > 0 ? nlohmann::json(0.5) : nlohmann::json()},
          {"last_finding_s", broken > 0 ? nlohmann::json(seconds / 2) : nlohmann::json()},
          {"best_margin", 0.0125},
          {"margins", {{"0", 0}, {"0.001", 0}, {"0.01", 2}, {"0.1", 12}, {"1", 3}, {"inf", 0}}},
          {"untried", 4},
          {"mutations",
           {{"gradient", {{"candidates", n / 2}, {"gains", 12}, {"hits", 40}, {"findings", 9}}},
            {"random", {{"candidates", n / 3}, {"gains", 3}, {"hits", 0}, {"findings", 0}}},
            {"boundary", {{"candidates", n / 6}, {"gains", 1}, {"hits", 2}, {"findings", 1}}}}},
          {"coverage", {{"kmnc", 0.3}, {"nc-scaled", 0.43}}},
          {"corpus_size", 1234},
          {"lanes", 2},
          {"batch_rows", {64}},
          {"rss_mib", 512.}};
}

inline void begin(cli::Standing& standing, const nlohmann::json& run) {
  standing.begin(properties::Field(run, "run.json"));
}

inline void take(cli::Standing& standing, const nlohmann::json& line) {
  standing.take(properties::Field(line, "stats.jsonl:1"));
}

/// A campaign that has gone on for 20 s.
inline cli::Standing some_standing() {
  cli::Standing out;
  begin(out, run_json(45));
  out.state = cli::RunState::kRunning;
  for (int64_t s = 1; s <= 20; ++s) take(out, stats_line(static_cast<double>(s), s / 2));
  return out;
}

}  // namespace grapeshot::testing
