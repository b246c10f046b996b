// grapeshot/cli/data_report.h: what a finding changed, in the terms of the data set it came from.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "grapeshot/cli/data_rows.h"
#include "grapeshot/core/campaign.h"
#include "grapeshot/core/property.h"

namespace grapeshot::cli {

/// {"row", "name", "changed", "largest_change"} in data units; for tables "changes" by column, and
/// for all others whose units or order are not the network's the whole input as data.npy in
/// `folder`, in the data's own shape. `row` counts in `rows`.
[[nodiscard]] nlohmann::ordered_json describe_change(const DataRows& rows, int64_t row,
                                                     const Finding& finding,
                                                     const std::string& folder);

/// "row 12: age 34 -> 35.2, bmi 21 -> 22; class 0 -> 1", of such a description with columns; "" for
/// one without. `label` is what was predicted before, -1 says nothing of it.
[[nodiscard]] std::string words_of(const nlohmann::ordered_json& change, int64_t label,
                                   const std::vector<double>& outputs);

}  // namespace grapeshot::cli
