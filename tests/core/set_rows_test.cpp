#include "grapeshot/core/set_rows.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/spec.h"
#include "tests/support/files.h"
#include "tests/support/properties.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kRows = 40, kInputs = 30;

// Rows with boxes and balls of their own; some inputs are fixed, centres are inside.
struct Setting {
  explicit Setting(BallNorm norm, uint64_t seed = 3) : rng(seed) {
    const auto random = [&] { return at::rand({kRows, kInputs}, rng.generator()); };
    set.norm = norm;
    set.centre = random() * 2. - 1.;
    lo = set.centre - random();
    hi = set.centre + random();
    for (at::Tensor* each : {&lo, &hi}) {
      each->slice(1, 0, kInputs, 7).copy_(set.centre.slice(1, 0, kInputs, 7));
    }
    set.radius = at::rand({kRows, 1}, rng.generator()).to(at::kDouble) * 2. + 0.05;
    far = at::randn({kRows, kInputs}, rng.generator()) * 2.;
  }

  void add_grid(double step) {
    set.origin = at::full({kInputs}, 0.25, at::kDouble);
    set.step = at::full({kInputs}, step, at::kDouble);
    const auto on = [&](const at::Tensor& t) {
      return (((t.to(at::kDouble) - 0.25) / step).round() * step + 0.25).to(at::kFloat);
    };
    for (at::Tensor* each : {&lo, &hi, &set.centre}) *each = on(*each);
    lo = at::minimum(lo, set.centre);
    hi = at::maximum(hi, set.centre);
  }

  // Inputs 0 to 3 and 8 to 10.
  void add_groups() {
    set.groups = at::tensor({0, 1, 2, 3, 8, 9, 10, 10}, at::kLong).view({2, 4});
    set.grouped = at::zeros({kInputs}, at::kBool).index_fill(0, set.groups.flatten(), true);
    if (set.step.defined()) set.step = set.step.masked_fill(set.grouped, 0.);
    lo = lo.masked_fill(set.grouped, 0.);
    hi = hi.masked_fill(set.grouped, 1.);
    hi.select(1, 9).fill_(0.);  // never the 1
    at::Tensor& c = set.centre;
    if (c.defined()) c = c.masked_fill(set.grouped, 0.).index_fill(1, indices({2, 8}), 1.);
  }

  // The set of row i, as the exact check knows it.
  [[nodiscard]] bool holds(const at::Tensor& x, int64_t i) const {
    InputSet one;
    if (set.has_ball()) {
      one.ball = {set.norm, floats(set.centre[i]), set.radius[i].item<double>()};
    }
    if (set.step.defined()) {
      one.grid = std::make_shared<const Grid>(Grid{doubles(set.origin), doubles(set.step)});
    }
    if (set.groups.defined()) {
      one.one_hot = std::make_shared<const OneHot>(OneHot{{0, 1, 2, 3}, {8, 9, 10}});
    }
    const at::Tensor row = x[i];
    const bool in_box = row.ge(lo[i]).logical_and(row.le(hi[i])).all().item<bool>();
    return in_box && contains(one, floats(lo[i]), floats(hi[i]), floats(row));
  }

  [[nodiscard]] int64_t outside(const at::Tensor& x) const {
    int64_t count = 0;
    for (int64_t i = 0; i < kRows; ++i) count += holds(x, i) ? 0 : 1;
    return count;
  }

  SetRows set;
  at::Tensor lo, hi, far;
  Rng rng;
};

// The projection by its definition: the multiplier by bisection, in float64.
at::Tensor bisected(const Setting& s) {
  const at::Tensor v = s.far.to(at::kDouble), c = s.set.centre.to(at::kDouble);
  const at::Tensor lo = s.lo.to(at::kDouble), hi = s.hi.to(at::kDouble);
  const bool l1 = s.set.norm == BallNorm::kL1;
  const auto at_multiplier = [&](const at::Tensor& q) {
    const at::Tensor d = v - c;
    const at::Tensor shrunk = l1 ? d.sign() * (d.abs() - q).clamp_min(0.) : d / (1. + q);
    return at::clamp(c + shrunk, lo, hi);
  };
  at::Tensor low = at::zeros({kRows, 1}, at::kDouble),
             high = at::full({kRows, 1}, 1e6, at::kDouble);
  for (int i = 0; i < 200; ++i) {
    const at::Tensor middle = 0.5 * (low + high);
    const at::Tensor size = (at_multiplier(middle) - c).norm(l1 ? 1 : 2, {1}, true);
    low = at::where(size > s.set.radius, middle, low);
    high = at::where(size > s.set.radius, high, middle);
  }
  return at_multiplier(high);
}

}  // namespace

TEST_CASE("set_rows: the projection onto box and ball is the nearest point of both") {
  for (const BallNorm norm : {BallNorm::kL2, BallNorm::kL1}) {
    CAPTURE(std::string(name_of(norm)));
    const Setting s(norm);
    const at::Tensor x = project(s.far, s.set, s.lo, s.hi);
    CHECK((x.to(at::kDouble) - bisected(s)).abs().max().item<double>() < 1e-6);
    CHECK(s.outside(x) == 0);
    CHECK(project(x, s.set, s.lo, s.hi).equal(x));
  }
}

TEST_CASE("set_rows: what is inside stays as it is, bit by bit") {
  for (const BallNorm norm : {BallNorm::kL2, BallNorm::kL1}) {
    const Setting s(norm);
    const at::Tensor length = (s.far - s.set.centre).norm(1, {1}, true);
    const at::Tensor near = at::clamp(
        s.set.centre + (s.far - s.set.centre) / length * s.set.radius.to(at::kFloat) * 0.9, s.lo,
        s.hi);
    CHECK(project(near, s.set, s.lo, s.hi).equal(near));
  }
}

TEST_CASE("set_rows: steps, draws and noise stay inside, on grids and with groups as well") {
  for (const BallNorm norm : {BallNorm::kNone, BallNorm::kL2, BallNorm::kL1}) {
    for (const bool grid : {false, true}) {
      for (const bool groups : {false, true}) {
        CAPTURE(std::string(name_of(norm)));
        CAPTURE(grid);
        CAPTURE(groups);
        Setting s(norm);
        if (grid) s.add_grid(1. / 64.);
        if (groups) s.add_groups();
        if (!s.set.any()) continue;
        const at::Tensor u = at::rand({kRows, kInputs}, s.rng.generator());
        at::Tensor x = draw_inside(u, s.set, s.lo, s.hi, s.rng);
        CHECK(s.outside(x) == 0);
        for (int t = 0; t < 5; ++t) {
          const at::Tensor g = at::randn({kRows, kInputs}, s.rng.generator());
          x = steepest_step(x, g, at::full({kRows, 1}, 0.2), s.set, s.lo, s.hi);
          CHECK(s.outside(x) == 0);
        }
        const at::Tensor moved = with_moved_ones(x, x, s.set, s.hi, s.rng);
        CHECK(s.outside(project(moved, s.set, s.lo, s.hi)) == 0);
        CHECK(project(x, s.set, s.lo, s.hi).equal(x));
      }
    }
  }
}

TEST_CASE("set_rows: a step of l2 is along the gradient, one of l1 moves few inputs") {
  for (const BallNorm norm : {BallNorm::kL2, BallNorm::kL1}) {
    Setting s(norm);
    s.lo = at::full_like(s.lo, -100.);
    s.hi = at::full_like(s.hi, 100.);
    s.set.radius.fill_(1000.);
    const at::Tensor g = at::randn({kRows, kInputs}, s.rng.generator());
    const at::Tensor x = s.set.centre;
    const at::Tensor change = steepest_step(x, g, at::full({kRows, 1}, 0.5), s.set, s.lo, s.hi) - x;
    if (norm == BallNorm::kL2) {
      CHECK(relative_gap(change, 0.5 * g / g.norm(2, {1}, true)) < 1e-5);
    } else {
      CHECK((change != 0).sum(1).max().item<int64_t>() == 1);
      CHECK(change.abs().argmax(1).equal(g.abs().argmax(1)));
      CHECK(relative_gap(change.abs().sum(1), at::full({kRows}, 0.5)) < 1e-5);
    }
  }
}

TEST_CASE("set_rows: gradients that are NaN, zero or huge move nothing beyond the set") {
  for (const BallNorm norm : {BallNorm::kL2, BallNorm::kL1}) {
    const Setting s(norm);
    const at::Tensor x = s.set.centre, size = at::full({kRows, 1}, 0.5);
    for (const float value : {0.f, kNan}) {
      const at::Tensor g = at::full_like(x, value);
      CHECK(steepest_step(x, g, size, s.set, s.lo, s.hi).equal(x));
    }
    const at::Tensor huge = at::full_like(x, 1e30f);
    CHECK(s.outside(steepest_step(x, huge, size, s.set, s.lo, s.hi)) == 0);
  }
}

TEST_CASE("set_rows: the 1 of a group goes where the gradient is largest, in one group at a time") {
  Setting s(BallNorm::kNone);
  s.set.centre = at::Tensor();
  s.add_groups();
  at::Tensor x = at::zeros({1, kInputs});
  x.index_fill_(1, indices({2, 8}), 1.);
  at::Tensor g = at::zeros({1, kInputs});
  g[0][1] = 0.5;
  g[0][9] = 9.;   // forbidden by its bound
  g[0][10] = 2.;  // the larger gain
  const auto step = [&](const at::Tensor& at) {
    return steepest_step(at, g, at::zeros({1, 1}), s.set, s.lo.slice(0, 0, 1), s.hi.slice(0, 0, 1));
  };
  const auto ones = [&](const at::Tensor& at) {
    const at::Tensor groups = at.masked_fill(s.set.grouped.logical_not(), 0.);
    return longs((groups == 1).nonzero().select(1, 1));
  };
  x = step(x);
  CHECK(ones(x) == std::vector<int64_t>{2, 10});
  x = step(x);
  CHECK(ones(x) == std::vector<int64_t>{1, 10});
  x = step(x);
  CHECK(ones(x) == std::vector<int64_t>{1, 10});
}

TEST_CASE("set_rows: steps too short for the grid still reach its next value") {
  Setting s(BallNorm::kNone);
  s.set.centre = at::zeros({kRows, kInputs});
  s.add_grid(0.25);
  const at::Tensor x = s.lo.clone(), g = at::ones_like(x);
  const at::Tensor moved = steepest_step(x, g, at::full({kRows, 1}, 1e-3), s.set, s.lo, s.hi);
  CHECK((moved > x).equal(s.lo < s.hi));
}

TEST_CASE("set_rows: no rows, rows on their own, regions that differ") {
  const Setting s(BallNorm::kL1);
  const at::Tensor all = project(s.far, s.set, s.lo, s.hi);
  const at::Tensor some =
      project(s.far.slice(0, 4, 9), s.set.slice(4, 9), s.lo.slice(0, 4, 9), s.hi.slice(0, 4, 9));
  CHECK(some.equal(all.slice(0, 4, 9)));
  CHECK(project(s.far.slice(0, 0, 0), s.set.slice(0, 0), s.lo.slice(0, 0, 0), s.hi.slice(0, 0, 0))
            .size(0) == 0);
  Box plain = cube(2, 0.f, 1.f), ball = plain;
  ball.set.ball = {BallNorm::kL2, {0.5f, 0.5f}, 0.25};
  const Property a = property(2, 2, {{plain, top1(0, 2)}}),
                 b = property(2, 2, {{ball, top1(0, 2)}});
  const Property* both[] = {&a, &b};
  const std::string message = error_of([&] { (void)set_rows(both); }).what();
  CHECK(message.find("differ in their norm") != std::string::npos);
}

TEST_CASE("input_set: what lies exactly on a ball is inside, the next float32 is not") {
  InputSet set;
  set.ball = {BallNorm::kL2, {0.f, 0.f}, 5.};
  const std::vector<float> lo = {-9.f, -9.f}, hi = {9.f, 9.f};
  CHECK(contains(set, lo, hi, std::vector<float>{3.f, 4.f}));
  const float beyond = std::nextafter(4.f, 5.f);
  CHECK(!contains(set, lo, hi, std::vector<float>{3.f, beyond}));
  CHECK(why_outside(set, lo, hi, std::vector<float>{6.f, 8.f}) == "its l2 distance 10 is above 5");
  set.ball.norm = BallNorm::kL1;
  set.ball.radius = 7.;
  CHECK(contains(set, lo, hi, std::vector<float>{3.f, -4.f}));
  CHECK(!contains(set, lo, hi, std::vector<float>{3.f, -beyond}));
  CHECK(!contains(set, lo, hi, std::vector<float>{kNan, 0.f}));
}

TEST_CASE("input_set: a ball around what is no float32 or off the grid is smaller, not larger") {
  const std::vector<double> centre = {0.1, 0.3, 5.};
  const std::vector<float> lo = {-1.f, -1.f, -1.f}, hi = {1.f, 1.f, 1.f};
  const Ball ball = inner_ball(BallNorm::kL2, centre, 0.5, {}, lo, hi);
  CHECK(ball.centre == std::vector<float>{0.1f, 0.3f, 1.f});
  const double aside = std::hypot(0.1 - double{0.1f}, 0.3 - double{0.3f});
  CHECK(ball.radius < 0.5 - aside);
  CHECK(ball.radius > 0.5 - 1.001 * aside);
  InputSet others;
  others.grid =
      std::make_shared<const Grid>(Grid{std::vector<double>(3, 0.), std::vector<double>(3, 0.25)});
  CHECK(inner_ball(BallNorm::kL1, centre, 0.5, others, lo, hi).radius == doctest::Approx(0.35));
  CHECK(!(inner_ball(BallNorm::kL1, centre, 0.1, others, lo, hi).radius > 0.));
}

TEST_CASE("input_set: bounds go inwards to the grid") {
  const Grid grid{{0.5, 0.5, 0., 0.}, {0.25, 0.25, 1., 1.}};
  std::vector<float> lo = {0.3f, 0.75f, 0.2f, 0.4f}, hi = {1.1f, 0.75f, 0.9f, 2.6f};
  CHECK(!snap_bounds(grid, lo, hi));  // nothing whole is between 0.2 and 0.9
  CHECK(lo[0] == 0.5f);
  CHECK(hi[0] == 1.f);
  CHECK(lo[1] == 0.75f);
  CHECK(lo[3] == 1.f);
  CHECK(hi[3] == 2.f);
}

TEST_CASE("input_set: groups are ranges, lists and names") {
  const std::vector<std::string> names = {"age", "red", "green", "blue-ish"};
  CHECK(parse_one_hot("0-1,2+3", 4) == OneHot{{0, 1}, {2, 3}});
  CHECK(parse_one_hot("red+blue-ish", 4, names) == OneHot{{1, 3}});
  const auto fails = [&](const std::string& text, const std::string& with) {
    const std::string message = error_of([&] { (void)parse_one_hot(text, 4, names); }).what();
    CAPTURE(message);
    CHECK(message.find(with) != std::string::npos);
  };
  fails("", "names no group");
  fails("2", "no group of two inputs");
  fails("3-1", "no group of two inputs");
  fails("1-4", "no input from 0 to 3");
  fails("0-1,1+2", "input 1 is in '1+2' and in a group before it");
  fails("1+1", "or twice");
  fails("red+pink", "names 'pink'");
  fails("0--1", "names '-1'");
}
