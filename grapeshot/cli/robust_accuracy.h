// grapeshot/cli/robust_accuracy.h: of the rows of --data, how many stay right at each eps.
#pragma once

#include <nlohmann/json.hpp>

#include "grapeshot/cli/problem.h"

namespace grapeshot::cli {

/// Keys of summary.json: `robust_accuracy`, by rising eps {eps, rows, robust, accuracy}, and
/// `smallest_eps`, the least at which each row was broken, by its number. A row that is broken at
/// an eps is broken at every larger one. Empty without --data.
[[nodiscard]] nlohmann::ordered_json robust_accuracy(const Problem& problem,
                                                     const CampaignResult& result);

/// The table for people, "" where there is none.
[[nodiscard]] std::string robust_accuracy_table(const nlohmann::ordered_json& summary);

}  // namespace grapeshot::cli
