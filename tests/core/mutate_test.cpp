#include "grapeshot/core/mutate.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kInputs = 6;

// A batch with its boxes; every third coordinate cannot move (lo == hi): a bit of a token mask.
struct Setting {
  explicit Setting(int64_t n, uint64_t seed = 5) : rng(seed) {
    Rng boxes(uint64_t{17});
    lo = at::rand({n, kInputs}, boxes.generator()) * 4. - 2.;
    hi = lo + at::rand({n, kInputs}, boxes.generator()) * 3.;
    for (at::Tensor* each : {&lo, &hi}) each->slice(1, 0, kInputs, 3).fill_(1.);
    masks = {at::arange(0, kInputs, 3), at::ones({n, 2}, at::kBool), at::full({n}, 2, at::kLong)};
    x = lo + (hi - lo) * at::rand({n, kInputs}, boxes.generator());
    x = at::clamp(x, lo, hi);
    eta = (hi - lo) * 0.25;
    stage = at::arange(n).to(at::kFloat);
  }

  Setting(const Setting&) = delete;  // the objective knows where it lives
  Setting& operator=(const Setting&) = delete;

  /// A wide box around x = 0, in which nothing is clipped.
  void widen(double step) {
    lo = at::full_like(x, -1000.);
    hi = at::full_like(x, 1000.);
    x = at::zeros_like(x);
    eta = at::full_like(x, step);
    share = step / 1000.;
  }

  /// Whether y lies in the box, in which a mutation of masks may drop bits.
  [[nodiscard]] bool holds(const at::Tensor& y, const Mutation& mutation) const {
    at::Tensor rest = y;
    if (mutation.masks) {
      const at::Tensor bits = y.index_select(1, masks.inputs);
      if (!bits.eq(0).logical_or(bits.eq(1)).all().item<bool>()) return false;
      rest = y.index_fill(1, masks.inputs, 1.);
    }
    return rest.ge(lo).logical_and(rest.le(hi)).all().item<bool>();
  }

  at::Tensor apply(const Mutation& mutation) {
    MutationContext context{lo,           hi,       eta,
                            /*range=*/0., share,    stage,
                            true,         steps,    mutation.gradient ? &objective : nullptr,
                            rng,          deadline, masks};
    return mutation.apply(x, context);
  }

  at::Tensor lo, hi, x, eta, stage;
  TokenMasks masks = {};
  double share = 0.25;
  int64_t steps = 4, calls = 0;
  Rng rng;
  Deadline deadline{};
  std::vector<at::Tensor> iterates;
  // Its sign depends on the row and on nothing else.
  std::function<at::Tensor(const at::Tensor&)> slope = [](const at::Tensor& at) {
    return at.sin();
  };
  Objective objective = [this](const at::Tensor& at) {
    ++calls;
    iterates.push_back(at.clone());
    return slope(at);
  };
};

std::string known_names() {
  std::string names;
  for (const Mutation& each : mutations()) {
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  return names;
}

double share(const std::vector<WeightedMutation>& all, std::string_view name) {
  for (const WeightedMutation& each : all) {
    if (each.mutation->name == name) return each.weight;
  }
  return 0.;
}

}  // namespace

TEST_CASE(
    "mutations: the result has the batch's shape and lies in the box, frozen inputs included") {
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    CHECK(!mutation.summary.empty());
    for (const int64_t n : {1, 7, 200}) {
      CAPTURE(n);
      Setting s(n);
      s.eta = s.eta * 8.;  // far beyond the box
      const at::Tensor y = s.apply(mutation);
      CHECK(y.sizes() == s.x.sizes());
      CHECK((y.scalar_type() == at::kFloat));
      CHECK(s.holds(y, mutation));
      CHECK((n == 1 || !at::equal(y, s.x)));
    }
  }
}

TEST_CASE("mutations: no rows in, no rows out") {
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    Setting s(0);
    CHECK(s.apply(mutation).sizes() == at::IntArrayRef({0, kInputs}));
  }
}

TEST_CASE("mutations: the same seed gives the same result, the batch itself stays as it was") {
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    Setting one(20), again(20), other(20, 6);
    for (Setting* each : {&one, &again, &other}) each->stage.zero_();
    const at::Tensor before = one.x.clone();
    const at::Tensor y = one.apply(mutation);
    CHECK(at::equal(one.x, before));
    CHECK(at::equal(y, again.apply(mutation)));
    const bool uses_chance = mutation.name != "gradient";
    CHECK(at::equal(y, other.apply(mutation)) == !uses_chance);
  }
}

TEST_CASE("mutations: a row does not see the other rows") {
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    Setting one(20), other(20);
    for (at::Tensor* t : {&other.x, &other.lo, &other.hi}) {
      *t = t->clone();
      t->slice(0, 0, 10).add_(3.);
    }
    other.eta = other.eta.clone();
    other.eta.slice(0, 0, 10).mul_(2.);
    other.stage = other.stage.clone();
    other.stage.slice(0, 0, 10).add_(1.);
    const at::Tensor a = one.apply(mutation), b = other.apply(mutation);
    CHECK(at::equal(a.slice(0, 10), b.slice(0, 10)));
    CHECK(!at::equal(a.slice(0, 0, 10), b.slice(0, 0, 10)));
  }
}

TEST_CASE("mutations: one step for the whole batch does as well as one per coordinate") {
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    Setting one(9), all(9);
    one.eta = at::full({1, 1}, 0.125);
    one.share = all.share = 0.1;
    all.eta = at::full({9, kInputs}, 0.125);
    CHECK(at::equal(one.apply(mutation), all.apply(mutation)));
  }
}

TEST_CASE("mutations: those with gradients take T of them, the others none") {
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    for (const int64_t steps : {1, 4, 10}) {
      Setting s(3);
      s.steps = steps;
      (void)s.apply(mutation);
      CHECK(s.calls == (mutation.gradient ? steps : 0));
      for (const at::Tensor& at : s.iterates) {
        CHECK(at.ge(s.lo).logical_and(at.le(s.hi)).all().item<bool>());
      }
    }
  }
}

TEST_CASE("mutations: an expired deadline ends a gradient mutation, still in its box") {
  const std::atomic<bool> stop = true;
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    Setting s(3);
    s.deadline = Deadline(&stop);
    const at::Tensor y = s.apply(mutation);
    CHECK(s.calls == 0);
    CHECK(s.holds(y, mutation));
  }
}

TEST_CASE("gradient: T steps of 2 eta / T along the sign, Eq. 10; one step of 2 eta, Eq. 11") {
  const at::Tensor sign = vector({1.f, -1.f, 0.f, 1.f, -1.f, 1.f});
  for (const int64_t steps : {1, 2, 4, 8}) {
    CAPTURE(steps);
    Setting s(2);
    s.widen(0.5);
    s.steps = steps;
    s.slope = [&](const at::Tensor&) { return (sign * 1e-6).expand({2, kInputs}); };
    const at::Tensor y = s.apply(find_mutation("gradient"));
    // 2 eta = 1, all steps are powers of two.
    CHECK(at::equal(y, sign.expand({2, kInputs})));
    for (int64_t t = 0; t < steps; ++t) {
      const double way = static_cast<double>(t) / static_cast<double>(steps);
      CHECK(at::equal(s.iterates[static_cast<size_t>(t)], sign.expand({2, kInputs}) * way));
    }
  }
}

TEST_CASE("gradient: the box bounds every step, x +- eta none") {
  Setting s(1);
  s.widen(0.5);
  s.steps = 4;
  s.hi = at::full({1, kInputs}, 0.375);
  s.slope = [&](const at::Tensor& at) {  // up until the box ends, then down
    return at::where(at.ge(0.375), -at::ones_like(at), at::ones_like(at));
  };
  // 0, .25, .375 (cut from .5), .125, .375 (cut again).
  const at::Tensor y = s.apply(find_mutation("gradient"));
  std::vector<float> path;
  for (const at::Tensor& at : s.iterates)
    path.push_back(at.select(0, 0).select(0, 0).item<float>());
  CHECK(path == std::vector<float>{0.f, 0.25f, 0.375f, 0.125f});
  CHECK(at::equal(y, at::full({1, kInputs}, 0.375)));
  // Twice eta away from x: eta is no bound on the way.
  Setting free(1);
  free.widen(0.5);
  free.slope = [](const at::Tensor& at) { return at::ones_like(at); };
  CHECK(at::equal(free.apply(find_mutation("gradient")), at::ones({1, kInputs})));
}

TEST_CASE("boundary: half a step up or down, each as often as the other") {
  Setting s(2000);
  s.widen(0.25);
  const at::Tensor y = s.apply(find_mutation("boundary"));
  CHECK(y.abs().eq(0.125).all().item<bool>());
  const double up = y.gt(0).to(at::kDouble).mean().item<double>();
  CHECK(near(up, 0.5, 0.023));  // 5 standard deviations of 12,000 coins
  // Coordinates of a row are drawn one by one.
  CHECK(near(y.gt(0).to(at::kFloat).mean(1).std().item<double>(), std::sqrt(0.25 / kInputs), 0.02));
}

TEST_CASE("random: normal noise of half a step") {
  Setting s(20000);
  s.widen(0.5);
  const at::Tensor z = s.apply(find_mutation("random")).to(at::kDouble) / 0.25;
  CHECK(std::abs(z.mean().item<double>()) < 0.015);
  CHECK(near(z.std().item<double>(), 1., 0.01));
  CHECK(near(z.abs().le(1.).to(at::kDouble).mean().item<double>(), 0.6827, 0.007));
  CHECK(near(z.abs().gt(3.).to(at::kDouble).mean().item<double>(), 0.0027, 0.0008));
}

TEST_CASE("mask: bits are 0 or 1, padding stays, no more are dropped than may be, nothing else") {
  constexpr int64_t kRows = 400, kTokens = 8;
  const Mutation& mask = find_mutation("mask");
  Setting s(kRows);
  s.lo = at::cat({at::zeros({kRows, 3}), at::ones({kRows, kTokens - 2}), at::zeros({kRows, 2})}, 1);
  s.hi = s.lo.clone();
  s.hi.slice(1, 0, 3).fill_(1.);  // three inputs that are no bits
  s.x = s.lo + 0.5 * (s.hi - s.lo);
  const at::Tensor bits = at::arange(3, 3 + kTokens);
  s.masks = {bits, s.lo.index_select(1, bits) == 1, at::arange(kRows) % 4};
  at::Tensor counts = at::zeros({kTokens});
  for (int i = 0; i < 20; ++i) {
    const at::Tensor before = s.x;
    s.x = s.apply(mask);
    CHECK(at::equal(s.x.slice(1, 0, 3), before.slice(1, 0, 3)));
    const at::Tensor now = s.x.index_select(1, bits);
    CHECK(now.eq(0).logical_or(now.eq(1)).all().item<bool>());
    CHECK(now.slice(1, kTokens - 2).eq(0).all().item<bool>());
    const at::Tensor dropped = now.slice(1, 0, kTokens - 2).eq(0);
    CHECK(dropped.sum(1).le(s.masks.most).all().item<bool>());
    counts += now.eq(0).sum(0);
  }
  // Every bit takes part, and some rows drop as many as they may.
  CHECK(counts.slice(0, 0, kTokens - 2).gt(500).all().item<bool>());
  const at::Tensor dropped = s.x.slice(1, 3, 1 + kTokens).eq(0).sum(1);
  CHECK(dropped.eq(3).any().item<bool>());
}

TEST_CASE("mask: without a mask it changes nothing") {
  Setting s(5);
  s.masks = {};
  CHECK(at::equal(s.apply(find_mutation("mask")), s.x));
}

TEST_CASE("parse_mutations: the paper's set has the weights of its Table 2") {
  const auto paper = parse_mutations("paper", "");
  REQUIRE(paper.size() == 3);
  CHECK(share(paper, "gradient") == 0.5);
  CHECK(share(paper, "boundary") == 0.2);
  CHECK(share(paper, "random") == 0.3);
}

TEST_CASE("parse_mutations: the default set is that of the table") {
  const auto all = parse_mutations("default", "");
  double sum = 0.;
  const auto with_masks = parse_mutations("default", "", true);
  for (const Mutation& each : mutations()) {
    CHECK(share(with_masks, each.name) == each.default_weight);
    CHECK(share(all, each.name) == (each.masks ? 0. : each.default_weight));
    sum += share(all, each.name);
  }
  CHECK(sum == doctest::Approx(1.));
}

TEST_CASE("parse_mutations: names weigh the same, weights override, 0 takes out") {
  const auto two = parse_mutations("random,boundary", "");
  REQUIRE(two.size() == 2);
  CHECK(two[0].mutation->name == "boundary");  // in table order
  CHECK(two[0].weight == two[1].weight);

  const auto fewer = parse_mutations("paper", "gradient=0,random=.75");
  REQUIRE(fewer.size() == 2);
  CHECK(share(fewer, "boundary") == 0.2);
  CHECK(share(fewer, "random") == 0.75);

  const auto more = parse_mutations("random", "gradient=2");
  REQUIRE(more.size() == 2);
  CHECK(share(more, "gradient") == 2.);
  CHECK(share(parse_mutations("random", "random=1e-3,"), "random") == 1e-3);
}

TEST_CASE("parse_mutations: unknown names list the known ones") {
  for (const auto& [set, weights, name] : {std::tuple{"fgsm", "", "fgsm"},
                                           {"gradient,Random", "", "Random"},
                                           {"paper", "x=1", "x"},
                                           {"paper", "=1", ""},
                                           {"default,paper", "", "default"}}) {
    CHECK(message_of(ErrorCode::kNotFound, [&] { (void)parse_mutations(set, weights); }) ==
          "no mutation is called '" + std::string(name) + "'; known: " + known_names());
  }
}

TEST_CASE("parse_mutations: a weight that is no number >= 0 is refused") {
  for (const char* pair :
       {"gradient", "gradient=", "gradient=-1", "gradient=x", "gradient=1x", "gradient=nan",
        "gradient=inf", "gradient=1e999", "gradient= 1", "gradient==1"}) {
    CHECK(message_of(ErrorCode::kInvalidArgument, [&] { (void)parse_mutations("paper", pair); }) ==
          "--weights: '" + std::string(pair) +
              "' is not of the form name=number with a number >= 0");
  }
}

TEST_CASE("parse_mutations: a set with nothing in it is refused") {
  for (const auto& [set, weights] :
       {std::pair{"", ""}, {",", ""}, {"paper", "gradient=0,boundary=0,random=0"}}) {
    CHECK(message_of(ErrorCode::kInvalidArgument, [&] { (void)parse_mutations(set, weights); }) ==
          "no mutation has a weight above 0");
  }
}
