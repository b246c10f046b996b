#include "grapeshot/report/chart.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

using namespace grapeshot::report;

TEST_CASE("chart: a long curve is thinned out, and ends where it ended") {
  Curve curve{"c", false, {}};
  for (int i = 0; i <= 100'000; ++i) curve.points.emplace_back(i, i % 7);
  curve.points.back().second = 7.;
  const std::string svg = chart({&curve, 1}, {"title", 100'000., 0., false, false});
  CHECK(svg.size() < 30'000);
  CHECK(svg.find("L486 12\"") != std::string::npos);  // the upper right corner
}

TEST_CASE("chart: values that are no numbers leave no trace, titles are escaped") {
  const Curve curve{"c", false, {{0., NAN}, {1., INFINITY}, {NAN, 1.}}};
  const std::string svg = chart({&curve, 1}, {"<b>", 1., 0., false, true});
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(svg.find("&lt;b&gt;") != std::string::npos);
}
