// grapeshot/falsify/attacks_border.cpp: the last bit of the way, inside one activation pattern
// after another.
#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/falsify/attack.h"

namespace grapeshot::falsify {

// A network of rectifiers is affine as long as no neuron switches, so that margin and gradient tell
// where the border is: Polyak's step goes there, in the box's own scale, without the coordinates
// that are at their bounds already. Where a neuron switches on the way, the next step starts over.
void polish(Search& search) {
  constexpr int64_t kSteps = 40;
  const Stand at = search.near(search.rows_for(3 * kSteps));
  const int64_t n = at.rows.size();
  const RowSpec& spec = at.rows.spec;
  const at::Tensor width = at.rows.width();
  // A little beyond the border; some rows take longer or shorter steps than the affine model says.
  const at::Tensor relax = at::pow(2., 2. * coins(n, search.rng()).unsqueeze(1) - 1.);
  const at::Tensor jitter = at::pow(10., -1. - 4. * coins(n, search.rng())).unsqueeze(1);
  at::Tensor x = at.x;
  // All but the first of an instance begin a little aside.
  const at::Tensor aside = (uniform_like(x, search.rng()) - 0.5) * jitter * width;
  const auto firsts = std::min<int64_t>(std::ssize(search.round()), n);
  aside.slice(0, 0, firsts).zero_();
  x = project(x + aside, spec);
  at::Tensor trust = at::full({n, 1}, 0.1);
  at::Tensor best = at::full({n}, std::numeric_limits<float>::infinity());
  for (int64_t t = 0; t < kSteps && !search.over(); ++t) {
    const Climb c = search.climb(x, at.rows);
    if (search.over()) return;
    const at::Tensor better = (c.margin < best).unsqueeze(1);
    best = at::minimum(best, c.margin);
    trust = at::where(better, (trust * 1.3).clamp_max(0.5), trust * 0.6);
    const at::Tensor& g = c.gradient;
    const at::Tensor stuck =
        (x >= spec.hi).logical_and(g > 0).logical_or((x <= spec.lo).logical_and(g < 0));
    const at::Tensor scaled = at::where(stuck, 0., g) * width;  // per box width
    const at::Tensor square = (scaled * scaled).sum(1, true);
    const at::Tensor goal = c.margin.unsqueeze(1);
    const at::Tensor length = (goal + 1e-3 * goal.abs() + 1e-9) / square.clamp_min(1e-30);
    at::Tensor step = at::nan_to_num(relax * length * scaled, 0., 0., 0.);
    const at::Tensor largest = step.abs().amax(1, true).clamp_min(1e-30);
    step = step * (trust / largest).clamp_max(1.);
    x = project(x + step * width, spec);
  }
  if (!search.over()) search.evaluate(x, at.rows);
}

}  // namespace grapeshot::falsify
