#include "grapeshot/core/property.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

LinearRow below(int32_t output, double bound) {
  return {.terms = {{output, 1.}}, .bound = bound};
}
LinearRow above(int32_t output, double bound) {
  return {.terms = {{output, -1.}}, .bound = -bound};
}

/// Y_low <= Y_high.
LinearRow ordered(int32_t low, int32_t high) {
  const Term mine{low, 1.}, other{high, -1.};
  return {.terms = low < high ? std::vector{mine, other} : std::vector{other, mine}, .bound = 0.};
}

Box box(std::vector<float> lo, std::vector<float> hi) {
  return {.lo = std::move(lo), .hi = std::move(hi), .nearest = {}, .empty = false};
}

Verdict judge_at(const Property& property, std::vector<float> x, std::vector<double> y) {
  return judge(property, x, y);
}

}  // namespace

TEST_CASE("case_margin: the row that is farthest from holding decides") {
  const Case c{.rows = {below(0, 1.), above(1, 2.), ordered(0, 1)}};
  CHECK(case_margin(c, std::vector{0., 5.}) == -1.);
  CHECK(case_margin(c, std::vector{3., 5.}) == 2.);
  CHECK(case_margin(c, std::vector{0., 0.}) == 2.);
  CHECK(case_margin(c, std::vector{1., 2.}) == 0.);
}

TEST_CASE("case_margin: an output that is NaN, or two equal infinities, never violates") {
  CHECK(case_margin({.rows = {below(0, 1.)}}, std::vector{kNaN}) == kInfinity);
  CHECK(case_margin({.rows = {ordered(0, 1)}}, std::vector{kInfinity, kInfinity}) == kInfinity);
  CHECK(case_margin({.rows = {below(1, 0.), ordered(0, 1)}}, std::vector{kNaN, -1.}) == kInfinity);
  CHECK(case_margin({.rows = {below(0, 1.)}}, std::vector{-kInfinity}) == -kInfinity);
}

TEST_CASE("case_margin: the sign of the difference of any two floats is exact") {
  const Case c{.rows = {ordered(0, 1)}};
  const float a = 1e-45f, b = 3e38f;
  CHECK(case_margin(c, std::vector<double>{a, 0.}) > 0.);
  CHECK(case_margin(c, std::vector<double>{0., a}) < 0.);
  CHECK(case_margin(c, std::vector<double>{b, std::nextafter(b, 0.f)}) > 0.);
  CHECK(case_margin(c, std::vector<double>{a, b}) < 0.);
}

TEST_CASE("contains: bounds belong to the box, NaN to none") {
  const Box b = box({0.f, -1.f}, {1.f, -1.f});
  CHECK(contains(b, std::vector{0.f, -1.f}));
  CHECK(contains(b, std::vector{1.f, -1.f}));
  CHECK(!contains(b, std::vector{1.0000001f, -1.f}));
  CHECK(!contains(b, std::vector{-1e-45f, -1.f}));
  CHECK(!contains(b, std::vector{0.f, -0.9999999f}));
  CHECK(!contains(b, std::vector{std::numeric_limits<float>::quiet_NaN(), -1.f}));
  CHECK(!contains(box({1.f}, {0.f}), std::vector{0.5f}));
}

TEST_CASE("contains: a bit of a mask is 1, or exactly 0 for as many as may be") {
  Box b = box({0.f, 1.f, 1.f, 1.f, 0.f}, {1.f, 1.f, 1.f, 1.f, 0.f});
  CHECK(!contains(b, std::vector{0.5f, 0.f, 1.f, 1.f, 0.f}));
  b.droppable = {1, 3};
  b.most_dropped = 1;
  CHECK(contains(b, std::vector{0.5f, 1.f, 1.f, 1.f, 0.f}));
  CHECK(contains(b, std::vector{0.5f, 0.f, 1.f, 1.f, 0.f}));
  CHECK(contains(b, std::vector{0.5f, 1.f, 1.f, 0.f, 0.f}));
  CHECK(!contains(b, std::vector{0.5f, 0.f, 1.f, 0.f, 0.f}));  // two at a time
  CHECK(!contains(b, std::vector{0.5f, 0.5f, 1.f, 1.f, 0.f}));
  CHECK(!contains(b, std::vector{0.5f, 1e-45f, 1.f, 1.f, 0.f}));
  CHECK(!contains(b, std::vector{0.5f, 0.9999999f, 1.f, 1.f, 0.f}));
  CHECK(!contains(b, std::vector{0.5f, 1.f, 0.f, 1.f, 0.f}));  // not one of those
  CHECK(!contains(b, std::vector{0.5f, 1.f, 1.f, 1.f, 1.f}));  // padding
  CHECK(!contains(b, std::vector{2.f, 0.f, 1.f, 1.f, 0.f}));

  const std::vector<float> x = {0.5f, 1.f, 1.f, 0.f, 0.f};
  const Box plain = with_bits_of(b, x);
  CHECK(plain.droppable.empty());
  CHECK(plain.lo == std::vector{0.f, 1.f, 1.f, 0.f, 0.f});
  CHECK(plain.hi == std::vector{1.f, 1.f, 1.f, 0.f, 0.f});
}

TEST_CASE("judge: the best case of all regions that contain the input is reported") {
  const Property property{.inputs = 1,
                          .outputs = 1,
                          .regions = {{box({0.f}, {1.f}), {{{below(0, -5.)}}, {{below(0, -1.)}}}},
                                      {box({1.f}, {2.f}), {{{above(0, 4.)}}, {{below(0, 0.)}}}}}};
  Verdict verdict = judge_at(property, {0.5f}, {1.});
  CHECK(verdict.margin == 2.);
  CHECK(verdict.region == 0);
  CHECK(verdict.case_index == 1);
  CHECK(!verdict.violates);

  verdict = judge_at(property, {1.f}, {0.});  // in both boxes; a tie violates
  CHECK(verdict.margin == 0.);
  CHECK(verdict.region == 1);
  CHECK(verdict.case_index == 1);
  CHECK(verdict.violates);

  verdict = judge_at(property, {2.f}, {4.});
  CHECK(verdict.violates);
  CHECK(verdict.case_index == 0);

  verdict = judge_at(property, {3.f}, {4.});  // in no box
  CHECK(verdict.margin == kInfinity);
  CHECK(verdict.region == -1);
  CHECK(verdict.case_index == -1);
  CHECK(!verdict.violates);

  verdict = judge_at(property, {2.f}, {kNaN});
  CHECK(verdict.margin == kInfinity);
  CHECK(verdict.region == 1);
  CHECK(!verdict.violates);
}

TEST_CASE("judge: a wrong number of inputs or outputs is refused") {
  const Property property{.inputs = 2, .outputs = 1, .regions = {}};
  CHECK_THROWS_WITH_AS(judge_at(property, {0.f}, {0.}),
                       "the property has 2 inputs and 1 outputs, got 1 and 1", Error);
}

TEST_CASE("top1_label: found when some other output may reach one label in any way") {
  const Box b = box({0.f}, {1.f});
  CHECK(top1_label({b, {{{ordered(1, 0)}}, {{ordered(1, 2)}}}}, 3) == 1);
  CHECK(top1_label({b, {{{ordered(2, 1)}}, {{ordered(2, 0)}}}}, 3) == 2);
  CHECK(top1_label({b, {{{ordered(0, 1)}}}}, 2) == 0);
  CHECK(top1_label({b, {{{ordered(1, 0)}}}}, 2) == 1);
}

TEST_CASE("top1_label: everything else is none") {
  const Box b = box({0.f}, {1.f});
  CHECK(top1_label({b, {{{ordered(1, 0)}}}}, 3) == -1);                     // one is missing
  CHECK(top1_label({b, {{{ordered(1, 0)}}, {{ordered(1, 0)}}}}, 3) == -1);  // twice the same
  CHECK(top1_label({b, {{{ordered(1, 0)}}, {{ordered(0, 2)}}}}, 3) == -1);  // two labels
  CHECK(top1_label({b, {{{ordered(1, 0), ordered(1, 2)}}}}, 3) == -1);      // both at once
  CHECK(top1_label({b, {{{below(0, 0.)}}}}, 1) == -1);
  CHECK(top1_label({b, {{{below(0, 0.)}}}}, 2) == -1);
  LinearRow shifted = ordered(0, 1);
  shifted.bound = 0.5;
  CHECK(top1_label({b, {{{shifted}}}}, 2) == -1);
}

TEST_CASE("compares_outputs_only: one bound on a single output is enough for no") {
  const Box b = box({0.f}, {1.f});
  Property property{
      .inputs = 1, .outputs = 3, .regions = {{b, {{{ordered(1, 0), ordered(0, 2)}}}}}};
  CHECK(compares_outputs_only(property));
  property.regions.push_back({b, {{{ordered(1, 0)}}, {{ordered(1, 2), below(0, 0.)}}}});
  CHECK(!compares_outputs_only(property));
  LinearRow sum = ordered(0, 1);
  sum.terms[1].coefficient = 1.;
  property.regions = {{b, {{{sum}}}}};
  CHECK(!compares_outputs_only(property));
}
