#include "grapeshot/cli/standing.h"

#include <limits>

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/files.h"
#include "tests/support/runs.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::cli;      // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE(
    "Standing: says what the lines say, the driving criterion and the busiest mutation first") {
  const Standing s = some_standing();
  CHECK(s.model == "net.onnx");
  CHECK(s.limit_s == 60.);
  CHECK(s.memory_mib == 1024.);
  CHECK(s.instances == 45);
  CHECK(s.left() == 35);
  CHECK(s.candidates == 20000);
  CHECK(s.checked() == 220000);
  CHECK(*s.first_s == 0.5);
  CHECK(*s.last_s == 10.);
  REQUIRE(s.coverage.size() == 2);
  CHECK(s.coverage[0].name == "nc-scaled");
  CHECK(s.coverage[0].share);
  REQUIRE(s.mutations.size() == 3);
  CHECK(s.mutations[0].name == "gradient");
  CHECK(s.mutations[2].name == "boundary");
  CHECK(s.margins.back().first == std::numeric_limits<double>::infinity());
  CHECK(s.margins[2] == std::pair(0.01, int64_t{2}));
}

TEST_CASE("Standing: the speed of now is that of the last seconds, not of the whole run") {
  Standing s;
  begin(s, run_json(45));
  nlohmann::json line = stats_line(1., 0);
  for (int64_t k = 1; k <= 100; ++k) {  // 1000 a second for 50 s, then 100 a second
    line["seconds"] = k;
    line["inputs_checked"] = k <= 50 ? 1000 * k : 50000 + 100 * (k - 50);
    take(s, line);
    if (k == 50) CHECK(s.rate_now == doctest::Approx(1000.));
  }
  CHECK(s.rate_now == doctest::Approx(100.));
  CHECK(s.mean_rate() == doctest::Approx(550.));
  line["seconds"] = 40;  // resumed from an older checkpoint
  line["inputs_checked"] = 40000;
  take(s, line);
  CHECK(s.rate_now >= 0.);
}

TEST_CASE("Standing: what is null or not there is not known, and not what it was") {
  Standing s = some_standing();
  nlohmann::json line = stats_line(21., 10);
  line["best_margin"] = nullptr;
  line.erase("coverage");
  take(s, line);
  CHECK(!s.best_margin);
  CHECK(s.coverage.empty());
}

TEST_CASE("Standing: a line of another kind is refused with its place and key") {
  const auto message = [](const char* key, const nlohmann::json& value) {
    Standing s;
    begin(s, run_json(1));
    nlohmann::json line = stats_line(1., 0);
    line[key] = value;
    const Error error = error_of([&] { take(s, line); });
    CHECK(error.code() == ErrorCode::kParse);
    return std::string(error.what());
  };
  CHECK(message("candidates", "many") == "stats.jsonl:1: candidates: must be a whole number");
  CHECK(message("candidates", -1).starts_with("stats.jsonl:1: candidates: must be from 0"));
  CHECK(message("seconds", nlohmann::json::array()).starts_with("stats.jsonl:1: seconds: "));
  for (const char* key : {"margins", "mutations", "coverage", "batch_rows"}) {
    CAPTURE(key);
    CHECK(message(key, 7).starts_with(std::string("stats.jsonl:1: ") + key));
  }
  Standing s;
  CHECK_THROWS_WITH_AS(begin(s, {{"command", "bench"}}),
                       doctest::Contains("run.json: command: is not"), Error);
  CHECK_THROWS_AS(begin(s, nlohmann::json::array()), Error);
}

TEST_CASE("Curve: the last value before the end of each part, however many points there were") {
  Curve curve;
  CHECK(curve.parts(3) == std::vector<double>{0., 0., 0.});
  for (int64_t k = 1; k <= 100000; ++k) curve.add(static_cast<double>(k), static_cast<double>(k));
  const std::vector<double> parts = curve.parts(4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(parts[i] == doctest::Approx(25000. * static_cast<double>(i + 1)).epsilon(0.02));
  }
  curve.add(50., 7.);  // goes on from an older point in time
  CHECK(curve.parts(1)[0] <= 50.);
}

TEST_CASE("plain_line: what fuzz and diff have always printed") {
  CHECK(plain_line(some_standing()) ==
        "  20.0 s  10 broken, 35 left  11000 inputs/s  coverage 43 %  best margin 0.0125");
  Standing s;
  begin(s, {{"command", "diff"}});
  take(s, {{"seconds", 2.5},
           {"images", 8},
           {"images_with_differences", 3},
           {"candidates", 500},
           {"differences", 17}});
  CHECK(plain_line(s) == "   2.5 s  3 of 8 images, 17 differences, 500 candidates");
}
