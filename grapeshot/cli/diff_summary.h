// grapeshot/cli/diff_summary.h: what `grapeshot diff` says of a run, as JSON and for people.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/diff/diff.h"

namespace grapeshot::cli {

/// sum / count, 0 for none.
[[nodiscard]] double mean(double sum, int64_t count);

/// Names and values as an object.
[[nodiscard]] nlohmann::ordered_json by_name(
    const std::vector<std::pair<std::string, double>>& values);

/// What was counted so far: a line of stats.jsonl, and of the summary.
[[nodiscard]] nlohmann::ordered_json diff_counts(const diff::DiffProgress& p);

/// Some lines on stdout of the run's summary; `misread` images have other labels than predictions.
void print_diff(const diff::DiffProgress& p, const nlohmann::ordered_json& summary,
                int64_t misread);

}  // namespace grapeshot::cli
