// Campaigns that are cut off and go on.
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kInputs = 6;

// Broken where the sum of the inputs of [0, 1]^6 is at least `sum`.
std::vector<Property> properties() {
  std::vector<Property> out;
  for (const double sum : {3.5, 4.5, 5., 5.5, 5.8, 5.95, 7.}) {
    out.push_back(property(kInputs, 1, {{cube(kInputs, 0.f, 1.f), {{{above(0, sum)}}}}}));
  }
  return out;
}

struct Kept {
  std::vector<std::vector<char>> states;
  std::set<std::string> findings;
  CampaignResult result;
};

std::string name(const Finding& f) {
  std::string out = str(f.instance, ' ', f.mutation, ' ', f.iteration, ' ', f.row, ' ');
  for (const float v : floats(f.x)) out += str(v, ' ');
  return out;
}

Kept run_from(const LoopOptions& options, const State* resume) {
  FakeModel model = FakeModel::sum(kInputs);
  model.add_tap();
  const std::vector<Property> all = properties();
  Kept kept;
  CampaignParts parts;
  parts.keep = [&](const State& state) { kept.states.push_back(state.encode()); };
  parts.checkpoint_s = 0.;
  parts.resume = resume;
  Collector collector;
  const std::atomic<bool> stop = false;
  kept.result = run_campaign({campaign_model(model, all)}, options, collector, stop, parts);
  for (const Finding& each : collector.findings) kept.findings.insert(name(each));
  return kept;
}

}  // namespace

TEST_CASE("run_campaign: from any checkpoint on it ends as the campaign that was never cut off") {
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    LoopOptions options = test_options(1600);
    options.schedule = schedule;
    options.mutations = "gradient,random,flip";
    options.steps = 2;
    const Kept whole = run_from(options, nullptr);
    REQUIRE(whole.findings.size() >= (options.schedule == "fair" ? 4U : 1U));
    REQUIRE(whole.states.size() >= 10);
    for (size_t i = 0; i < whole.states.size(); i += whole.states.size() / 9) {
      CAPTURE(i);
      const State state = State::decode(whole.states[i]);
      const Kept rest = run_from(options, &state);
      const Progress &a = whole.result.totals, &b = rest.result.totals;
      CHECK(a.candidates == b.candidates);
      CHECK(a.inputs_checked == b.inputs_checked);
      CHECK(a.violations == b.violations);
      CHECK(a.distinct_violations == b.distinct_violations);
      CHECK(a.findings == b.findings);
      CHECK(a.broken == b.broken);
      CHECK(a.coverage == b.coverage);
      CHECK(a.corpus_size == b.corpus_size);
      REQUIRE(a.yields.size() == b.yields.size());
      for (const auto& [mutation, mine] : a.yields) {
        const Yield& theirs = b.yields.at(mutation);
        CHECK(mine.candidates == theirs.candidates);
        CHECK(mine.gains == theirs.gains);
        CHECK(mine.hits == theirs.hits);
        CHECK(mine.findings == theirs.findings);
      }
      for (const std::string& each : rest.findings) CHECK(whole.findings.contains(each));
      for (size_t k = 0; k < rest.result.instances.size(); ++k) {
        const InstanceResult &mine = whole.result.instances[k], &theirs = rest.result.instances[k];
        CHECK(mine.findings == theirs.findings);
        CHECK(mine.best_margin == theirs.best_margin);
        // Under `paper` an instance may never have been drawn.
        REQUIRE(mine.closest.defined() == theirs.closest.defined());
        if (mine.closest.defined()) CHECK(at::equal(mine.closest, theirs.closest));
      }
    }
  }
}

TEST_CASE("run_campaign: what was kept at the end of a budget goes on with a larger one") {
  LoopOptions options = test_options(400);
  const Kept first = run_from(options, nullptr);
  options.candidates = 1600;
  const State state = State::decode(first.states.back());
  const Kept rest = run_from(options, &state);
  const Kept whole = run_from(options, nullptr);
  CHECK(rest.result.totals.candidates == whole.result.totals.candidates);
  CHECK(rest.result.totals.findings == whole.result.totals.findings);
}

TEST_CASE("run_campaign: several lanes wait for each other, and go on") {
  LoopOptions options = test_options(3000);
  options.threads = 3;
  const Kept whole = run_from(options, nullptr);
  REQUIRE(whole.states.size() > 2);
  const State state = State::decode(whole.states[whole.states.size() / 2]);
  const Kept rest = run_from(options, &state);
  CHECK(rest.result.totals.candidates >= 3000);
  CHECK(rest.result.totals.broken >= 4);
}

TEST_CASE("run_campaign: an instance that has a time of its own is given it anew") {
  LoopOptions options = test_options(0);
  options.seconds = 0.;
  options.seconds_per_instance = 0.3;
  const Kept whole = run_from(options, nullptr);
  const State state = State::decode(whole.states[whole.states.size() / 2]);
  const Kept rest = run_from(options, &state);
  CHECK(rest.result.totals.broken >= 1);
  CHECK(rest.result.totals.broken >= state.integers("ledger/totals")[0]);
}

TEST_CASE("run_campaign: the state of another campaign is refused") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> one = {properties()[0]};
  const Kept whole = run_from(test_options(100), nullptr);
  const State state = State::decode(whole.states.back());
  CampaignParts parts;
  parts.resume = &state;
  Collector collector;
  const std::atomic<bool> stop = false;
  CHECK_THROWS_AS(
      (void)run_campaign({campaign_model(model, one)}, test_options(100), collector, stop, parts),
      Error);
}
