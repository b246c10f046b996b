#include "grapeshot/core/ledger.h"

#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kInputs = 6;

// Broken where the sum of the inputs of [0, 1]^6 is at least `sum`.
std::vector<Property> properties() {
  std::vector<Property> out;
  for (const double sum : {3.5, 4.5, 5.5, 5.95, 7.}) {
    out.push_back(property(kInputs, 1, {{cube(kInputs, 0.f, 1.f), {{{above(0, sum)}}}}}));
  }
  return out;
}

Progress run_with(const LoopOptions& options, std::vector<Finding>* findings = nullptr) {
  FakeModel model = FakeModel::sum(kInputs);
  model.add_tap();
  const std::vector<Property> all = properties();
  Outcome out = run({campaign_model(model, all)}, options);
  if (findings) *findings = std::move(out.findings);
  return out.result.totals;
}

int64_t sum(const Progress& p, int64_t Yield::*of) {
  int64_t out = 0;
  for (const auto& [name, yield] : p.yields) out += yield.*of;
  return out;
}

}  // namespace

TEST_CASE("yields: what each mutation made adds up to what the campaign made") {
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    LoopOptions options = test_options(1600);
    options.schedule = schedule;
    options.mutations = "gradient,random,flip";
    options.steps = 2;
    std::vector<Finding> findings;
    const Progress p = run_with(options, &findings);
    CHECK(p.yields.size() == 3);
    CHECK(sum(p, &Yield::candidates) == p.candidates);
    CHECK(sum(p, &Yield::findings) == p.findings);
    REQUIRE(!findings.empty());
    std::map<std::string, int64_t> of;
    for (const Finding& each : findings) ++of[each.mutation];
    for (const auto& [name, yield] : p.yields) {
      CAPTURE(name);
      CHECK(yield.candidates > 0);
      CHECK(yield.findings == of[name]);
      CHECK(yield.hits >= yield.findings);
      CHECK(yield.gains <= yield.candidates);
    }
    // One neuron can be new in one batch only, to all rows of it at most.
    CHECK(sum(p, &Yield::gains) > 0);
    CHECK(sum(p, &Yield::gains) <= 8);
    CHECK(p.last_s >= p.ttfv_s);
    CHECK(p.last_s <= p.seconds);
    CHECK(p.lanes == 1);
    CHECK(p.batch == std::vector<int64_t>{8});
  }
}

TEST_CASE("yields: a mutation that cannot move anything finds nothing, the other one all") {
  LoopOptions options = test_options(1600);
  options.mutations = "gradient,random";
  options.weights = "gradient=1,random=0";
  const Progress p = run_with(options);
  CHECK(p.yields.size() == 1);
  CHECK(p.yields.at("gradient").candidates == p.candidates);
  CHECK(p.yields.at("gradient").findings == p.findings);
}

TEST_CASE("margins: a bin holds its own end, of instances without a finding alone") {
  Ledger ledger(8, 1);
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor margins = at::tensor({-0.5f, 0.f, 0.0005f, 1.f, 1.5f, 100.f, inf, inf});
  ledger.closest(0, margins, at::zeros({8, 1}));
  Progress p = ledger.standing();
  CHECK(p.best_margin == -0.5);
  CHECK(p.margins == std::array<int64_t, 7>{2, 1, 0, 0, 1, 1, 1});
  CHECK(p.untried == 2);
  Finding finding;
  finding.instance = 0;
  finding.x = at::ones({1});
  finding.mutation = "random";
  REQUIRE(ledger.accept(finding, 3., 3.));
  p = ledger.standing();
  CHECK(p.margins[0] == 1);
  CHECK(p.best_margin == 0.);
  CHECK(p.last_s == 3.);
  CHECK(p.yields.at("random").findings == 1);
  CHECK(std::accumulate(p.margins.begin(), p.margins.end(), p.untried) == p.instances - p.broken);
}

TEST_CASE("ledger: what it counts is remembered, and other counts are refused") {
  Ledger ledger(2, 1);
  Iteration iteration;
  iteration.candidates = 12;
  iteration.made = {{"gradient", 8, 3}, {"random", 4, 0}};
  iteration.hits.resize(3);
  iteration.hits[0].mutation = iteration.hits[1].mutation = "random";
  iteration.hits[2].mutation = "gradient";
  iteration.hits[2].is_nan = true;  // is no proposal
  ledger.count(iteration, 0, 0);
  State state;
  ledger.save(state, "ledger/");
  Ledger again(2, 1);
  const State read = State::decode(state.encode());
  again.load(read, "ledger/");
  for (const Ledger* each : {&ledger, &again}) {
    const auto& yields = each->totals().yields;
    REQUIRE(yields.size() == 2);
    CHECK(yields.at("gradient").candidates == 8);
    CHECK(yields.at("gradient").gains == 3);
    CHECK(yields.at("gradient").hits == 0);
    CHECK(yields.at("random").hits == 2);
    CHECK(each->totals().last_s == -1.);
  }
  state.put("ledger/yields", std::vector<int64_t>{1, 2, 3});
  CHECK_THROWS_AS(again.load(state, "ledger/"), Error);
}
