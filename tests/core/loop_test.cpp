#include "grapeshot/core/loop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

// Everything that a shard needs, for one model of `inputs` inputs that sums them up.
struct Bench {
  explicit Bench(std::vector<Property> all, int64_t inputs = 1)
      : properties(std::move(all)), model(FakeModel::sum(inputs)) {
    std::vector<const Property*> pointers;
    for (const Property& each : properties) pointers.push_back(&each);
    specs.emplace(pointers);
    originals = (specs->lo() + specs->hi()) * 0.5;
  }

  Shard shard(uint64_t seed = 1) {
    coverage.emplace(model, options);
    WorkerSetup setup;
    setup.model = &model;
    setup.specs = &*specs;
    setup.originals = originals;
    setup.coverage = &*coverage;
    setup.corpus_bytes = int64_t{1} << 20;
    setup.seed = seed;
    for (int64_t i = 0; i < specs->instances(); ++i) setup.instances.push_back(i);
    return {setup, options};
  }

  std::vector<Property> properties;
  FakeModel model;
  std::optional<SpecTensors> specs;
  std::optional<SharedCoverage> coverage;
  at::Tensor originals;
  LoopOptions options = test_options(0);
};

// [10 i, 10 i + 1], broken from `bound` on.
Property interval(int64_t i, double bound) {
  const auto lo = static_cast<float>(10 * i);
  return property(1, 1, {{cube(1, lo, lo + 1.f), {{{above(0, bound)}}}}});
}

constexpr double kNever = 1e6;

// Of 2,000 shards: the share whose second candidate comes from their first one.
double share_from_child(Bench& bench) {
  int64_t children = 0;
  constexpr int64_t kShards = 2000;
  for (int64_t seed = 0; seed < kShards; ++seed) {
    float last = 0.f;
    bench.model.on_candidate = [&](const at::Tensor& x) { last = x.item<float>(); };
    Shard shard = bench.shard(static_cast<uint64_t>(seed));
    (void)shard.iterate(Deadline());
    CHECK(std::abs(last - 0.5f) == 0.0625f);
    (void)shard.iterate(Deadline());
    // Half a step of 1/8 away from the original at 1/2, or none or a whole one.
    children += std::abs(last - 0.5f) == 0.0625f ? 0 : 1;
  }
  return static_cast<double>(children) / kShards;
}

// The paper's schedule on one interval, with steps of 1/16 up or down.
Bench paper_bench(double bound) {
  return Bench({interval(0, bound)});
}

void paper_options(LoopOptions& options) {
  options.schedule = "paper";
  options.mutations = "boundary";
  options.scale = "ani";
  options.scale_factor = 0.125;
  options.batch = "auto";
}

}  // namespace

TEST_CASE("iterate: a gradient candidate costs T gradient passes and one forward pass") {
  for (const char* schedule : {"fair", "paper"}) {
    for (const char* mutation : {"gradient", "descent"}) {
      CAPTURE(schedule);
      CAPTURE(mutation);
      Bench bench({interval(0, kNever)});
      bench.options.schedule = schedule;
      bench.options.mutations = mutation;
      bench.options.steps = 5;
      Shard shard = bench.shard();
      const Iteration i = shard.iterate(Deadline());
      CHECK(bench.model.gradient_rows == 8 * 5);
      CHECK(bench.model.forward_rows == 8);
      CHECK(bench.model.trace_rows == 0);
      CHECK(i.candidates == 8);
      CHECK(i.inputs_checked == 8 * 6);
      CHECK(i.cost == 8 * (5 * 2 + 1));
      CHECK(i.violations == 0);
      CHECK(i.hits.empty());
    }
  }
}

TEST_CASE(
    "iterate: one pass serves verdict and coverage, and records while there is a gain to be had") {
  Bench bench({interval(0, kNever)});
  bench.model.add_tap();
  bench.options.mutations = "random";
  bench.options.tau = 0.9;
  bench.options.scale_factor = 1.;
  bool gained = false;
  int64_t traced = 0, plain = 0;
  Shard shard = bench.shard();
  for (int k = 0; k < 50; ++k) {
    (void)shard.iterate(Deadline());
    (gained ? plain : traced) += 8;
    CHECK(bench.model.trace_rows == traced);
    CHECK(bench.model.forward_rows == plain);
    gained = bench.coverage->values()[0].second == 1.;
  }
  CHECK(gained);
  CHECK(plain > 0);
}

TEST_CASE("iterate: every iterate is judged, a violation on the way is a hit") {
  // The way from 0.5 in steps of 0.1 passes through [0.65, 0.75] and ends at 1; only there is it
  // broken.
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    Bench bench({property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, 0.65), below(0, 0.75)}}}}})});
    bench.model.pullback = [](const at::Tensor& x, const at::Tensor&) { return at::ones_like(x); };
    bench.options.schedule = schedule;
    bench.options.mutations = "gradient";
    bench.options.scale = "fixed";
    bench.options.eta = 0.5;
    bench.options.batch = "1";
    Shard shard = bench.shard();
    const Iteration i = shard.iterate(Deadline());
    CHECK(i.candidates == 1);
    CHECK(i.violations == 0);
    REQUIRE(i.hits.size() == 1);
    CHECK(near(i.hits[0].x.item<float>(), 0.7, 1e-6));
    CHECK(near(i.hits[0].margin, -0.05, 1e-6));
    CHECK(i.hits[0].mutation == "gradient");
    CHECK(i.hits[0].parent == 0);
    CHECK(shard.best_margin().item<float>() == i.hits[0].margin);
    CHECK(shard.best_input().item<float>() == i.hits[0].x.item<float>());
  }
}

TEST_CASE("iterate: a pass counts as a hit of the region that the row is in") {
  Bench bench({property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, kNever)}}}}}),
               property(1, 1,
                        {{cube(1, 10.f, 11.f), {{{above(0, kNever)}}}},
                         {cube(1, 20.f, 21.f), {{{above(0, 20.)}}}},
                         {cube(1, 30.f, 31.f), {{{above(0, kNever)}}}}})});
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    bench.options.schedule = schedule;
    Shard shard = bench.shard();
    int64_t hits = 0;
    for (int k = 0; k < 10; ++k) {
      for (const Hit& hit : shard.iterate(Deadline()).hits) {
        ++hits;
        CHECK(hit.instance == 1);
        CHECK(hit.region == 2);
        CHECK(hit.margin <= 0.f);
        CHECK((hit.x.item<float>() >= 20.f && hit.x.item<float>() <= 21.f));
      }
    }
    CHECK(hits > 0);
    CHECK(shard.best_margin().select(0, 0).item<float>() > 0.f);
  }
}

TEST_CASE("iterate: fair goes round the instances and the regions of each") {
  Bench bench({property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, kNever)}}}}}),
               property(1, 1,
                        {{cube(1, 10.f, 11.f), {{{above(0, kNever)}}}},
                         {cube(1, 20.f, 21.f), {{{above(0, kNever)}}}}})});
  std::map<int64_t, double> share;
  bench.model.on_candidate = [&](const at::Tensor& x) {
    for (const float v : floats(x)) share[static_cast<int64_t>(v / 10.f)] += 1. / (100 * 8);
  };
  Shard shard = bench.shard();
  for (int k = 0; k < 100; ++k) (void)shard.iterate(Deadline());
  CHECK(near(share[0], 0.5, 0.15));
  CHECK(near(share[1], 0.25, 0.1));
  CHECK(near(share[2], 0.25, 0.1));
}

TEST_CASE("retire: under fair no row stays on the instance") {
  Bench bench({interval(0, kNever), interval(1, kNever), interval(2, kNever)});
  std::map<int64_t, int64_t> rows;
  bench.model.on_candidate = [&](const at::Tensor& x) {
    for (const float v : floats(x)) ++rows[static_cast<int64_t>(v / 10.f)];
  };
  Shard shard = bench.shard();
  for (int k = 0; k < 5; ++k) (void)shard.iterate(Deadline());
  CHECK(rows.size() == 3);
  CHECK(shard.unbroken() == 3);
  shard.retire(1);
  CHECK(shard.unbroken() == 2);
  CHECK(shard.active() == std::vector<int64_t>{0, 2});
  rows.clear();
  for (int k = 0; k < 30; ++k) (void)shard.iterate(Deadline());
  CHECK(!rows.contains(1));
  CHECK(rows[0] + rows[2] == 30 * 8);
  CHECK(rows[0] > 80);
  CHECK(rows[2] > 80);
  shard.retire(0);
  shard.retire(2);
  const Iteration none = shard.iterate(Deadline());
  CHECK(none.candidates == 0);
  CHECK(none.inputs_checked == 0);
}

TEST_CASE("iterate: an expired deadline makes no candidate") {
  for (const char* schedule : {"fair", "paper"}) {
    Bench bench({interval(0, kNever)});
    bench.options.schedule = schedule;
    Shard shard = bench.shard();
    const Iteration i = shard.iterate(Deadline(0., nullptr));
    CHECK(i.candidates == 0);
    CHECK(i.inputs_checked == 0);
    CHECK(bench.model.forward_rows + bench.model.gradient_rows == 0);
    CHECK(shard.iterate(Deadline()).candidates == shard.batch());
  }
}

TEST_CASE("paper: B is the number of instances, and one mutation changes the whole batch") {
  std::vector<Property> properties;
  for (int64_t i = 0; i < 7; ++i) properties.push_back(interval(i, kNever));
  Bench bench(properties);
  bench.options.schedule = bench.options.mutations = "paper";
  bench.options.batch = "auto";
  Shard shard = bench.shard();
  CHECK(shard.batch() == 7);
  int64_t with_gradient = 0;
  constexpr int64_t kIterations = 1000;
  for (int64_t k = 0; k < kIterations; ++k) {
    const int64_t before = bench.model.gradient_rows;
    CHECK(shard.iterate(Deadline()).candidates == 7);
    const int64_t rows = bench.model.gradient_rows - before;
    CHECK((rows == 0 || rows == 7 * 10));
    with_gradient += rows > 0 ? 1 : 0;
  }
  // Half of them, Table 2; 5 standard deviations are 79.
  CHECK(std::abs(with_gradient - kIterations / 2) < 79);
}

TEST_CASE("fair: rows of one batch have mutations of their own") {
  Bench bench({interval(0, kNever)});
  bench.options.mutations = "gradient,random";
  bench.options.batch = "64";
  Shard shard = bench.shard();
  (void)shard.iterate(Deadline());
  CHECK(bench.model.forward_rows == 64);
  CHECK(bench.model.gradient_rows > 16 * 10);
  CHECK(bench.model.gradient_rows < 48 * 10);
}

TEST_CASE("paper: a candidate that neither gains nor violates is not kept") {
  Bench bench = paper_bench(kNever);
  paper_options(bench.options);
  CHECK(share_from_child(bench) == 0.);
}

TEST_CASE("paper: a violation has the energy beta, 100 to the original's 1") {
  Bench bench = paper_bench(0.);
  paper_options(bench.options);
  bench.options.keep_going = true;
  CHECK(near(share_from_child(bench), 100. / 101., 0.01));
}

TEST_CASE("paper: new coverage has the energy alpha, 10") {
  Bench bench = paper_bench(kNever);
  bench.model.add_tap();
  paper_options(bench.options);
  CHECK(near(share_from_child(bench), 10. / 11., 0.03));
}

TEST_CASE("paper: the energies of a violation with new coverage add up") {
  Bench bench = paper_bench(0.);
  bench.model.add_tap();
  paper_options(bench.options);
  bench.options.keep_going = true;
  bench.options.alpha = 1.;
  bench.options.beta = 2.;
  CHECK(near(share_from_child(bench), 3. / 4., 0.045));
}

TEST_CASE("paper: no energy is below e_min") {
  Bench bench = paper_bench(kNever);
  bench.model.add_tap();
  paper_options(bench.options);
  bench.options.alpha = 0.;
  CHECK(near(share_from_child(bench), 0.1 / 1.1, 0.03));
}

TEST_CASE("micro_batch: more rows for smaller networks, never fewer than 16 nor more than 1024") {
  const auto rows = [](int64_t inputs) { return micro_batch(FakeModel::sum(inputs)); };
  CHECK(rows(1) == 1024);
  CHECK(rows(10'000'000) == 16);
  CHECK(rows(10'000) < rows(2'000));
  CHECK(rows(10'000) > 16);
}

TEST_CASE("SharedCoverage: redundant taps count where every tap does") {
  class Taps : public FakeModel {
   public:
    Taps() : FakeModel(FakeModel::sum(1)) {}
    [[nodiscard]] const std::vector<Tap>& taps() const override { return taps_; }

   private:
    std::vector<Tap> taps_ = {
        {"conv", false, true, 4}, {"relu", true, false, 4}, {"out", false, false, 2}};
  };
  const Taps model;
  LoopOptions options;
  SharedCoverage own(model, options);
  CHECK(own.wanted().taps == std::vector<int64_t>{1, 2});
  CHECK(floats(own.update({1, 2}, {{}, {at::ones({1, 4}), at::zeros({1, 2})}})) ==
        std::vector<float>{4.f});
  CHECK(own.values() == std::vector<std::pair<std::string, double>>{{"nc", 4. / 6.}});
  CHECK(own.wanted().taps == std::vector<int64_t>{2});  // the other has nothing more to gain
  CHECK(floats(own.update({2}, {{}, {at::ones({1, 2})}})) == std::vector<float>{2.f});
  CHECK(own.wanted().taps.empty());  // nothing more to gain, nothing to record
  options.every_tap = true;
  CHECK(SharedCoverage(model, options).wanted().taps == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE(
    "SharedCoverage: without a criterion nothing is recorded, and what is only reported does not "
    "drive") {
  FakeModel model = FakeModel::sum(1);
  model.add_tap();
  LoopOptions options;
  options.criterion = "none";
  SharedCoverage none(model, options);
  CHECK(none.wanted().taps.empty());
  CHECK(none.values().empty());
  options.criteria = "nc";
  SharedCoverage reported(model, options);
  CHECK(reported.wanted().taps == std::vector<int64_t>{0});
  const at::Tensor gain = reported.update({0}, {{}, {at::ones({2, 1})}});
  CHECK((!gain.defined() || gain.eq(0).all().item<bool>()));
  CHECK(reported.values() == std::vector<std::pair<std::string, double>>{{"nc", 1.}});
}

TEST_CASE("iterate: no pass sees a bit of a mask that is no bit, padding that moved, or too many") {
  // Two inputs, a mask of four tokens, the last of them padding with the input that belongs to it.
  for (const char* schedule : {"fair", "paper"}) {
    for (const char* scale : {"ani", "iso", "fixed"}) {
      CAPTURE(schedule);
      CAPTURE(scale);
      Property p =
          property(6, 1,
                   {{box({0.f, 0.25f, 1.f, 1.f, 1.f, 0.f}, {1.f, 0.25f, 1.f, 1.f, 1.f, 0.f}),
                     {{{above(0, kNever)}}}}});
      p.regions[0].box.droppable = {2, 3, 4};
      p.regions[0].box.most_dropped = 2;
      Bench bench({p}, 6);
      bench.options.schedule = schedule;
      bench.options.scale = scale;
      bench.options.mutations = "gradient,boundary,random,descent,flip,mask";
      bench.options.batch = "32";
      int64_t rows = 0, dropped = 0;
      const auto look = [&](const at::Tensor& x) {
        const at::Tensor bits = x.slice(1, 2, 5);
        CHECK(bits.eq(0).logical_or(bits.eq(1)).all().item<bool>());
        CHECK(bits.eq(0).sum(1).le(2).all().item<bool>());
        CHECK(x.select(1, 1).eq(0.25).all().item<bool>());
        CHECK(x.select(1, 5).eq(0.).all().item<bool>());
        rows += x.size(0);
        return bits.eq(0).any(1).sum().item<int64_t>();
      };
      bench.model.on_candidate = look;
      bench.model.on_iterate = [&](const at::Tensor& x) { dropped += look(x); };
      Shard shard = bench.shard();
      for (int k = 0; k < 60; ++k) (void)shard.iterate(Deadline());
      CHECK(rows > 1000);
      // Gradients move what has tokens dropped, and leave them so.
      if (schedule == std::string("fair")) CHECK(dropped > rows / 20);
    }
  }
}

TEST_CASE("shard: mutations of masks are left out where there are none") {
  Bench bench({interval(0, kNever)});
  bench.options.mutations = "mask";
  CHECK_THROWS(bench.shard());
}
