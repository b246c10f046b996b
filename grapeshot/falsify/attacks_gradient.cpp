// grapeshot/falsify/attacks_gradient.cpp: steps along gradients.
//
// "Towards deep learning models resistant to adversarial attacks", Madry et al., 2018 (PGD);
// "Reliable evaluation of adversarial robustness ...", Croce and Hein, 2020 (APGD); "Guided
// adversarial attack ...", Sriramanan et al., 2020 (GAMA); "Diversity can be transferred: output
// diversification ...", Tashiro et al., 2020 (ODI, here OSI).
#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/falsify/attack.h"

namespace grapeshot::falsify {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kSteps = 100;

// The gradient; rows without any go in a direction of their own.
at::Tensor directions(Search& search, const at::Tensor& gradient) {
  const at::Tensor dead = (gradient == 0).all(1, true);
  if (!dead.any().item<bool>()) return gradient;
  const at::Tensor coin = uniform_like(gradient, search.rng()) - 0.5;
  return at::where(dead, coin, gradient);
}

// A step of a share of the ranges `width` of the inputs, or of the diameter of a ball, that fits
// the norm.
template <class Share>
at::Tensor step_by(Search& search, const Share& share, const at::Tensor& width, const at::Tensor& x,
                   const at::Tensor& gradient, const Rows& rows) {
  const RowSpec& spec = rows.spec;
  const at::Tensor g = directions(search, gradient);
  if (!spec.set.any()) return project(x + share * width * g.sign(), spec);
  const at::Tensor range = spec.set.has_ball() ? 2. * spec.set.radius.to(at::kFloat) : width;
  return steepest_step(x, g, share * range, spec.set, spec.lo, spec.hi);
}

// Minus the summed hinge of one case of every row: of all its linear rows that do not hold yet by
// a little, the farthest one when all do.
RowLoss case_loss(const at::Tensor& which) {
  return [which](const at::Tensor& y, const RowSpec& spec, int64_t begin) {
    constexpr float kBeyond = -1e-5f;
    const int64_t m = y.size(0), k = y.size(1);
    const at::Tensor mine = which.slice(0, begin, begin + m);
    if (spec.label.defined()) {
      const at::Tensor label = spec.label.unsqueeze(1);
      const at::Tensor other = mine.unsqueeze(1) + (mine.unsqueeze(1) >= label).to(at::kLong);
      at::Tensor g = at::zeros_like(y);
      g.scatter_(1, other, 1.);
      g.scatter_(1, label, -1.);
      return g;
    }
    const int64_t rows = spec.b.size(2);
    const at::Tensor a =
        spec.a.gather(1, mine.view({m, 1, 1, 1}).expand({m, 1, rows, k})).squeeze(1);
    const at::Tensor b = spec.b.gather(1, mine.view({m, 1, 1}).expand({m, 1, rows})).squeeze(1);
    const at::Tensor s = at::bmm(a, y.unsqueeze(2)).squeeze(2) - b;
    const at::Tensor open = s > kBeyond;
    const at::Tensor last = s == s.amax(1, true);
    const at::Tensor weight = at::where(open.any(1, true), open, last).to(y.scalar_type());
    return at::bmm(weight.unsqueeze(1), a).squeeze(1).neg();
  };
}

// Minus a soft minimum over all cases: with a high temperature all of them count alike, with a low
// one the nearest, so that a landscape of steps is seen from farther away. `temperature` [n] is a
// share of the nearest case's margin.
RowLoss soft_loss(const at::Tensor& temperature) {
  return [temperature](const at::Tensor& y, const RowSpec& spec, int64_t begin) {
    const int64_t m = y.size(0), k = y.size(1);
    const at::Tensor share = temperature.slice(0, begin, begin + m).unsqueeze(1);
    const auto weigh = [&](const at::Tensor& margin) {
      const at::Tensor low = margin.amin(1, true);
      return at::softmax((low - margin) / (share * low.abs()).clamp_min(1e-6), 1);
    };
    if (spec.label.defined()) {
      const at::Tensor label = spec.label.unsqueeze(1);
      at::Tensor margin = y.gather(1, label) - y;
      margin = margin.scatter(1, label, kInfinity);
      return weigh(margin).scatter(1, label, -1.);
    }
    const at::Tensor s =
        at::bmm(spec.a.reshape({m, -1, k}), y.unsqueeze(2)).view_as(spec.b) - spec.b;
    const auto [margin, row] = s.max(2);
    const at::Tensor a =
        spec.a.gather(2, row.view({m, -1, 1, 1}).expand({m, row.size(1), 1, k})).squeeze(2);
    return at::bmm(weigh(margin.clamp_max(1e30)).unsqueeze(1), a).squeeze(1).neg();
  };
}

}  // namespace

void climb_by_signs(Search& search, const Rows& rows, at::Tensor x, int64_t steps, double first,
                    double decay, const RowLoss& loss) {
  const at::Tensor width = rows.width();
  double step = first;
  for (int64_t t = 0; t < steps && !search.over(); ++t, step *= decay) {
    const Climb c = search.climb(x, rows, loss);
    x = step_by(search, step, width, x, c.gradient, rows);
  }
  if (!search.over()) search.evaluate(x, rows);
}

void sprint(Search& search) {
  const Rows rows = search.rows(search.rows_for(60));
  search.turn_surrogate(rows);
  at::Tensor x = begin_at(search, rows);
  // The first of every instance begins at what it was built around.
  const auto firsts = std::min<int64_t>(std::ssize(search.round()), rows.size());
  x.slice(0, 0, firsts).copy_(search.originals(rows).slice(0, 0, firsts));
  climb_by_signs(search, rows, x, 20, 0.5, 0.8);
}

void sign_steps(Search& search) {
  const Rows rows = search.rows(search.rows_for(3 * kSteps));
  search.turn_surrogate(rows);
  climb_by_signs(search, rows, begin_at(search, rows), kSteps, 0.5, 0.953);
}

// alpha-beta-CROWN's AdamClipping: the sign of Adam's step, which is that of its momentum.
void adam_steps(Search& search) {
  const Rows rows = search.rows(search.rows_for(3 * kSteps));
  search.turn_surrogate(rows);
  at::Tensor x = begin_at(search, rows), momentum = at::zeros_like(x);
  const at::Tensor width = rows.width();
  double step = 0.125;
  for (int64_t t = 0; t < kSteps && !search.over(); ++t, step *= 0.99) {
    const Climb c = search.climb(x, rows);
    momentum = 0.9 * momentum + 0.1 * c.gradient;
    x = step_by(search, step, width, x, momentum, rows);
  }
  if (!search.over()) search.evaluate(x, rows);
}

void apgd(Search& search) {
  const Rows rows = search.rows(search.rows_for(3 * kSteps));
  search.turn_surrogate(rows);
  const int64_t n = rows.size();
  const at::Tensor width = rows.width();
  at::Tensor x = begin_at(search, rows), before = x, best_x = x;
  at::Tensor alpha = at::ones({n, 1});
  at::Tensor best = at::full({n}, kInfinity), last = best, best_then = best;
  at::Tensor improved = at::zeros({n}), halved = at::zeros({n}, at::kBool);
  double share = 0.22, gap = 0.22;  // the next checkpoint and its distance from the one before
  int64_t since = 0;
  for (int64_t t = 0; t < kSteps && !search.over(); ++t) {
    const Climb c = search.climb(x, rows);
    improved += (c.margin < last).to(at::kFloat);
    last = c.margin;
    const at::Tensor better = c.margin < best;
    best_x = at::where(better.unsqueeze(1), x, best_x);
    best = at::minimum(best, c.margin);
    ++since;
    if (t >= static_cast<int64_t>(share * kSteps)) {
      const at::Tensor stalled =
          (improved < 0.75 * static_cast<double>(since))
              .logical_or_(halved.logical_not().logical_and_(best_then == best));
      alpha = at::where(stalled.unsqueeze(1), alpha * 0.5, alpha);
      x = at::where(stalled.unsqueeze(1), best_x, x);
      halved = stalled;
      best_then = best;
      improved = at::zeros({n});
      since = 0;
      gap = std::max(gap - 0.03, 0.06);
      share += gap;
    }
    const at::Tensor z = step_by(search, alpha, width, x, c.gradient, rows);
    const double carry = t == 0 ? 1. : 0.75;
    const at::Tensor next = project(x + carry * (z - x) + (1. - carry) * (x - before), rows.spec);
    before = x;
    x = next;
  }
}

void targeted(Search& search) {
  const Rows rows = search.rows(search.rows_for(3 * kSteps));
  search.turn_surrogate(rows);
  int64_t& turn = search.memory<int64_t>("targeted-case", -1);
  // Which case is whose, in turn: over all of them before any comes again.
  const int64_t cases = search.specs().cases();
  const at::Tensor which =
      at::arange(turn, turn + rows.size(), at::kLong).div(std::ssize(search.round()), "floor") %
      cases;
  turn += rows.size();
  climb_by_signs(search, rows, begin_at(search, rows), kSteps, 0.5, 0.953,
                 case_loss(search.real_case(rows, which)));
}

void soft(Search& search) {
  const Rows rows = search.rows(search.rows_for(3 * kSteps));
  search.turn_surrogate(rows);
  const at::Tensor temperature = at::pow(10., 2. * coins(rows.size(), search.rng()) - 1.);
  climb_by_signs(search, rows, begin_at(search, rows), kSteps, 0.5, 0.953, soft_loss(temperature));
}

void gama(Search& search) {
  const Rows rows = search.rows(search.rows_for(3 * kSteps));
  search.turn_surrogate(rows);
  const at::Tensor clean = at::softmax(search.outputs(search.originals(rows)), 1);
  const at::Tensor width = rows.width();
  at::Tensor x = begin_at(search, rows);
  double step = 0.5, lambda = 10.;
  for (int64_t t = 0; t < kSteps && !search.over(); ++t, step *= 0.953, lambda *= 0.9) {
    const RowLoss loss = [&](const at::Tensor& y, const RowSpec& spec, int64_t begin) {
      const at::Tensor p = at::softmax(y, 1);
      const at::Tensor away = 2. * lambda * (p - clean.slice(0, begin, begin + y.size(0)));
      const at::Tensor up = hinge(p, spec, begin) + away;
      return p * (up - (p * up).sum(1, true));  // through the softmax
    };
    const Climb c = search.climb(x, rows, loss);
    x = step_by(search, step, width, x, c.gradient, rows);
  }
  if (!search.over()) search.evaluate(x, rows);
}

void osi(Search& search) {
  const Rows rows = search.rows(search.rows_for(3 * 50));
  search.turn_surrogate(rows);
  const at::Tensor direction =
      2. * at::rand({rows.size(), search.model().outputs()}, search.rng().generator()) - 1.;
  const RowLoss away = [&](const at::Tensor& y, const RowSpec&, int64_t begin) {
    return direction.slice(0, begin, begin + y.size(0));
  };
  const at::Tensor width = rows.width();
  at::Tensor x = begin_at(search, rows);
  for (int64_t t = 0; t < 10 && !search.over(); ++t) {
    const Climb c = search.climb(x, rows, away);
    x = step_by(search, 0.25, width, x, c.gradient, rows);
  }
  climb_by_signs(search, rows, x, 40, 0.25, 0.9);
}

}  // namespace grapeshot::falsify
