#include "grapeshot/falsify/search.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/fake_model.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using falsify::Rows;
using falsify::Search;

namespace {

struct Bench {
  explicit Bench(std::vector<Property> given, int64_t inputs = 2)
      : properties(std::move(given)), model(FakeModel::sum(inputs)) {
    std::vector<const Property*> all;
    for (const Property& each : properties) all.push_back(&each);
    specs.emplace(all);
    setup.model = &model;
    setup.specs = &*specs;
    setup.originals = 0.5 * (specs->lo() + specs->hi());
    for (int64_t i = 0; i < specs->instances(); ++i) setup.instances.push_back(i);
    setup.seed = 1;
    search.emplace(setup);
    search->begin_round(setup.instances, 1., iteration, Deadline());
  }

  std::vector<Property> properties;
  FakeModel model;
  std::optional<SpecTensors> specs;
  WorkerSetup setup;
  std::optional<Search> search;
  Iteration iteration;
};

Property in_cubes(std::vector<float> lows, double bound) {
  std::vector<Region> regions;
  for (const float lo : lows) {
    regions.push_back({cube(2, lo, lo + 1.f), {{{below(0, bound)}}}});
  }
  return property(2, 1, std::move(regions));
}

}  // namespace

TEST_CASE("Search: rows are shared out over instances, and over an instance's regions in turn") {
  Bench bench({in_cubes({0.f, 2.f}, -1.), in_cubes({4.f}, -1.)});
  const Rows rows = bench.search->rows(6);
  CHECK(longs(rows.instance) == std::vector<int64_t>{0, 1, 0, 1, 0, 1});
  CHECK(longs(rows.region) == std::vector<int64_t>{0, 2, 1, 2, 0, 2});
  CHECK(at::equal(rows.spec.lo.select(1, 0), at::tensor({0.f, 4.f, 2.f, 4.f, 0.f, 4.f})));
}

TEST_CASE("Search: the best input of every instance is kept, and near misses with their regions") {
  Bench bench({in_cubes({0.f, 2.f}, 0.5)});
  Search& search = *bench.search;
  const Rows rows = search.rows(4);  // regions 0 1 0 1
  const at::Tensor x = at::tensor({1.f, 1.f, 2.f, 2.f, 0.5f, 0.5f, 3.f, 3.f}).view({4, 2});
  const at::Tensor margin = search.evaluate(x, rows);
  CHECK(at::allclose(margin, at::tensor({1.5f, 3.5f, 0.5f, 5.5f})));
  CHECK(search.best_margin().item<float>() == doctest::Approx(0.5));
  CHECK(at::equal(search.best_input().select(0, 0), x.select(0, 2)));
  const falsify::Stand near = search.near(2);
  CHECK(at::equal(near.x.select(0, 0), x.select(0, 2)));
  CHECK(longs(near.rows.region)[0] == 0);
  CHECK(bench.iteration.inputs_checked == 4);
}

TEST_CASE("Search: before anything was tried a near miss is the original") {
  Bench bench({in_cubes({0.f}, -1.)});
  const falsify::Stand near = bench.search->near(3);
  CHECK(at::equal(near.x, at::full({3, 2}, 0.5)));
  CHECK(near.margin.isinf().all().item<bool>());
}

TEST_CASE(
    "Search: a hit ends the round; after one that rounding undoes the next is clearly lower") {
  Bench bench({in_cubes({0.f}, 1.)});
  Search& search = *bench.search;
  const Rows rows = search.rows(1);
  CHECK(!search.over());
  const at::Tensor x = at::tensor({0.5f, 0.5f}).view({1, 2});
  (void)search.evaluate(x, rows);  // margin 0: violates
  CHECK(search.over());
  search.end_round("test", 0);
  REQUIRE(bench.iteration.hits.size() == 1);
  CHECK(bench.iteration.hits[0].mutation == "test");
  search.judged(bench.iteration.hits[0], false);
  Iteration next;
  search.begin_round({0}, 1., next, Deadline());
  (void)search.evaluate(x, rows);  // the same again
  CHECK(!search.over());
  (void)search.evaluate(at::tensor({0.4f, 0.5f}).view({1, 2}), rows);
  CHECK(search.over());
  CHECK(next.violations == 2);
  CHECK(next.distinct_violations == 1);
}

TEST_CASE("Search: a far violation that was refused does not hide nearer ones") {
  Bench bench({in_cubes({0.f}, 1.)});
  Search& search = *bench.search;
  const Rows rows = search.rows(1);
  (void)search.evaluate(at::tensor({0.f, 0.f}).view({1, 2}), rows);  // margin -1
  search.end_round("test", 0);
  search.judged(bench.iteration.hits.at(0), false);
  Iteration next;
  search.begin_round({0}, 1., next, Deadline());
  (void)search.evaluate(at::tensor({0.4f, 0.5f}).view({1, 2}), rows);  // margin -0.1
  CHECK(search.over());
}

TEST_CASE("Search: inputs that an attack made NaN are no finding of the network's") {
  Bench bench({in_cubes({0.f}, -1.)});
  const float nan = std::nanf("");
  (void)bench.search->evaluate(at::tensor({nan, 0.5f}).view({1, 2}), bench.search->rows(1));
  CHECK(!bench.search->met_nan());
}

TEST_CASE("lowest_margins: below every margin of the outputs between the bounds") {
  const Property p =
      property(2, 3, {{cube(2, 0.f, 1.f), {{{ordered(0, 1), below(2, 0.5)}}, {{above(2, 2.)}}}}});
  const Property* all[] = {&p};
  const SpecTensors specs(all);
  const at::Tensor lo = at::tensor({{0.f}, {0.2f}, {-1.f}}).view({1, 3});
  const at::Tensor hi = at::tensor({{1.f}, {0.4f}, {0.7f}}).view({1, 3});
  const RowSpec spec = specs.gather(at::zeros({1}, at::kLong));
  const at::Tensor lowest = falsify::lowest_margins({lo, hi}, spec);
  // Case 1: max(0 - 0.4, -1 - 0.5) = -0.4; case 2: 2 - 0.7.
  CHECK(lowest.item<float>() == doctest::Approx(-0.4));
  const at::Tensor u = at::rand({200, 3});
  const at::Tensor y = at::lerp(lo, hi, u);
  const at::Tensor m = margins(y, specs.gather(at::zeros({200}, at::kLong)));
  CHECK((m >= lowest - 1e-6).all().item<bool>());
}
