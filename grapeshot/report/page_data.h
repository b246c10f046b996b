// grapeshot/report/page_data.h: what the HTML page's script builds its table and gallery from.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "grapeshot/report/run.h"

namespace grapeshot::report {

/// Pictures and curves of inputs are left out once they take this many bytes, those of the deepest
/// findings of every cluster last; the page stays quick to open whatever the run is.
constexpr size_t kMostDetailBytes = size_t{12} << 20;
constexpr size_t kMostInstanceRows = 20'000;

struct PageData {
  nlohmann::ordered_json json;  ///< page.js says what it reads
  int64_t drawn = 0;            ///< findings with pictures or curves
  int64_t rows = 0;             ///< instances in the table
  int64_t clusters = 0;
};

[[nodiscard]] PageData page_data(const Run& run);

}  // namespace grapeshot::report
