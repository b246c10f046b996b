// Campaigns on several lanes, and a shard made again from what a finding says.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/core/campaign.h"
#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kInputs = 3;

// In the cube [10 i, 10 i + 1], broken where the sum exceeds the smallest by `depth` of 3.
Property instance(int64_t i, double depth) {
  const auto lo = static_cast<float>(10 * i);
  const double bound = 30. * static_cast<double>(i) + depth;
  return property(kInputs, 1, {{cube(kInputs, lo, lo + 1.f), {{{above(0, bound)}}}}});
}

constexpr double kImpossible = 4.;

}  // namespace

TEST_CASE("run_campaign: several lanes share instances, models and the budget") {
  FakeModel one = FakeModel::sum(kInputs), two = FakeModel::sum(kInputs);
  one.add_tap();
  std::vector<Property> first, second;
  for (int64_t i = 0; i < 4; ++i) first.push_back(instance(i, i % 2 == 0 ? 2.5 : kImpossible));
  for (int64_t i = 0; i < 3; ++i) second.push_back(instance(i, 2.5));
  LoopOptions options = test_options(20000);
  options.threads = 4;
  const Outcome out = run({campaign_model(one, first), campaign_model(two, second)}, options);
  CHECK(out.result.lanes == 4);
  CHECK(out.result.totals.broken == 5);
  CHECK(out.findings.size() == 5);
  CHECK(out.result.totals.candidates >= 20000);
  CHECK(out.result.totals.candidates < 20000 + 4 * 8 * 2);
  CHECK(out.result.totals.candidates ==
        one.forward_rows + one.trace_rows + two.forward_rows + two.trace_rows);
}

TEST_CASE("run_campaign: lanes on the same instances do not repeat each other") {
  FakeModel model = FakeModel::sum(kInputs);
  std::set<std::pair<int64_t, int64_t>> distinct;
  model.on_candidate = [&](const at::Tensor& x) {
    const std::vector<int64_t> h = longs(hash_rows(x));
    for (size_t i = 0; i < h.size(); i += 2) distinct.emplace(h[i], h[i + 1]);
  };
  const std::vector<Property> properties = {instance(0, kImpossible)};
  LoopOptions options = test_options(4000);
  options.threads = 3;
  options.mutations = "random";
  const Outcome out = run({campaign_model(model, properties)}, options);
  CHECK(static_cast<int64_t>(distinct.size()) > out.result.totals.candidates * 9 / 10);
}

TEST_CASE("run_campaign: lanes end together when everything is broken or told to stop") {
  FakeModel model = FakeModel::sum(kInputs);
  LoopOptions options = test_options(0);
  options.threads = 4;
  const std::vector<Property> easy = {instance(0, 0.5), instance(1, 0.5)};
  CHECK(run({campaign_model(model, easy)}, options).result.totals.broken == 2);

  std::atomic<bool> stop = false;
  Collector collector;
  collector.meanwhile = [&](const Progress&) { stop = true; };
  const std::vector<Property> hard = {instance(0, kImpossible)};
  CHECK(run_campaign({campaign_model(model, hard)}, options, collector, stop).interrupted);
}

TEST_CASE("run_campaign: 0 lanes are one a core") {
  FakeModel model = FakeModel::sum(kInputs);
  LoopOptions options = test_options(100);
  options.threads = 0;
  const std::vector<Property> properties = {instance(0, kImpossible)};
  const CampaignResult result = run({campaign_model(model, properties)}, options).result;
  CHECK(result.lanes == std::max(1U, std::thread::hardware_concurrency()));
  CHECK(result.totals.candidates >= 100);
}

TEST_CASE("Finding: its seed and iteration make the shard find it again") {
  FakeModel model = FakeModel::sum(kInputs);
  const Property property = instance(0, 2.3);
  LoopOptions options = test_options(20000);
  options.mutations = "random,boundary";
  options.seed = 5;
  CampaignModel campaign{&model, {{&property, {}}}};
  const std::vector<Finding> findings = run({campaign}, options).findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].iteration > 0);

  const Property* const pointer = &property;
  const SpecTensors specs({&pointer, 1});
  SharedCoverage coverage(model, options);
  WorkerSetup setup;
  setup.model = &model;
  setup.specs = &specs;
  setup.originals = at::full({1, kInputs}, 0.5);
  setup.coverage = &coverage;
  setup.seed = findings[0].shard_seed;
  setup.instances = {0};
  Shard shard(setup, options);
  for (int64_t i = 0; i < findings[0].iteration; ++i) (void)shard.iterate(Deadline());
  const Iteration last = shard.iterate(Deadline());
  REQUIRE(!last.hits.empty());
  CHECK(at::equal(last.hits[0].x, findings[0].x));
  CHECK(last.hits[0].row == findings[0].row);
  CHECK(last.hits[0].parent == findings[0].parent);
  CHECK(last.hits[0].mutation == findings[0].mutation);
}
