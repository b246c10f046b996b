// grapeshot/report/formats.h: the table of what a run can be written up as.
//
// A format is a function and a row of the table in formats.cpp. `grapeshot report --format`, its
// flags of the same names and `grapeshot list reports` read that table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "grapeshot/report/run.h"

namespace grapeshot::report {

struct Format {
  std::string_view name, summary;
  bool inputs;       ///< needs Finding::original and input
  bool constraints;  ///< needs Finding::network, witness and constraints
  /// All of the file's text.
  std::string (*write)(const Run& run);
};

/// All formats, in table order.
[[nodiscard]] std::span<const Format> formats();

/// Throws Error{kNotFound}, listing the known names, when no format is called `name`.
[[nodiscard]] const Format& find_format(std::string_view name);

// One per file.
[[nodiscard]] std::string write_html(const Run& run);
[[nodiscard]] std::string write_markdown(const Run& run);
[[nodiscard]] std::string write_junit(const Run& run);
[[nodiscard]] std::string write_sarif(const Run& run);
[[nodiscard]] std::string write_pytest(const Run& run);

}  // namespace grapeshot::report
