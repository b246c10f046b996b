#include "grapeshot/report/cluster.h"

#include <doctest/doctest.h>

using namespace grapeshot::report;

namespace {

Finding moved(const std::string& violated, std::vector<float> by, double margin) {
  Finding out;
  out.violated = violated;
  out.margin = margin;
  out.original.assign(by.size(), 1.f);
  for (const float each : by) out.input.push_back(1.f + each);
  return out;
}

}  // namespace

TEST_CASE("find_clusters: by what is violated, then by direction, the deepest first") {
  Run run;
  run.findings = {moved("a", {1, 0}, -1.), moved("a", {2, .1f}, -2.), moved("a", {-1, 0}, -3.),
                  moved("b", {1, 0}, -4.), moved("a", {.5f, 0}, -.5)};
  const auto clusters = find_clusters(run);
  REQUIRE(clusters.size() == 3);
  CHECK(clusters[0].findings == std::vector<size_t>{1, 0, 4});
  CHECK(clusters[0].directions == 2);
}

TEST_CASE("find_clusters: any number of directions makes a few clusters, and nothing is lost") {
  Run run;
  for (int i = 0; i < 40; ++i) {
    std::vector<float> by(40, 0.f);
    by[static_cast<size_t>(i)] = 1.f;
    run.findings.push_back(moved("a", by, -1.));
  }
  run.findings.push_back(moved("a", std::vector<float>(40, 0.f), -1.));  // nothing changed
  run.findings.push_back(moved("a", {1.f}, -1.));                        // of another size
  run.findings.push_back(moved("a", {}, -1.));                           // not read
  const auto clusters = find_clusters(run);
  CHECK(clusters.size() <= static_cast<size_t>(kMostDirections) + 2);
  size_t count = 0;
  for (const Cluster& each : clusters) count += each.findings.size();
  CHECK(count == run.findings.size());
}
