#include "grapeshot/core/sign_step.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/core/rng.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

TEST_CASE("sign_step: what torch's sign, addcmul and clamp give, for steps of every shape") {
  Rng rng(uint64_t{1});
  const auto draw = [&](at::IntArrayRef sizes) { return at::randn(sizes, rng.generator()); };
  for (const auto& sizes : {std::vector<int64_t>{1, 1}, {5, 1}, {1, 37}, {5, 37}}) {
    const at::Tensor x = draw({5, 37}), step = draw(sizes).abs();
    const at::Tensor lo = draw({5, 37}), hi = lo + draw({5, 37}).abs();
    at::Tensor g = draw({5, 37});
    g.select(0, 2).zero_();
    const at::Tensor expected = at::clamp(at::addcmul(x, step * 0.5, g.sign()), lo, hi);
    at::Tensor moved = x.clone();
    sign_step(moved, g, {step, 0., {}}, 0.5, lo, hi);
    CHECK(at::allclose(moved, expected, 1e-6, 1e-6));
    CHECK(moved.ge(lo).logical_and(moved.le(hi)).all().item<bool>());
    // As where the loops do not go.
    at::Tensor doubles = x.to(at::kDouble);
    sign_step(doubles, g.to(at::kDouble), {step.to(at::kDouble), 0., {}}, 0.5, lo.to(at::kDouble),
              hi.to(at::kDouble));
    CHECK(at::allclose(moved.to(at::kDouble), doubles, 1e-6, 1e-6));
  }
}

TEST_CASE("sign_step: a step of its own for every row, from eta and from the ranges alike") {
  Rng rng(uint64_t{2});
  const auto draw = [&](at::IntArrayRef sizes) { return at::randn(sizes, rng.generator()); };
  const at::Tensor x = draw({5, 37}), g = draw({5, 37}), row = draw({5}).abs();
  const at::Tensor lo = draw({5, 37}), hi = lo + draw({5, 37}).abs(), eta = (hi - lo) * 0.1;
  const at::Tensor expected =
      at::clamp(at::addcmul(x, eta * row.unsqueeze(1) * 0.5, g.sign()), lo, hi);
  for (const double range : {0., 0.1}) {
    at::Tensor moved = x.clone();
    sign_step(moved, g, {eta, range, row}, 0.5, lo, hi);
    CHECK(at::allclose(moved, expected, 1e-6, 1e-6));
  }
  at::Tensor even = x.clone();
  sign_step(even, g, {at::full({1, 1}, 0.3f), 0., row}, 0.5, lo, hi);
  CHECK(at::allclose(even, at::clamp(x + 0.15 * row.unsqueeze(1) * g.sign(), lo, hi), 1e-6, 1e-6));
}

TEST_CASE("sign_step: a gradient that is NaN moves nothing") {
  at::Tensor x = at::zeros({1, 3});
  const at::Tensor g = at::tensor({std::nanf(""), 1.f, -1.f}).view({1, 3});
  sign_step(x, g, {at::ones({1, 1}), 0., {}}, 1., at::full({1, 3}, -9.f), at::full({1, 3}, 9.f));
  CHECK(at::equal(x, at::tensor({0.f, 1.f, -1.f}).view({1, 3})));
}

TEST_CASE("keep_better: rows with a smaller margin, and no others") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor best = at::zeros({4, 2}, type);
    const at::Tensor best_margin = at::tensor({1.f, 1.f, inf, inf}).to(type);
    keep_better(best, best_margin, at::ones({4, 2}, type),
                at::tensor({0.5f, 1.f, 3.f, inf}).to(type));
    CHECK(at::equal(best.select(1, 0).to(at::kFloat), at::tensor({1.f, 0.f, 1.f, 0.f})));
    CHECK(at::equal(best_margin.to(at::kFloat), at::tensor({0.5f, 1.f, 3.f, inf})));
  }
}
