#include "grapeshot/cli/screen.h"

#include <algorithm>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "grapeshot/base/deadline.h"
#include "tests/support/runs.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::cli;      // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr Look kPlain{};
constexpr Look kBest{true, true};

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string without_colour(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      out += text[i];
    }
  }
  return out;
}

// A campaign with as much of everything as there may be.
Standing crowded() {
  Standing s = some_standing();
  nlohmann::json line = stats_line(1e7, 44);
  for (int64_t k = 0; k < 30; ++k) {
    line["mutations"]["mutation-" + std::to_string(k)] = {{"candidates", 1000000000000 + k}};
    line["coverage"]["criterion-" + std::to_string(k)] = 1e12;
  }
  line["margins"] = {{"0", 1}, {"0.001", 2}, {"0.01", 3}, {"0.1", 4},
                     {"1", 5}, {"10", 6},    {"inf", 7}};
  line["batch_rows"] = {1, 1024};
  take(s, line);
  s.model = std::string(200, 'm');
  return s;
}

}  // namespace

TEST_CASE("draw: fits any size, with the same text in colour and without") {
  Standing empty;
  begin(empty, {{"command", "fuzz"}});
  for (const Standing& s : {some_standing(), crowded(), empty}) {
    for (int64_t columns = 1; columns <= 130; columns += columns < 20 ? 1 : 7) {
      for (int64_t rows = 1; rows <= 50; rows += rows < 20 ? 1 : 5) {
        for (const std::string& note : {std::string(), std::string("out of memory")}) {
          const auto lines = draw(s, {columns, rows}, kBest, note);
          REQUIRE(std::ssize(lines) <= rows);
          REQUIRE(!lines.empty());
          for (const std::string& line : lines) {
            REQUIRE(Text(without_colour(line)).width() <= columns);
          }
          REQUIRE(without_colour(joined(lines)) ==
                  joined(draw(s, {columns, rows}, {false, true}, note)));
        }
      }
    }
  }
}

TEST_CASE("draw: every block is there at 80x24, in ASCII too") {
  for (const bool unicode : {false, true}) {
    const auto lines = draw(some_standing(), {80, 24}, {false, unicode});
    const std::string text = joined(lines);
    for (const char* wanted : {"grapeshot fuzz",
                               "net.onnx",
                               "running",
                               "process timing",
                               "20 s of 1 min 0 s",
                               "first found : 0.5 s (19 s ago)",
                               "last found : 10 s (10 s ago)",
                               "overall results",
                               "10 broken, 35 left",
                               "50 of 70",
                               "borderline : 3",
                               "0.0125",
                               "speed",
                               "checked : 11.0k/s, mean 11.0k/s",
                               "20.0k, 1.00k/s",
                               "2 of 64 rows",
                               "corpus and memory",
                               "1.23k inputs",
                               "512 MiB (budget 1024)",
                               "mutations",
                               "gradient",
                               "50.0 %",
                               "margins of those left",
                               "<= 0.1",
                               "untried",
                               "coverage",
                               "nc-scaled",
                               "43 %"}) {
      CAPTURE(std::string(wanted));
      CHECK(text.find(wanted) != std::string::npos);
    }
    const bool ascii = std::ranges::all_of(text, [](char c) { return c > 0; });
    CHECK(ascii == !unicode);
  }
}

TEST_CASE("draw: where there is little room the first things stay, in 40x12 one a line") {
  const std::string text = joined(draw(crowded(), {40, 12}, kPlain));
  for (const char* wanted : {"grapeshot fuzz", "run time", "44 broken, 1 left", "checked"}) {
    CAPTURE(std::string(wanted));
    CHECK(text.find(wanted) != std::string::npos);
  }
  CHECK(draw(crowded(), {40, 1}, kPlain).size() == 1);
}

TEST_CASE("draw: mutations and criteria that have no room are counted") {
  const std::string text = joined(draw(crowded(), {80, 24}, kPlain));
  CHECK(text.find("and 27 more") != std::string::npos);
  CHECK(text.find("and 30 more") != std::string::npos);
}

TEST_CASE("draw: a note takes the last line") {
  const auto lines = draw(some_standing(), {80, 24}, kPlain, "out of memory");
  CHECK(lines.back() == "out of memory");
  CHECK(lines.size() <= 24);
}

TEST_CASE("draw: an ended run's findings are not some time ago") {
  Standing s = some_standing();
  s.state = RunState::kKilled;
  const std::string text = joined(draw(s, {80, 24}, kPlain));
  CHECK(text.find("ago") == std::string::npos);
  CHECK(text.find("killed") != std::string::npos);
}

TEST_CASE("draw: what diff does not count is not shown as zero") {
  Standing s;
  begin(s, {{"command", "diff"}});
  take(s, {{"seconds", 2.5},
           {"images", 8},
           {"images_with_differences", 3},
           {"candidates", 500},
           {"differences", 17},
           {"seeds_kept", 4},
           {"coverage", {{"nc", 0.25}}}});
  const std::string text = joined(draw(s, {80, 24}, kPlain));
  CHECK(text.find("images : 3 broken, 5 left") != std::string::npos);
  CHECK(text.find("differences : 17") != std::string::npos);
  CHECK(text.find("mutations") == std::string::npos);
  CHECK(text.find("borderline") == std::string::npos);
}

TEST_CASE("draw: two hundred times in a second, so that four a second cost next to nothing") {
  const Standing s = crowded();
  const auto began = Clock::now();
  size_t bytes = 0;
  for (int k = 0; k < 200; ++k) bytes += joined(draw(s, {80, 24}, kBest)).size();
  CHECK(bytes > 0);
  CHECK(seconds_since(began) < 1.);  // measured: about 0.02 s on a quiet core
}

TEST_CASE("draw_table: a line a run and one for all; columns without room go from the right") {
  Standing a = some_standing(), b = some_standing();
  a.folder = "first";
  b.folder = "second";
  b.state = RunState::kKilled;
  const auto lines = draw_table({a, b}, {100, 40}, kPlain);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("run"));
  CHECK(lines[1].find("first") == 0);
  CHECK(lines[1].find("running") != std::string::npos);
  CHECK(lines[2].find("killed") != std::string::npos);
  CHECK(lines[3].find("all 2") == 0);
  CHECK(lines[3].find("1 running") != std::string::npos);
  CHECK(lines[3].find("20") != std::string::npos);  // broken
  CHECK(lines[3].find("70") != std::string::npos);  // left
  for (int64_t columns = 1; columns < 90; ++columns) {
    for (const std::string& line : draw_table({a, b}, {columns, 40}, kPlain)) {
      REQUIRE(std::ssize(line) <= columns);
    }
  }
  CHECK(draw_table({a}, {80, 40}, kPlain).size() == 2);
}

TEST_CASE("duration and short_count: three digits or so") {
  CHECK(duration(0.04) == "0.0 s");
  CHECK(duration(59.9) == "59 s");
  CHECK(duration(187.) == "3 min 7 s");
  CHECK(duration(7500.) == "2 h 5 min");
  CHECK(duration(3. * 86400. + 4. * 3600.) == "3 d 4 h");
  CHECK(short_count(0.) == "0");
  CHECK(short_count(999.) == "999");
  CHECK(short_count(1000.) == "1.00k");
  CHECK(short_count(12345.) == "12.3k");
  CHECK(short_count(999999.) == "1.00M");
  CHECK(short_count(4.56e9) == "4.56G");
}
