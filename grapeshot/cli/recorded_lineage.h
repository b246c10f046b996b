// grapeshot/cli/recorded_lineage.h: what finding.json and the arrays beside it say of
// transformations (diff/lineage.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/diff/diff.h"
#include "grapeshot/diff/lineage.h"

namespace grapeshot::cli {

struct RecordedLineage {
  diff::Lineage lineage;
  diff::ValidRange range;
  diff::ValidityBound bound;
};

/// `original` [D].
[[nodiscard]] nlohmann::ordered_json lineage_json(const diff::Difference& difference,
                                                  const at::Tensor& original,
                                                  const diff::DiffOptions& options);

/// File names and contents [D]: before.npy and reference.npy, where a step was affine.
[[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> lineage_inputs(
    const diff::Lineage& lineage);

/// Nothing where finding.json tells of none. Throws Error{kParse, kNotFound} for what is damaged;
/// `inputs` is D.
[[nodiscard]] std::optional<RecordedLineage> read_lineage(const nlohmann::json& file,
                                                          const std::filesystem::path& folder,
                                                          size_t inputs);

}  // namespace grapeshot::cli
