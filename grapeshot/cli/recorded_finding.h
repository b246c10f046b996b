// grapeshot/cli/recorded_finding.h: findings as their folders tell them (see run_folder.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace grapeshot::cli {

/// A model of a finding, by its file and what is done with its weights.
struct RecordedModel {
  std::string path, sha256, variant;
};

struct RecordedFinding {
  std::string variant;                ///< of `model`'s weights, or ""
  std::vector<RecordedModel> others;  ///< models whose prediction stays with the original's
  std::string folder, model, model_sha256, spec, spec_sha256;
  std::vector<std::pair<std::string, std::string>> spec_files;  ///< that `spec` names, and SHA-256
  std::string words;               ///< the violation in its property's own, "" without
  int64_t instance = -1;           ///< of its run; -1 when it does not say
  std::optional<double> margin;    ///< nothing when it was not finite
  std::vector<double> x;           ///< [D]
  std::optional<double> l2_bound;  ///< of `diff`: the distance from `original` over its norm
  std::vector<double> original;    ///< [D], where there is such a bound
};

/// Throws Error{kNotFound, kParse} for a folder without a finding or with a damaged one.
[[nodiscard]] RecordedFinding read_finding(const std::filesystem::path& folder);

/// `path` is a finding or a run: the folders of its findings, by name.
[[nodiscard]] std::vector<std::filesystem::path> finding_folders(const std::string& path);

}  // namespace grapeshot::cli
