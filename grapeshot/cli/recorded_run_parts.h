// grapeshot/cli/recorded_run_parts.h: the parts of a run folder that recorded_run.h reads:
// findings, options, coverage. Every one throws Error{kParse} naming the file that is damaged.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

#include <nlohmann/json.hpp>

#include "grapeshot/report/run.h"

namespace grapeshot::cli {

/// The instance of a finding by its folder's name, below `instances`.
[[nodiscard]] size_t instance_of(const std::filesystem::path& folder, size_t instances);

/// finding.json, and with `inputs` its arrays.
[[nodiscard]] report::Finding read_reported(const std::filesystem::path& folder,
                                            const report::Run& run, bool inputs);

/// Adds network, witness and constraints, or says in `no_test` why there are none.
void read_constraints(report::Finding& finding);

/// The sentence of a kind's row in the table of output kinds or of properties, or "".
[[nodiscard]] std::string summary_of_kind(const std::string& name);

/// Adds a point to the criterion's curve.
void add_coverage(report::Run& run, const std::string& name, double seconds, double value);

/// Adds those of the numbers and texts that `from` has.
void add_facts(const nlohmann::json& from, std::initializer_list<const char*> keys,
               report::Run& run);

/// How run.json says that it was run.
void read_options(const nlohmann::json& file, const std::string& path, report::Run& run);

}  // namespace grapeshot::cli
