#include "grapeshot/cli/canvas.h"

#include <doctest/doctest.h>

using namespace grapeshot::cli;  // NOLINT(google-build-using-namespace)

TEST_CASE("Text: is as wide as it has characters, cut and filled by them, not by bytes") {
  const Text text = Text("a█b").add("▁▂", Tint::kGood);
  CHECK(text.width() == 5);
  CHECK(text.fit(2).render({}) == "a█");
  CHECK(text.fit(4).render({}) == "a█b▁");
  CHECK(text.fit(7).render({}) == "a█b▁▂  ");
  CHECK(text.fit(7).width() == 7);
  CHECK(text.fit(0).render({}).empty());
  CHECK(text.fit(-3).render({}).empty());
}

TEST_CASE("Text: escape sequences only in colour, and closed") {
  const Text text = Text("plain ").add("bad", Tint::kBad);
  CHECK(text.render({.colour = false}) == "plain bad");
  CHECK(text.render({.colour = true}) == "plain \x1b[1;31mbad\x1b[0m");
}

TEST_CASE("bar and curve: as long as they say, and monotone") {
  for (const bool unicode : {false, true}) {
    const Look look{false, unicode};
    int64_t last = 0;
    for (int k = 0; k <= 80; ++k) {
      const int64_t width = Text(bar(k / 80., 10, look)).width();
      CHECK(width >= last);
      CHECK(width <= 10);
      last = width;
    }
    CHECK(last == 10);
    CHECK(bar(-1., 10, look).empty());
    CHECK(Text(bar(7., 10, look)).width() == 10);
    CHECK(Text(curve({0., 1., 2., 8.}, look)).width() == 4);
    CHECK(curve({}, look).empty());
  }
  CHECK(curve({0., 4., 8.}, {false, true}) == "▁▅█");
  CHECK(curve({0., 0.}, {false, false}) == "__");
}

TEST_CASE("frame: every line has the size's columns; rows give way to at least, then bands") {
  const std::vector<Band> bands = {
      {{{"one", {{"a"}, {"b"}, {"c"}}}, {"two", {{"d"}}}}, 3, 2},
      {{{"three", {{"e"}, {"f"}, {"g"}, {"h"}}, true}}, 4, 1},
  };
  for (int64_t rows = 0; rows < 14; ++rows) {
    for (const int64_t columns : {20, 31, 80}) {
      const std::vector<Text> lines = frame(bands, {columns, rows}, {});
      CHECK(std::ssize(lines) <= rows);
      for (const Text& line : lines) CHECK(line.width() == columns);
    }
  }
  const auto text = [&](int64_t rows) {
    std::string out;
    for (const Text& line : frame(bands, {20, rows}, {})) out += line.render({}) + "\n";
    return out;
  };
  CHECK(text(14) ==
        "+- one --+- two ---+\n"
        "| a      | d       |\n"
        "| b      |         |\n"
        "| c      |         |\n"
        "+- three +---------+\n"
        "| e                |\n"
        "| f                |\n"
        "| g                |\n"
        "| h                |\n"
        "+------------------+\n");
  CHECK(text(7).find("and 3 more") != std::string::npos);
  CHECK(text(4) ==
        "+- one --+- two ---+\n| a      | d       |\n| b      |         |\n"
        "+--------+---------+\n");
  CHECK(text(2).empty());
}
