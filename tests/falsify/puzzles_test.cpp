// A landscape for every attack on which it succeeds within a stated number of forward passes, and
// the others, each alone and with the same number, do not. Where a relative does as well, because
// it takes the same steps here, the puzzle names it.
#include "tests/support/puzzles.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/falsify/attack.h"
#include "grapeshot/falsify/portfolio.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

using Map = std::function<at::Tensor(const at::Tensor& x)>;

struct Puzzle {
  std::string attack;
  int64_t budget;                      // rows of forward passes
  std::vector<std::string> relatives;  // that may succeed as well
  int64_t inputs;
  Map outputs;  // [N, D] to [N, K]
  // dL/dx for a cotangent [N, K]; nothing: the gradient is zero
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& cotangent)> pullback = nullptr;
  std::vector<Case> cases = {{{below(0, 0.)}}};
  int64_t width = 1;  // K
  std::vector<int64_t> shape = {};
  std::function<Bounds(const at::Tensor& lo, const at::Tensor& hi)> interval = nullptr;
};

// -1 where `good`, 1 elsewhere: no margin tells how near one is.
at::Tensor needle(const at::Tensor& good) {
  return (1. - 2. * good.to(at::kFloat)).unsqueeze(1);
}

// A point of [0.1, 0.9]^n that is the same in every run.
at::Tensor somewhere(int64_t n) {
  return 0.5 + 0.4 * at::sin(at::arange(1, n + 1, at::kFloat) * 12.9898);
}

// In [0.02, 0.2] or [0.8, 0.98], the same in every run.
at::Tensor sides(int64_t n) {
  const at::Tensor depth = 0.02 + 0.18 * at::sin(at::arange(n, at::kFloat) * 78.233).abs();
  return at::where(somewhere(n) < 0.5, depth, 1. - depth).to(at::kFloat);
}

at::Tensor as(const at::Tensor& t, const at::Tensor& like) {
  return t.to(like.scalar_type());
}

// Everywhere the same margin, but signs that point to `t`.
Puzzle valley(std::string attack, int64_t budget, double precision, int64_t n) {
  const at::Tensor t = sides(n);
  return {
      .attack = std::move(attack),
      .budget = budget,
      .relatives = {},
      .inputs = n,
      .outputs =
          [=](const at::Tensor& x) { return needle(((x - as(t, x)).abs() < precision).all(1)); },
      .pullback = [=](const at::Tensor& x,
                      const at::Tensor& c) { return c * (x - t).sign() * 1e-3; }};
}

Puzzle two_cases(std::string attack, double distance) {
  const at::Tensor t = sides(16);
  return {
      .attack = std::move(attack),
      .budget = 6000,
      .relatives = {},
      .inputs = 16,
      .outputs =
          [=](const at::Tensor& x) {
            const at::Tensor off = (x - as(t, x)).abs().amax(1);
            const at::Tensor other =
                at::where(off < 0.02, -at::ones_like(off), distance + 0.01 * off);
            return at::stack({at::full_like(off, 0.1), other}, 1);
          },
      .pullback = [=](const at::Tensor& x,
                      const at::Tensor& c) { return c.select(1, 1).unsqueeze(1) * (x - t).sign(); },
      .cases = {Case{{below(0, 0.)}}, Case{{below(1, 0.)}}},
      .width = 2};
}

std::vector<Puzzle> puzzles() {
  std::vector<Puzzle> out;
  out.push_back({.attack = "centre",
                 .budget = 500,
                 .relatives = {},
                 .inputs = 2048,
                 .outputs = [](const at::Tensor& x) { return needle((x == 1).all(1)); }});
  // Two or three of 64 inputs high, all others low.
  out.push_back({.attack = "corners",
                 .budget = 1500,
                 .relatives = {},
                 .inputs = 64,
                 .outputs = [](const at::Tensor& x) {
                   const at::Tensor high = (x == 1).sum(1);
                   return needle(((x == 0) + (x == 1)).all(1) * (high >= 2) * (high <= 3));
                 }});
  // A twentieth of a cube: whatever draws points inside of it finds one.
  out.push_back({.attack = "uniform",
                 .budget = 500,
                 .relatives = {"sobol", "sprint", "sign", "adam", "apgd", "targeted", "soft",
                               "near", "cmaes"},
                 .inputs = 40,
                 .outputs = [](const at::Tensor& x) {
                   return needle((x.slice(1, 0, 2) < 0.22).all(1) * (x.slice(1, 2) > 1e-6).all(1) *
                                 (x.slice(1, 2) < 1 - 1e-6).all(1));
                 }});
  // One cell of 128 in two dimensions, of which 512 shifted Sobol points miss none.
  out.push_back({.attack = "sobol",
                 .budget = 600,
                 .relatives = {"uniform", "grid", "bisect", "split", "cmaes", "sprint", "sign",
                               "adam", "apgd", "targeted", "soft", "near"},
                 .inputs = 2,
                 .outputs = [](const at::Tensor& x) {
                   return needle((x.select(1, 0) - 0.66).abs().lt(0.047) *
                                 (x.select(1, 1) - 0.29).abs().lt(0.047));
                 }});
  {  // Without slopes, and off the bounds: only steps of the right size around near misses.
    const at::Tensor t = 0.5 + 0.3 * (somewhere(100) - 0.5);
    out.push_back({.attack = "near",
                   .budget = 8000,
                   .relatives = {},
                   .inputs = 100,
                   .outputs = [=](const at::Tensor& x) {
                     return ((x - as(t, x)).square().mean(1).sqrt() - 0.06).unsqueeze(1);
                   }});
  }
  out.push_back(valley("sprint", 1600, 0.02, 64));
  out.push_back(valley("sign", 7000, 0.005, 64));
  out.back().relatives = {"soft", "targeted", "osi", "polish"};  // much the same steps here
  {  // Two in three signs are right, at random: averages see through it.
    const at::Tensor t = (sides(40) > 0.5).to(at::kFloat);
    out.push_back({.attack = "adam",
                   .budget = 3000,
                   .relatives = {},
                   .inputs = 40,
                   .outputs = [=](const at::Tensor& x) { return needle((x == as(t, x)).all(1)); },
                   .pullback =
                       [=](const at::Tensor& x, const at::Tensor& c) {
                         const at::Tensor noise = at::sin(x * 43758.5453 + 911. * x.sum(1, true) +
                                                          at::arange(40, at::kFloat));
                         return c * ((0.5 - t).sign() * 0.35 + noise);
                       }});
  }
  {  // Out of a small basin around the original slopes lead away: steps have to halve from there.
    const int64_t n = 100;
    const at::Tensor t = 0.5 + 0.05 * (somewhere(n) - 0.5).sign();
    out.push_back({.attack = "apgd",
                   .budget = 4000,
                   .relatives = {},
                   .inputs = n,
                   .outputs =
                       [=](const at::Tensor& x) {
                         return ((x - as(t, x)).abs().amax(1) - 0.03).unsqueeze(1);
                       },
                   .pullback =
                       [=](const at::Tensor& x, const at::Tensor& c) {
                         const at::Tensor off = x - t;
                         const at::Tensor inside = off.abs().amax(1, true) < 0.06;
                         return 1e6 * c * at::where(inside, off, -off).sign();
                       }});
  }
  // The nearest of two cases never holds and has no slope; the other one has: far away, or not.
  out.push_back(two_cases("targeted", 500.));
  out.push_back(two_cases("soft", 0.11));
  out.back().relatives = {"targeted"};
  {  // The property has no slope; another output has one that leads to where it holds.
    const at::Tensor t = (sides(64) > 0.5).to(at::kFloat);
    out.push_back({.attack = "osi",
                   .budget = 1500,
                   .relatives = {"gama"},
                   .inputs = 64,
                   .outputs =
                       [=](const at::Tensor& x) {
                         const at::Tensor goal = as(t, x);
                         return at::cat({needle((x == goal).all(1)).to(x.scalar_type()),
                                         -(x - goal).abs().mean(1, true)},
                                        1);
                       },
                   .pullback =
                       [=](const at::Tensor& x, const at::Tensor& c) {
                         return c.select(1, 1).unsqueeze(1) * (t - x).sign();
                       },
                   .width = 2});
  }
  {  // What only differences of outputs tell: a large term that all share leads astray.
    const at::Tensor t = (sides(64) > 0.5).to(at::kFloat);
    const at::Tensor astray = at::where(at::arange(64) % 2 == 0, t, 1. - t) - 0.5;
    out.push_back({.attack = "gama",
                   .budget = 6000,
                   .relatives = {},
                   .inputs = 64,
                   .outputs =
                       [=](const at::Tensor& x) {
                         const at::Tensor goal = as(t, x), off = (x - goal).abs().mean(1, true);
                         const at::Tensor shared = 100. * (x * as(astray, x)).mean(1, true);
                         return shared + at::cat({0.5 * needle((x == goal).all(1)).to(off),
                                                  -0.5 * needle((x == goal).all(1)).to(off), -off},
                                                 1);
                       },
                   .pullback =
                       [=](const at::Tensor& x, const at::Tensor& c) {
                         const at::Tensor shared = c.sum(1, true);
                         return at::where(shared.abs() > 1e-5, 100. * shared * astray,
                                          c.select(1, 2).unsqueeze(1) * (t - x).sign());
                       },
                   .cases = {{{ordered(0, 1)}}},
                   .width = 3});
  }
  {  // Four blocks of an image, each right or wrong as a whole.
    out.push_back(
        {.attack = "square",
         .budget = 5000,
         .relatives = {},
         .inputs = 64,
         .outputs =
             [](const at::Tensor& x) {
               const at::Tensor image =
                   x.view({-1, 2, 4, 2, 4}).permute({0, 1, 3, 2, 4}).flatten(3);
               const at::Tensor goal =
                   at::tensor({1.f, 0.f, 0.f, 1.f}).to(x.scalar_type()).view({1, 2, 2, 1});
               const at::Tensor wrong = (image != goal).any(3).sum({1, 2});
               return (wrong.to(at::kFloat) - 0.5).unsqueeze(1);
             },
         .shape = {8, 8}});
  }
  {  // Twelve pairs of inputs far apart: both have to flip at once.
    const at::Tensor t = (sides(24) > 0.5).to(at::kFloat);
    out.push_back({.attack = "discrete",
                   .budget = 40000,
                   .relatives = {},
                   .inputs = 24,
                   .outputs = [=](const at::Tensor& x) {
                     const at::Tensor good = (x == as(t, x));
                     const at::Tensor a = good.slice(1, 0, 12), b = good.slice(1, 12);
                     const at::Tensor pairs = (a * b).sum(1), halves = a.logical_xor(b).sum(1);
                     return (11.5 - pairs.to(at::kFloat) + 0.01 * halves).unsqueeze(1);
                   }});
  }
  {  // A narrow valley at an angle to all axes, without slopes.
    const int64_t n = 10;
    const at::Tensor angle = at::arange(n, at::kFloat).unsqueeze(1) + 0.5;
    const at::Tensor basis =
        at::cos(angle * at::arange(n, at::kFloat) * (M_PI / double(n))) * std::sqrt(2. / double(n));
    const at::Tensor weight = at::pow(10., at::arange(n, at::kFloat) * (4. / double(n - 1)));
    const at::Tensor t = 0.5 + 0.5 * (somewhere(n) - 0.5);
    out.push_back({.attack = "cmaes",
                   .budget = 10000,
                   .relatives = {},
                   .inputs = n,
                   .outputs = [=](const at::Tensor& x) {
                     const at::Tensor z = (x - as(t, x)).mm(as(basis, x));
                     return ((z.square() * as(weight, x)).sum(1) - 1e-3).unsqueeze(1);
                   }});
  }
  // One point of a grid of 65 x 65, and what is within a thousandth of it.
  out.push_back({.attack = "grid",
                 .budget = 8000,
                 .relatives = {},
                 .inputs = 2,
                 .outputs = [](const at::Tensor& x) {
                   return needle((x.select(1, 0) - 5. / 16).abs().lt(1e-3) *
                                 (x.select(1, 1) - 33. / 64).abs().lt(1e-3));
                 }});
  {  // What only bounds know: where the needle is not.
    const at::Tensor t = somewhere(10);
    out.push_back(
        {.attack = "split",
         .budget = 15000,
         .relatives = {},
         .inputs = 10,
         .outputs =
             [=](const at::Tensor& x) { return needle(((x - as(t, x)).abs() < 0.02).all(1)); },
         .interval =
             [=](const at::Tensor& lo, const at::Tensor& hi) {
               const at::Tensor meets = ((lo < t + 0.02) * (hi > t - 0.02)).all(1);
               return Bounds{needle(meets), at::ones({lo.size(0), 1})};
             }});
  }
  {  // Slopes lead away from the needle everywhere; how steep they are says how near it is.
    const at::Tensor t = somewhere(10);
    out.push_back(
        {.attack = "bisect",
         .budget = 25000,
         .relatives = {},
         .inputs = 10,
         .outputs =
             [=](const at::Tensor& x) { return needle(((x - as(t, x)).abs() < 0.02).all(1)); },
         .pullback =
             [=](const at::Tensor& x, const at::Tensor& c) {
               const at::Tensor off = x - t;
               const at::Tensor far = off.abs().mean(1, true) + 0.01;
               return c.abs() * off.sign() / far.pow(4);
             }});
  }
  {  // A slab thinner than any step of a fixed size: only the margin's size says how far it is.
    const at::Tensor w = somewhere(64) - 0.5;
    const double offset = 0.37;
    const auto distance = [=](const at::Tensor& x) {
      return x.to(at::kDouble).mv(w.to(at::kDouble)) - (w.sum().item<double>() * 0.5 + offset);
    };
    out.push_back({.attack = "polish",
                   .budget = 640,
                   .relatives = {},
                   .inputs = 64,
                   .outputs =
                       [=](const at::Tensor& x) {
                         return (distance(x).abs() - 1e-6).unsqueeze(1).to(x.scalar_type());
                       },
                   .pullback =
                       [=](const at::Tensor& x, const at::Tensor& c) {
                         return c * distance(x).sign().to(at::kFloat).unsqueeze(1) * w;
                       }});
  }
  {  // A few units in the last place away from the original.
    const at::Tensor units = (somewhere(100) * 40.).round();
    const double ulp = std::ldexp(1., -24 + 1) * 0.5;
    out.push_back({.attack = "ulp",
                   .budget = 25000,
                   .relatives = {},
                   .inputs = 100,
                   .outputs = [=](const at::Tensor& x) {
                     const at::Tensor off = ((x.to(at::kDouble) - 0.5) / (2. * ulp) - units).abs();
                     return (1e-4 * (off.mean(1) - 12.)).unsqueeze(1).to(x.scalar_type());
                   }});
  }
  return out;
}

Attempt attempt_with(const Puzzle& puzzle, std::string attack, uint64_t seed) {
  FakeModel model(at::zeros({puzzle.width, puzzle.inputs}), at::zeros({puzzle.width}));
  model.function = [&](const at::Tensor& x) { return puzzle.outputs(x).to(x.scalar_type()); };
  model.pullback = [&](const at::Tensor& x, const at::Tensor& cotangent) {
    return puzzle.pullback ? puzzle.pullback(x, cotangent) : at::zeros_like(x);
  };
  model.interval = puzzle.interval;
  model.shape = puzzle.shape;
  const Property p =
      property(puzzle.inputs, puzzle.width, {{cube(puzzle.inputs, 0.f, 1.f), puzzle.cases}});
  LoopOptions options = test_options(0);
  options.mutations = "portfolio";
  options.attacks = std::move(attack);
  options.criterion = "none";
  options.seconds = 60.;
  options.batch = "64";
  CampaignParts parts;
  parts.make = falsify::make_portfolio;
  Metered metered(model, puzzle.budget);
  return attempt(metered, p, options, seed, parts);
}

}  // namespace

TEST_CASE("puzzles: every attack has one that it solves and the others do not") {
  for (const Puzzle& puzzle : puzzles()) {
    CAPTURE(puzzle.attack);
    for (const uint64_t seed : {1, 2}) {
      CAPTURE(seed);
      const Attempt own = attempt_with(puzzle, puzzle.attack, seed);
      CAPTURE(own.passes);
      CHECK(own.found);
    }
    std::vector<std::pair<std::string, std::future<Attempt>>> others;
    for (const falsify::Attack& other : falsify::attacks()) {
      const std::string name(other.name);
      if (name == puzzle.attack ||
          std::ranges::find(puzzle.relatives, name) != puzzle.relatives.end()) {
        continue;
      }
      others.emplace_back(name, std::async(std::launch::async, [&puzzle, name] {
                            return attempt_with(puzzle, name, 1);
                          }));
    }
    for (auto& [name, attempt] : others) {
      CAPTURE(name);
      const Attempt theirs = attempt.get();
      CAPTURE(theirs.passes);
      CHECK(!theirs.found);
    }
  }
}
