#include "grapeshot/cli/data_report.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/rows.h"

namespace grapeshot::cli {

using nlohmann::ordered_json;

ordered_json describe_change(const DataRows& rows, int64_t row, const Finding& finding,
                             const std::string& folder) {
  const at::Tensor was = rows.values()[row], is = rows.to_data(finding.x).contiguous();
  const at::Tensor changed = (finding.x != finding.original).contiguous();
  const at::Tensor size = (is - was).abs().masked_fill(changed.logical_not(), 0.);
  ordered_json out = {{"row", rows.number(row)},
                      {"name", rows.name(row)},
                      {"changed", changed.sum().item<int64_t>()},
                      {"largest_change", size.max().item<double>()}};
  if (!rows.columns().empty()) {
    out["changes"] = ordered_json::array();
    const at::Tensor before = was.contiguous();
    for (size_t i = 0; i < rows.columns().size(); ++i) {
      if (!changed.const_data_ptr<bool>()[i]) continue;
      out["changes"].push_back({{"column", rows.columns()[i]},
                                {"was", before.const_data_ptr<double>()[i]},
                                {"is", is.const_data_ptr<double>()[i]}});
    }
  }
  if (!rows.plain()) {
    write_tensor((std::filesystem::path(folder) / "data.npy").string(), rows.in_data_order(is));
  }
  return out;
}

std::string words_of(const ordered_json& change, int64_t label,
                     const std::vector<double>& outputs) {
  if (!change.contains("changes")) return {};
  constexpr size_t kMostSaid = 6;
  std::ostringstream out;
  out << std::setprecision(6) << "row " << change["row"].get<int64_t>() << ":";
  size_t said = 0;
  for (const ordered_json& each : change["changes"]) {
    if (said++ == kMostSaid) break;
    out << (said == 1 ? " " : ", ") << each["column"].get<std::string>() << " "
        << each["was"].get<double>() << " -> " << each["is"].get<double>();
  }
  if (change["changes"].size() > kMostSaid) {
    out << " and " << change["changes"].size() - kMostSaid << " more";
  }
  const auto best = std::ranges::max_element(outputs);
  if (label >= 0 && best != outputs.end()) {
    out << "; class " << label << " -> " << best - outputs.begin();
  }
  return out.str();
}

}  // namespace grapeshot::cli
