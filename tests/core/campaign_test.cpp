#include "grapeshot/core/campaign.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/files.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kInputs = 3;

// Instance `i` lives in the cube [10 i, 10 i + 1]; it is broken where the sum of the inputs exceeds
// the cube's smallest by `depth`: 1 to 3 is hard to impossible, 4 is impossible.
Property instance(int64_t i, double depth) {
  const auto lo = static_cast<float>(10 * i);
  return property(
      kInputs, 1,
      {{cube(kInputs, lo, lo + 1.f), {{{above(0, 30. * static_cast<double>(i) + depth)}}}}});
}

constexpr double kEasy = 2., kImpossible = 4.;

// Rows of verdict passes per instance of `instance`.
class RowCounter {
 public:
  explicit RowCounter(FakeModel& model) {
    model.on_candidate = [this](const at::Tensor& x) {
      for (const float v : floats(x.select(1, 0))) {
        const auto i = static_cast<int64_t>(v / 10.f);
        ++rows[i];
        if (order.empty() || order.back() != i) order.push_back(i);
      }
    };
  }

  std::map<int64_t, int64_t> rows;
  std::vector<int64_t> order;  // of instances, without repetitions
};

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

std::string fingerprint(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) {
    for (const float v : floats(f.x)) out += str(v, ' ');
    out += str(f.instance, ' ', f.mutation, ' ', f.iteration, ' ', f.row, ' ', f.parent, ' ',
               f.shard_seed, '\n');
  }
  return out;
}

}  // namespace

TEST_CASE("run_campaign: confirmed counterexamples of every instance that has one, then it ends") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> properties = {instance(0, kEasy), instance(1, kEasy),
                                            instance(2, kEasy)};
  Outcome out;
  const double seconds =
      seconds_of([&] { out = run({campaign_model(model, properties)}, test_options(0)); });
  CHECK(seconds < 20.);  // of 60
  CHECK(!out.result.interrupted);
  CHECK(out.result.totals.broken == 3);
  CHECK(out.result.totals.instances == 3);
  CHECK(out.result.totals.findings == 3);
  CHECK(out.result.totals.ttfv_s >= 0.);
  CHECK(out.result.lanes == 1);
  CHECK(out.result.batch == std::vector<int64_t>{8});
  REQUIRE(out.findings.size() == 3);
  std::vector<int64_t> broken;
  for (const Finding& f : out.findings) {
    broken.push_back(f.instance);
    const Property& p = properties[static_cast<size_t>(f.instance)];
    const std::vector<float> x = floats(f.x);
    CHECK(contains(p.regions[0].box, x));
    CHECK(judge(p, x, doubles(model.evaluate(f.x.unsqueeze(0)))).violates);
    CHECK(f.confirmation.clear);
    CHECK(f.model == 0);
    CHECK(f.region == 0);
    CHECK(!f.mutation.empty());
    CHECK(floats(f.original) ==
          std::vector<float>(3, 10.f * static_cast<float>(f.instance) + 0.5f));
    const InstanceResult& r = out.result.instances[static_cast<size_t>(f.instance)];
    CHECK(r.findings == 1);
    CHECK(r.seconds_to_first == f.seconds);
    CHECK(r.best_margin == f.confirmation.verdict32.margin);
    CHECK(at::equal(r.closest, f.x));
  }
  std::ranges::sort(broken);
  CHECK(broken == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("run_campaign: counts are those of the passes that the model saw") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> properties = {instance(0, kImpossible), instance(1, kImpossible)};
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    model.forward_rows = model.gradient_rows = 0;
    LoopOptions options = test_options(200);
    options.schedule = schedule;
    options.mutations = "gradient,random";
    const Progress p = run({campaign_model(model, properties)}, options).result.totals;
    CHECK(p.candidates == model.forward_rows);
    CHECK(p.inputs_checked == model.forward_rows + model.gradient_rows);
    CHECK(p.cost == kInputs * (model.forward_rows + 2 * model.gradient_rows));
    CHECK(p.candidates == 200);  // a multiple of the batch
    CHECK(p.findings == 0);
    CHECK(p.violations == 0);
    CHECK(p.broken == 0);
    CHECK(p.ttfv_s == -1.);
  }
}

TEST_CASE("run_campaign: fair gives every unbroken instance its share") {
  FakeModel model = FakeModel::sum(kInputs);
  RowCounter counter(model);
  std::vector<Property> properties;
  for (int64_t i = 0; i < 5; ++i) properties.push_back(instance(i, kImpossible));
  (void)run({campaign_model(model, properties)}, test_options(4000));
  CHECK(counter.rows.size() == 5);
  for (const auto& [i, rows] : counter.rows) {
    CAPTURE(i);
    CHECK(rows > 4000 / 5 * 7 / 10);
    CHECK(rows < 4000 / 5 * 13 / 10);
  }
}

TEST_CASE("run_campaign: under fair a broken instance retires and its rows go to the others") {
  FakeModel model = FakeModel::sum(kInputs);
  RowCounter counter(model);
  const std::vector<Property> properties = {instance(0, 0.5), instance(1, kImpossible),
                                            instance(2, 0.5), instance(3, kImpossible)};
  const Outcome out = run({campaign_model(model, properties)}, test_options(4000));
  CHECK(out.result.totals.broken == 2);
  CHECK(counter.rows[0] <= 64);
  CHECK(counter.rows[2] <= 64);
  CHECK(counter.rows[1] > 1300);
  CHECK(counter.rows[3] > 1300);
  CHECK(out.result.instances[0].findings == 1);
  CHECK(out.result.instances[1].findings == 0);
  CHECK(out.result.instances[1].seconds_to_first == -1.);
}

TEST_CASE("run_campaign: an instance that does not break shows how close it was") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> properties = {instance(0, kImpossible)};
  const Outcome out = run({campaign_model(model, properties)}, test_options(400));
  const InstanceResult& r = out.result.instances[0];
  CHECK(r.best_margin == 1.);  // 4 minus the sum at the upper corner
  CHECK(floats(r.closest) == std::vector<float>{1.f, 1.f, 1.f});
  CHECK(r.candidates == 400);
  CHECK(out.result.totals.best_margin == 1.);
}

TEST_CASE("run_campaign: keep_going goes on with what is broken, and reports no more of it") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> properties = {instance(0, 0.5)};
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    LoopOptions options = test_options(2000);
    options.schedule = schedule;
    options.keep_going = true;
    const Outcome out = run({campaign_model(model, properties)}, options);
    CHECK(out.result.totals.candidates == 2000);
    CHECK(out.result.totals.violations > 1000);
    CHECK(out.result.totals.distinct_violations <= out.result.totals.violations);
    CHECK(out.result.totals.distinct_violations > 0);
    CHECK(out.findings.size() == 1);
  }
}

TEST_CASE("run_campaign: per_instance counterexamples of each, all different") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> properties = {instance(0, kEasy), instance(1, kEasy)};
  LoopOptions options = test_options(20000);
  options.per_instance = 4;
  const Outcome out = run({campaign_model(model, properties)}, options);
  CHECK(out.findings.size() == 8);
  CHECK(out.result.totals.findings == 8);
  CHECK(out.result.totals.broken == 2);
  CHECK(out.result.totals.candidates < 20000);
  std::map<std::string, int64_t> distinct;
  for (const Finding& f : out.findings) ++distinct[str(f.instance, ' ', f.x)];
  CHECK(distinct.size() == 8);
  for (const InstanceResult& r : out.result.instances) CHECK(r.findings == 4);
}

TEST_CASE("run_campaign: the same seed finds the same, another one something else") {
  FakeModel model = FakeModel::sum(kInputs);
  std::vector<Property> properties;
  for (int64_t i = 0; i < 6; ++i) properties.push_back(instance(i, 2.5));
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    const auto with_seed = [&](uint64_t seed) {
      LoopOptions options = test_options(2000);
      options.schedule = schedule;
      options.per_instance = 3;
      options.seed = seed;
      return fingerprint(run({campaign_model(model, properties)}, options).findings);
    };
    const std::string one = with_seed(1);
    CHECK(!one.empty());
    CHECK(one == with_seed(1));
    CHECK(one != with_seed(2));
  }
}

TEST_CASE(
    "run_campaign: instances of two models are numbered through, each has its share of work") {
  FakeModel small = FakeModel::sum(kInputs);
  FakeModel large(at::ones({1, kInputs}).expand({8, kInputs}).contiguous(), at::zeros({8}));
  large.set_name("large");
  const std::vector<Property> first = {instance(0, kEasy), instance(1, kImpossible)};
  const std::vector<Property> second = {
      property(kInputs, 8, {{cube(kInputs, 0.f, 1.f), {{{above(7, kEasy)}}}}}),
      property(kInputs, 8, {{cube(kInputs, 0.f, 1.f), {{{above(7, kImpossible)}}}}}),
      property(kInputs, 8, {{cube(kInputs, 0.f, 1.f), {{{above(3, kEasy)}}}}})};
  const Outcome out =
      run({campaign_model(small, first), campaign_model(large, second)}, test_options(9000));
  REQUIRE(out.result.instances.size() == 5);
  std::vector<int64_t> findings;
  for (const InstanceResult& r : out.result.instances) findings.push_back(r.findings);
  CHECK(findings == std::vector<int64_t>{1, 0, 1, 0, 1});
  for (const Finding& f : out.findings) CHECK(f.model == (f.instance < 2 ? 0 : 1));
  // One unbroken instance each: the same multiply-adds, so 8 times the rows for the small one.
  const auto rows = [](const FakeModel& m) {
    return static_cast<double>(m.forward_rows + 3 * m.gradient_rows);
  };
  CHECK(rows(small) / rows(large) > 5.);
  CHECK(rows(small) / rows(large) < 12.);
  CHECK(out.result.batch.size() == 2);
}

TEST_CASE("run_campaign: when one model's instances are broken the others get all of the rest") {
  FakeModel done = FakeModel::sum(kInputs), open = FakeModel::sum(kInputs);
  const std::vector<Property> easy = {instance(0, 0.5)}, hard = {instance(0, kImpossible)};
  const Outcome out =
      run({campaign_model(done, easy), campaign_model(open, hard)}, test_options(2000));
  CHECK(out.result.totals.broken == 1);
  CHECK(done.forward_rows <= 16);
  CHECK(open.forward_rows >= 1984);
}

TEST_CASE("run_campaign: seconds_per_instance takes one instance after the other") {
  FakeModel model = FakeModel::sum(kInputs);
  RowCounter counter(model);
  const std::vector<Property> properties = {instance(0, kImpossible), instance(1, 0.5),
                                            instance(2, kImpossible)};
  LoopOptions options = test_options(0);
  options.seconds = 0.;
  options.seconds_per_instance = 0.2;
  Outcome out;
  const double seconds =
      seconds_of([&] { out = run({campaign_model(model, properties)}, options); });
  CHECK(counter.order == std::vector<int64_t>{0, 1, 2});
  CHECK(seconds > 0.35);
  CHECK(seconds < 10.);
  CHECK(out.result.totals.broken == 1);
  CHECK(out.findings.size() == 1);
  // From the start of its own turn, not of the campaign.
  CHECK(out.findings[0].seconds >= 0.2);
  CHECK(out.result.instances[1].seconds_to_first < 0.2);
  CHECK(out.result.instances[0].best_margin == 1.);
  CHECK(out.result.instances[2].best_margin == 1.);
}

TEST_CASE("run_campaign: seq-fixed mutates one row at a time") {
  FakeModel model = FakeModel::sum(kInputs);
  int64_t widest = 0;
  model.on_candidate = [&](const at::Tensor& x) { widest = std::max(widest, x.size(0)); };
  const std::vector<Property> properties = {instance(0, kImpossible), instance(1, kImpossible)};
  LoopOptions options = test_options(0);
  apply_mode(options, "seq-fixed");
  options.seconds_per_instance = 0.05;
  const Outcome out = run({campaign_model(model, properties)}, options);
  CHECK(widest == 1);
  CHECK(out.result.totals.candidates == model.forward_rows);
}

TEST_CASE("run_campaign: an instance's own original is where its search begins") {
  FakeModel model = FakeModel::sum(kInputs);
  const Property p = instance(0, kEasy);
  const at::Tensor original = vector({0.25f, 0.5f, 0.75f});
  const Outcome out = run({{&model, {{&p, original}}}}, test_options(0));
  REQUIRE(out.findings.size() == 1);
  CHECK(at::equal(out.findings[0].original, original));
}

TEST_CASE("run_campaign: what an observer throws ends the campaign and reaches the caller") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> properties = {instance(0, kEasy), instance(1, kImpossible)};
  const std::atomic<bool> stop = false;
  for (const int64_t threads : {1, 3}) {
    LoopOptions options = test_options(0);
    options.threads = threads;
    Collector on_finding;
    on_finding.then = [](const Finding&) { throw Error(ErrorCode::kSystem, "disk full"); };
    double seconds = seconds_of([&] {
      CHECK(message_of(ErrorCode::kSystem, [&] {
              (void)run_campaign({campaign_model(model, properties)}, options, on_finding, stop);
            }) == "disk full");
    });
    CHECK(seconds < 20.);
    CHECK(on_finding.findings.size() == 1);

    Collector on_progress;
    on_progress.meanwhile = [](const Progress&) { throw std::runtime_error("pipe closed"); };
    seconds = seconds_of([&] {
      CHECK_THROWS_WITH_AS(
          (void)run_campaign({campaign_model(model, properties)}, options, on_progress, stop),
          "pipe closed", std::runtime_error);
    });
    CHECK(seconds < 20.);
  }
}

TEST_CASE("run_campaign: what a model throws reaches the caller too") {
  FakeModel model = FakeModel::sum(kInputs);
  model.function = [](const at::Tensor&) -> at::Tensor {
    throw std::runtime_error("out of memory");
  };
  const std::vector<Property> properties = {instance(0, kEasy)};
  CHECK_THROWS_WITH_AS((void)run({campaign_model(model, properties)}, test_options(0)),
                       "out of memory", std::runtime_error);
}

TEST_CASE("run_campaign: the stop flag ends it within a step") {
  FakeModel model = FakeModel::sum(kInputs);
  const std::vector<Property> properties = {instance(0, kImpossible)};
  for (const char* mutations : {"gradient", "random"}) {
    CAPTURE(mutations);
    std::atomic<bool> stop = false;
    int64_t passes = 0, after = 0;
    const auto count = [&](const at::Tensor&) {
      after += stop ? 1 : 0;
      if (++passes == 100) stop = true;
    };
    model.on_candidate = model.on_iterate = count;
    LoopOptions options = test_options(0);
    options.mutations = mutations;
    Collector collector;
    const CampaignResult result =
        run_campaign({campaign_model(model, properties)}, options, collector, stop);
    CHECK(result.interrupted);
    CHECK(after <= 1);  // the forward pass of the candidates that were under way
    CHECK(result.totals.inputs_checked == 8 * (100 + after));
  }
}

TEST_CASE("run_campaign: a network that gives NaN breaks nothing") {
  FakeModel model = FakeModel::sum(kInputs);
  model.function = [](const at::Tensor& x) { return x.sum(1, true) * kNan; };
  model.pullback = [](const at::Tensor& x, const at::Tensor&) { return at::full_like(x, kNan); };
  model.add_tap();
  const std::vector<Property> properties = {instance(0, 0.)};
  for (const char* schedule : {"fair", "paper"}) {
    CAPTURE(schedule);
    LoopOptions options = test_options(500);
    options.schedule = schedule;
    const Outcome out = run({campaign_model(model, properties)}, options);
    CHECK(out.findings.empty());
    CHECK(out.result.totals.candidates >= 500);
    CHECK(out.result.totals.violations == 0);
    CHECK(out.result.instances[0].best_margin == kInf);
  }
}

TEST_CASE(
    "run_campaign: a proposal that the confirming evaluation refuses is counted, not reported") {
  FakeModel model = FakeModel::sum(kInputs);
  model.function = [](const at::Tensor& x) {  // float64 disagrees
    return x.scalar_type() == at::kFloat ? at::full({x.size(0), 1}, 9.f)
                                         : at::zeros({x.size(0), 1}, at::kDouble);
  };
  const std::vector<Property> properties = {instance(0, kEasy)};
  const Outcome out = run({campaign_model(model, properties)}, test_options(200));
  CHECK(out.findings.empty());
  CHECK(out.result.totals.broken == 0);
  CHECK(out.result.totals.borderline > 0);
  CHECK(out.result.totals.violations == 200);
}

TEST_CASE("run_campaign: a property that does not fit its model is refused") {
  FakeModel model = FakeModel::sum(kInputs);
  model.set_name("net.onnx");
  const std::vector<Property> inputs = {instance(0, kEasy),
                                        property(2, 1, {{cube(2, 0.f, 1.f), {}}})};
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
          (void)run({campaign_model(model, inputs)}, test_options(10));
        }) == "the specification has 2 inputs and 1 outputs, net.onnx has 3 and 1");
  const std::vector<Property> outputs = {property(3, 2, {{cube(3, 0.f, 1.f), {{{below(1, 0.)}}}}})};
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
          (void)run({campaign_model(model, outputs)}, test_options(10));
        }) == "the specification has 3 inputs and 2 outputs, net.onnx has 3 and 1");
  CHECK(model.forward_rows == 0);
}

TEST_CASE("run_campaign: one input breaks every instance that it violates") {
  FakeModel model = FakeModel::sum(kInputs);
  // Only the upper corner is far enough, for both.
  const std::vector<Property> properties = {instance(0, 3.), instance(0, 3.)};
  const Outcome out = run({campaign_model(model, properties)}, test_options(2000));
  CHECK(out.result.totals.broken == 2);
  REQUIRE(out.findings.size() == 2);
  CHECK(at::equal(out.findings[0].x, out.findings[1].x));
}

TEST_CASE("run_campaign: a box without a float in it is not searched, and nothing is found there") {
  FakeModel model = FakeModel::sum(kInputs);
  RowCounter counter(model);
  Property empty = instance(1, -100.);  // broken everywhere, if there were anything
  empty.regions[0].box.lo[0] = std::nextafter(empty.regions[0].box.hi[0], 100.f);
  empty.regions[0].box.empty = true;
  Property partly = instance(2, kImpossible);
  partly.regions.push_back(empty.regions[0]);
  const std::vector<Property> properties = {empty, instance(0, kImpossible), partly};
  for (const bool keep_going : {false, true}) {
    for (const char* schedule : {"fair", "paper"}) {
      CAPTURE(keep_going);
      CAPTURE(schedule);
      LoopOptions options = test_options(400);
      options.keep_going = keep_going;
      options.schedule = schedule;
      const Outcome mixed = run({campaign_model(model, properties)}, options);
      CHECK(mixed.result.totals.candidates == 400);
      CHECK(mixed.result.totals.violations == 0);
      CHECK(mixed.result.totals.borderline == 0);
      CHECK(mixed.findings.empty());
      CHECK(mixed.result.instances[0].candidates == 0);
      CHECK(mixed.result.instances[0].best_margin == kInf);
      // With nothing else to search the campaign is over at once.
      const Outcome alone = run({campaign_model(model, {empty})}, options);
      CHECK(alone.result.totals.candidates == 0);
      CHECK(alone.result.totals.broken == 0);
    }
  }
}

TEST_CASE("run_campaign: candidates are counted for the instance that they were made for") {
  FakeModel model = FakeModel::sum(kInputs);
  RowCounter counter(model);
  const std::vector<Property> properties = {instance(0, 0.5), instance(1, kImpossible),
                                            instance(2, kImpossible)};
  const Outcome out = run({campaign_model(model, properties)}, test_options(800));
  for (size_t i = 0; i < properties.size(); ++i) {
    CHECK(out.result.instances[i].candidates == counter.rows[static_cast<int64_t>(i)]);
  }
}
