// grapeshot/cli/recorded_finding.h: findings as their folders tell them (see run_folder.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/recorded_lineage.h"
#include "grapeshot/diff/constraint.h"

namespace grapeshot::cli {

/// A model of a finding, by its file and what is done with its weights.
struct RecordedModel {
  std::string path, sha256, variant;
};

/// How two runtimes were compared.
struct RecordedRuntimes {
  std::string reference_model, reference_model_sha256;  ///< what the other one ran
  double tolerance = 0.;
};

struct RecordedFinding {
  std::string variant;                ///< of `model`'s weights, or ""
  std::vector<RecordedModel> others;  ///< models whose prediction stays with the original's
  std::string folder, model, model_sha256, spec, spec_sha256;
  std::vector<std::pair<std::string, std::string>> spec_files;  ///< that `spec` names, and SHA-256
  /// Of a VNN-LIB 2.0 query: names and files of the networks that have one.
  std::vector<std::pair<std::string, RecordedModel>> networks;
  double grid = 0.;              ///< that inputs of `spec` were kept to, 0: none
  std::string words;             ///< the violation in its property's own, "" without
  int64_t instance = -1;         ///< of its run; -1 when it does not say
  std::optional<double> margin;  ///< nothing when it was not finite
  std::vector<double> x;         ///< [D]
  std::vector<int64_t> shape;    ///< of it, as the model takes it
  bool not_finite = false;       ///< what was found is an output that is NaN or infinite
  std::optional<RecordedRuntimes> runtimes;  ///< where what was found is that two disagree
  std::optional<diff::Limits> limits;  ///< of `diff`, without frozen inputs: `spec` fixes them
  std::optional<RecordedLineage> lineage;
  std::vector<double> original;  ///< [D], where there are limits
};

/// The `kind` of such a finding in finding.json.
constexpr std::string_view kNotFinite = "not finite";

/// What finding.json says of limits, and back.
[[nodiscard]] nlohmann::ordered_json limits_json(const diff::Limits& limits);
[[nodiscard]] diff::Limits parse_limits(const nlohmann::json& file, const std::string& path);

/// What ProblemFiles says of them.
[[nodiscard]] ProblemFiles files_of(const RecordedFinding& finding);

/// Throws Error{kNotFound, kParse} for a folder without a finding or with a damaged one.
[[nodiscard]] RecordedFinding read_finding(const std::filesystem::path& folder);

/// `path` is a finding or a run: the folders of its findings, by name.
[[nodiscard]] std::vector<std::filesystem::path> finding_folders(const std::string& path);

}  // namespace grapeshot::cli
