// grapeshot/cli/screen.h: how a run stands, as the lines of a screen. Draws into text only.
//
// The blocks are those of AFL++'s status screen (docs/afl-fuzz_approach.md, "Understanding the
// status screen"), with what this fuzzer counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grapeshot/cli/canvas.h"
#include "grapeshot/cli/standing.h"

namespace grapeshot::cli {

/// At most size.rows lines of at most size.columns characters; what is told first is kept longest
/// where there is little room. `note` is the last line's, "" for none.
[[nodiscard]] std::vector<std::string> draw(const Standing& standing, ScreenSize size, Look look,
                                            const std::string& note = "");

/// A line for each run, and their totals where they are several.
[[nodiscard]] std::vector<std::string> draw_table(const std::vector<Standing>& runs,
                                                  ScreenSize size, Look look);

/// "4.2 s", "3 min 7 s", "2 h 5 min", "3 d 4 h".
[[nodiscard]] std::string duration(double seconds);
/// "950", "12.3k", "4.56M".
[[nodiscard]] std::string short_count(double count);

}  // namespace grapeshot::cli
