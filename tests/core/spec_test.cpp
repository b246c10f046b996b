#include "grapeshot/core/spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/denormals.h"
#include "tests/support/files.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

using Random = std::mt19937_64;

int32_t below_n(Random& random, int32_t n) {
  return std::uniform_int_distribution<int32_t>(0, n - 1)(random);
}

// A multiple of 1/4 in [-4, 4]: sums of a few of them are exact in float32.
double quarter(Random& random) {
  return 0.25 * (below_n(random, 33) - 16);
}

LinearRow random_row(Random& random, int32_t outputs) {
  LinearRow row{.terms = {}, .bound = quarter(random)};
  for (int32_t j = 0; j < outputs; ++j) {
    const int32_t coefficient = below_n(random, 5) - 2;
    if (coefficient != 0) row.terms.push_back({j, static_cast<double>(coefficient)});
  }
  if (row.terms.empty()) row.terms.push_back({below_n(random, outputs), 1.});
  return row;
}

// The cases of a region of `kind`, over `outputs` outputs.
std::vector<Case> random_cases(Random& random, const std::string& kind, int32_t outputs) {
  std::vector<Case> cases;
  const int32_t several = 2 + below_n(random, 3);
  if (kind == "top1") return top1(below_n(random, outputs), outputs);
  if (kind == "margin") {
    for (int32_t c = 0; c < several; ++c) {
      const int32_t low = below_n(random, outputs - 1);
      LinearRow row = below_n(random, 2) == 0 ? ordered(low, low + 1) : ordered(low + 1, low);
      row.bound = quarter(random) + 0.125;  // not 0, so that it is never top-1
      cases.push_back({{row}});
    }
  } else if (kind == "range") {
    cases.push_back({{below(below_n(random, outputs), quarter(random))}});
    cases.push_back({{above(below_n(random, outputs), quarter(random))}});
  } else {
    for (int32_t c = 0; c < (kind == "linear" ? 1 : several); ++c) {
      Case each;
      const int32_t rows = 2 + below_n(random, 3);
      for (int32_t m = 0; m < rows; ++m) each.rows.push_back(random_row(random, outputs));
      cases.push_back(std::move(each));
    }
  }
  return cases;
}

constexpr int32_t kOutputs = 4;

// Properties with 1 to 3 regions each; region r of all of them is the box [10 r, 10 r + 1].
std::vector<Property> random_properties(Random& random, const std::string& kind, size_t count) {
  std::vector<Property> out;
  int64_t r = 0;
  for (size_t i = 0; i < count; ++i) {
    Property p = property(2, kOutputs, {});
    for (int32_t k = 0; k <= below_n(random, 3); ++k, ++r) {
      const auto lo = static_cast<float>(10 * r);
      const std::string own =
          kind == "mixed"
              ? std::string(output_kinds()[static_cast<size_t>(below_n(random, 5))].name)
              : kind;
      p.regions.push_back(
          {box({lo, -lo - 1.f}, {lo + 1.f, -lo}), random_cases(random, own, kOutputs)});
    }
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<const Property*> pointers(const std::vector<Property>& properties) {
  std::vector<const Property*> out;
  for (const Property& each : properties) out.push_back(&each);
  return out;
}

at::Tensor random_outputs(Random& random, int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n * kOutputs; ++i) values.push_back(static_cast<float>(quarter(random)));
  return matrix(n, kOutputs, values);
}

at::Tensor random_regions(Random& random, int64_t n, int64_t regions) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(below_n(random, static_cast<int32_t>(regions)));
  }
  return indices(values);
}

const Property& property_of(const std::vector<Property>& properties, const SpecTensors& specs,
                            int64_t region) {
  return properties[static_cast<size_t>(specs.instance().select(0, region).item<int64_t>())];
}

std::vector<std::string> kinds() {
  std::vector<std::string> names = {"mixed"};
  for (const OutputKind& kind : output_kinds()) names.emplace_back(kind.name);
  return names;
}

}  // namespace

TEST_CASE("output_kinds: five kinds, the first that matches names a region") {
  REQUIRE(output_kinds().size() == 5);
  Random random(3);
  for (const OutputKind& kind : output_kinds()) {
    CAPTURE(kind.name);
    CHECK(!kind.summary.empty());
    for (int i = 0; i < 20; ++i) {
      const Region region{cube(1, 0.f, 1.f),
                          random_cases(random, std::string(kind.name), kOutputs)};
      CHECK(output_kind(region, kOutputs).name == kind.name);
    }
  }
}

TEST_CASE("margins: equal to judge() on random properties of every kind, instances mixed") {
  Random random(1);
  for (const std::string& kind : kinds()) {
    CAPTURE(kind);
    for (int trial = 0; trial < 20; ++trial) {
      const std::vector<Property> properties = random_properties(random, kind, 5);
      const SpecTensors specs(pointers(properties));
      CHECK(specs.instances() == 5);
      CHECK((kind != "top1" || specs.top1()));
      const int64_t n = 32;
      const at::Tensor region = random_regions(random, n, specs.regions());
      const RowSpec rows = specs.gather(region);
      const at::Tensor y = random_outputs(random, n);
      const std::vector<float> got = floats(margins(y, rows));
      int violating = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t r = region.select(0, i).item<int64_t>();
        const Verdict verdict = judge(property_of(properties, specs, r),
                                      floats(specs.lo().select(0, r)), doubles(y.select(0, i)));
        REQUIRE(verdict.region >= 0);
        CHECK(static_cast<double>(got[static_cast<size_t>(i)]) == verdict.margin);
        violating += verdict.violates ? 1 : 0;
      }
      if (kind == "range") CHECK(violating > 0);
    }
  }
}

TEST_CASE("margins: permuted rows give permuted results, every row by its own region") {
  Random random(2);
  for (const std::string& kind : kinds()) {
    CAPTURE(kind);
    const std::vector<Property> properties = random_properties(random, kind, 6);
    const SpecTensors specs(pointers(properties));
    const int64_t n = 64;
    const at::Tensor region = random_regions(random, n, specs.regions());
    const at::Tensor y = random_outputs(random, n), x = at::randn({n, 2}) * 100.;
    at::Tensor order = at::randperm(n, at::kLong);
    const RowSpec plain = specs.gather(region);
    const RowSpec permuted = specs.gather(region.index_select(0, order));
    const auto mixed = [&](const at::Tensor& t) { return t.index_select(0, order); };
    CHECK(at::equal(margins(mixed(y), permuted), mixed(margins(y, plain))));
    CHECK(at::equal(project(mixed(x), permuted), mixed(project(x, plain))));
    for (const Loss loss : {Loss::kHinge, Loss::kCrossEntropy}) {
      CHECK(relative_gap(loss_gradient(mixed(y), permuted, loss),
                         mixed(loss_gradient(y, plain, loss))) < 1e-6);
    }
    // Rows that name another region than their own are told apart by it.
    const at::Tensor wrong = margins(y, specs.gather(region.roll(1)));
    CHECK(!at::equal(wrong, margins(y, plain)));
  }
}

TEST_CASE("gather: a row is what its region says, also when it is drawn twice") {
  const std::vector<Property> properties = {
      property(1, 2, {{box({0.f}, {1.f}), {{{below(0, 0.)}}}}}),
      property(1, 2,
               {{box({2.f}, {3.f}), {{{above(1, 5.)}}}},
                {box({4.f}, {6.f}), {{{below(1, -1.), below(0, 2.)}}, {{below(1, 9.)}}}}})};
  const SpecTensors specs(pointers(properties));
  CHECK(specs.regions() == 3);
  CHECK(longs(specs.instance()) == std::vector<int64_t>{0, 1, 1});
  CHECK(longs(specs.first_region()) == std::vector<int64_t>{0, 1, 3});
  CHECK(!specs.top1());
  const RowSpec rows = specs.gather(indices({2, 0, 2, 1}));
  CHECK(floats(rows.lo) == std::vector<float>{4.f, 0.f, 4.f, 2.f});
  CHECK(floats(rows.hi) == std::vector<float>{6.f, 1.f, 6.f, 3.f});
  // Y = (1, 4): by hand 4 - 9; 1 - 0; 4 - 9; 5 - 4.
  const at::Tensor y = matrix(1, 2, {1.f, 4.f}).expand({4, 2});
  CHECK(floats(margins(y, rows)) == std::vector<float>{-5.f, 1.f, -5.f, 1.f});
  const RowSpec part = rows.slice(1, 3);
  CHECK(floats(margins(y.slice(0, 0, 2), part)) == std::vector<float>{1.f, -5.f});
}

TEST_CASE("margins: no rows, and one row") {
  const std::vector<Property> properties = {property(1, 3, {{cube(1, 0.f, 1.f), top1(1, 3)}})};
  const SpecTensors specs(pointers(properties));
  const RowSpec none = specs.gather(indices({}));
  CHECK(margins(at::zeros({0, 3}), none).sizes() == at::IntArrayRef{0});
  CHECK(loss_gradient(at::zeros({0, 3}), none, Loss::kHinge).sizes() == at::IntArrayRef({0, 3}));
  CHECK(floats(margins(matrix(1, 3, {1.f, 3.f, 2.f}), specs.gather(indices({0})))) ==
        std::vector<float>{1.f});
}

TEST_CASE("margins: a tie violates") {
  for (const std::vector<Case>& cases :
       {top1(0, 2), std::vector<Case>{{{below(0, 2.)}}}, std::vector<Case>{{{above(1, 2.)}}},
        std::vector<Case>{{{below(0, 2.), above(1, 2.)}}}}) {
    const std::vector<Property> properties = {property(1, 2, {{cube(1, 0.f, 1.f), cases}})};
    const SpecTensors specs(pointers(properties));
    const RowSpec row = specs.gather(indices({0}));
    CHECK(margins(matrix(1, 2, {2.f, 2.f}), row).item<float>() == 0.f);
  }
}

TEST_CASE("margins: a bound between two floats is rounded to the one that claims less") {
  // 0.1 lies between 0.1f and the float below it.
  const std::vector<Property> properties = {
      property(1, 1, {{cube(1, 0.f, 1.f), {{{below(0, 0.1)}}}}})};
  const SpecTensors specs(pointers(properties));
  const RowSpec row = specs.gather(indices({0}));
  CHECK(margins(matrix(1, 1, {0.1f}), row).item<float>() > 0.f);
  CHECK(margins(matrix(1, 1, {std::nextafter(0.1f, 0.f)}), row).item<float>() <= 0.f);
}

TEST_CASE("margins: an output that is NaN never violates") {
  for (const std::vector<Case>& cases :
       {top1(0, 3), std::vector<Case>{{{below(0, 100.)}}},
        std::vector<Case>{{{below(0, 100.), above(1, -100.)}}, {{above(2, -100.)}}}}) {
    const std::vector<Property> properties = {property(1, 3, {{cube(1, 0.f, 1.f), cases}})};
    const SpecTensors specs(pointers(properties));
    const RowSpec rows = specs.gather(at::zeros({4}, at::kLong));
    const at::Tensor y = matrix(4, 3,
                                {kNan, 1.f, 1.f,  //
                                 1.f, kNan, 1.f,  //
                                 1.f, 1.f, kNan,  //
                                 kNan, kNan, kNan});
    CHECK(floats(margins(y, rows)) == std::vector<float>{kInf, kInf, kInf, kInf});
  }
}

TEST_CASE("margins: infinite outputs compare as infinity does") {
  const std::vector<Property> properties = {property(1, 2, {{cube(1, 0.f, 1.f), top1(0, 2)}})};
  const SpecTensors specs(pointers(properties));
  const RowSpec rows = specs.gather(at::zeros({3}, at::kLong));
  const at::Tensor y = matrix(3, 2, {0.f, kInf, kInf, 0.f, kInf, kInf});
  // Two equal infinities are no difference at all, as judge() has it.
  CHECK(floats(margins(y, rows)) == std::vector<float>{-kInf, kInf, kInf});
}

TEST_CASE("loss_gradient: of the hinge is minus the slope of the margin") {
  Random random(4);
  const double h = 1. / 64.;
  for (const std::string& kind : kinds()) {
    CAPTURE(kind);
    const std::vector<Property> properties = random_properties(random, kind, 8);
    const SpecTensors specs(pointers(properties));
    const int64_t n = 64;
    const RowSpec rows = specs.gather(random_regions(random, n, specs.regions()));
    // Multiples of 2^-12, so that no step of h meets a kink exactly and all sums are exact.
    const at::Tensor y = (at::randn({n, kOutputs}) * 4096.).round() / 4096.;
    const at::Tensor g = loss_gradient(y, rows, Loss::kHinge);
    CHECK(g.sizes() == y.sizes());
    const at::Tensor here = margins(y, rows);
    int64_t smooth = 0;
    for (int64_t k = 0; k < kOutputs; ++k) {
      at::Tensor step = at::zeros({1, kOutputs});
      step.select(1, k).fill_(h);
      const at::Tensor up = (margins(y + step, rows) - here) / h;
      const at::Tensor down = (here - margins(y - step, rows)) / h;
      const at::Tensor straight = up == down;  // no kink within the step
      smooth += straight.sum().item<int64_t>();
      const at::Tensor gap = (g.select(1, k) + up).abs().masked_select(straight);
      CHECK(gap.max().item<float>() == 0.f);
    }
    CHECK(smooth > n * kOutputs * 8 / 10);
  }
}

TEST_CASE("loss_gradient: of the cross-entropy is the slope of -log softmax of the label") {
  const std::vector<Property> properties = {
      property(1, 3, {{cube(1, 0.f, 1.f), top1(0, 3)}, {cube(1, 2.f, 3.f), top1(2, 3)}})};
  const SpecTensors specs(pointers(properties));
  const RowSpec rows = specs.gather(indices({0, 1, 1}));
  const at::Tensor y = matrix(3, 3, {0.3f, -1.2f, 2.f, 0.3f, -1.2f, 2.f, 30.f, 0.f, -30.f});
  const at::Tensor g = loss_gradient(y, rows, Loss::kCrossEntropy);
  const int64_t labels[] = {0, 2, 2};
  const auto loss = [&](std::vector<double> row, int64_t label) {
    double sum = 0.;
    for (const double v : row) sum += std::exp(v - row[0]);
    return std::log(sum) + row[0] - row[static_cast<size_t>(label)];
  };
  for (int64_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 3; ++k) {
      std::vector<double> up = doubles(y.select(0, i)), down = up;
      up[k] += 1e-5;
      down[k] -= 1e-5;
      const double slope = (loss(up, labels[i]) - loss(down, labels[i])) / 2e-5;
      CHECK(floats(g.select(0, i))[k] == doctest::Approx(slope).epsilon(1e-4));
    }
  }
}

TEST_CASE("loss_gradient: without labels the cross-entropy is the hinge") {
  const std::vector<Property> properties = {
      property(1, 2, {{cube(1, 0.f, 1.f), {{{below(0, 0.)}}}}})};
  const SpecTensors specs(pointers(properties));
  const RowSpec row = specs.gather(indices({0}));
  const at::Tensor y = matrix(1, 2, {3.f, 4.f});
  CHECK(floats(loss_gradient(y, row, Loss::kHinge)) == std::vector<float>{-1.f, 0.f});
  CHECK(floats(loss_gradient(y, row, Loss::kCrossEntropy)) == std::vector<float>{-1.f, 0.f});
}

TEST_CASE("project: the nearest point of the row's own box") {
  const std::vector<Property> properties = {
      property(2, 2, {{box({0.f, -1.f}, {1.f, -1.f}), top1(0, 2)}}),
      property(2, 2, {{box({5.f, 5.f}, {6.f, 7.f}), top1(1, 2)}})};
  const SpecTensors specs(pointers(properties));
  CHECK(specs.top1());
  const RowSpec rows = specs.gather(indices({1, 0, 0}));
  const at::Tensor x = matrix(3, 2, {0.f, 9.f, 0.25f, 3.f, -2.f, -1.f});
  CHECK(floats(project(x, rows)) == std::vector<float>{5.f, 7.f, 0.25f, -1.f, 0.f, -1.f});
  CHECK(floats(x) == std::vector<float>{0.f, 9.f, 0.25f, 3.f, -2.f, -1.f});
}

TEST_CASE("SpecTensors: no instances, or instances of different models, are refused") {
  CHECK(message_of(ErrorCode::kInvalidArgument, [] { SpecTensors({}); }) ==
        "a campaign needs at least one instance");
  const std::vector<Property> properties = {property(1, 2, {{cube(1, 0.f, 1.f), top1(0, 2)}}),
                                            property(1, 3, {{cube(1, 0.f, 1.f), top1(0, 3)}})};
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] { SpecTensors specs(pointers(properties)); }) ==
        "the specifications of one model differ in their variables");
}

TEST_CASE("margins: nothing violates in an empty box") {
  for (const std::vector<Case>& cases : {top1(0, 2), std::vector<Case>{{{below(0, 100.)}}}}) {
    Property p = property(1, 2, {{box({1.f}, {0.f}), cases}, {cube(1, 0.f, 1.f), cases}});
    p.regions[0].box.empty = true;
    const Property* const pointer = &p;
    const SpecTensors specs({&pointer, 1});
    const RowSpec rows = specs.gather(indices({0, 1}));
    const at::Tensor margin = margins(matrix(2, 2, {0.f, 5.f, 0.f, 5.f}), rows);
    CHECK(floats(margin)[0] == kInf);
    CHECK(floats(margin)[1] <= 0.f);
  }
}

TEST_CASE("margins: a tie does not violate what is strict at 0, also where subnormals are 0") {
  const at::Tensor expected = indices({1, 0, 1, 0}).to(at::kBool);
  for (const double bound : {-5e-324, -1e-45, -1e-40}) {
    const Property p = property(1, 2, {{cube(1, 0.f, 1.f), {{{below(0, bound)}}}}});
    const Property q = property(1, 2, {{cube(1, 0.f, 1.f), {{{above(0, -bound)}}}}});
    const RowSpec rows = SpecTensors(std::vector{&p, &q}).gather(indices({0, 0, 1, 1}));
    const FlushDenormals flush(true);  // as on the lanes, which specifications do not come from
    const at::Tensor y = matrix(4, 2, {0.f, 0.f, -1e-30f, 0.f, 0.f, 0.f, 1e-30f, 0.f});
    CHECK(equal(margins(y, rows).gt(0.), expected));
    // The same by way of tensors, as for outputs that are not at hand.
    const at::Tensor spread = at::stack({y, y}, 2).select(2, 0);
    REQUIRE(!spread.is_contiguous());
    CHECK(equal(margins(spread, rows).gt(0.), expected));
  }
}

TEST_CASE("SpecTensors: what the specifications of a model multiply to together is refused") {
  const auto repeated = [](size_t cases, size_t rows) {
    return property(1, 9,
                    {{cube(1, 0.f, 1.f),
                      std::vector<Case>(cases, Case{std::vector<LinearRow>(rows, above(0, 1.))})}});
  };
  const Property many = repeated(8192, 1), lengthy = repeated(1, 8192);
  CHECK(SpecTensors(std::vector{&many}).cases() == 8192);
  CHECK(SpecTensors(std::vector{&lengthy}).cases() == 1);
  const std::string message =
      message_of(ErrorCode::kUnsupported, [&] { (void)SpecTensors(std::vector{&many, &lengthy}); });
  CHECK(message.starts_with(
      "the specifications of one model multiply to 1.20796e+09 numbers (2 boxes"));
}

TEST_CASE("SpecTensors: bytes_per_row is what gather makes for a row") {
  const Property p = property(3, 2,
                              {{cube(3, 0.f, 1.f), {{{above(0, 1.), below(1, 0.)}}}},
                               {cube(3, 2.f, 3.f), {{{above(0, 1.)}}}}});
  CHECK(SpecTensors(std::vector{&p}).bytes_per_row() == 4 * (3 + 3 + 2 * 2 + 2));
  const Property q = property(3, 2, {{cube(3, 0.f, 1.f), top1(0, 2)}});
  CHECK(SpecTensors(std::vector{&q}).bytes_per_row() == 4 * (3 + 3) + 8);
}
