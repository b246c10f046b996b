// grapeshot/falsify/attacks_sample.cpp: inputs that are drawn, not improved.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/falsify/attack.h"

namespace grapeshot::falsify {
namespace {

// torch's generator of Sobol points, as torch.quasirandom.SobolEngine drives it: scrambled by a
// random shift modulo 1, so that lanes and restarts differ.
struct Sobol {
  at::Tensor state, quasi, shift;
  int64_t generated = 0;

  at::Tensor draw(int64_t n, int64_t dimensions, Rng& rng) {
    if (!state.defined()) {
      state = at::zeros({dimensions, 30}, at::kLong);
      at::_sobol_engine_initialize_state_(state, dimensions);
      quasi = at::zeros({dimensions}, at::kLong);
      shift = at::rand({dimensions}, rng.generator());
    }
    const auto drawn = at::_sobol_engine_draw(quasi, n, state, dimensions, generated, at::kFloat);
    quasi = std::get<1>(drawn);
    generated += n;
    return (std::get<0>(drawn) + shift).frac();
  }
};

}  // namespace

at::Tensor uniform_like(const at::Tensor& x, Rng& rng) {
  return at::rand(x.sizes(), rng.generator(), x.options());
}

at::Tensor coins(int64_t n, Rng& rng) {
  return at::rand({n}, rng.generator());
}

void centre(Search& search) {
  // A round of the first kind goes through all regions once: a box's centre, its two extreme
  // corners and what it was built around.
  int64_t regions = 0;
  for (const int64_t i : search.round()) regions += search.features(i).regions;
  int64_t left = std::max<int64_t>(regions, 1);
  while (left > 0 && !search.over()) {
    const Rows rows =
        search.rows(std::min<int64_t>(left, std::max<int64_t>(search.rows_for(4), 1)));
    left -= rows.size();
    const at::Tensor middle = box_centre(rows.spec.lo, rows.spec.hi);
    for (const at::Tensor& x : {search.originals(rows), middle, rows.spec.lo, rows.spec.hi}) {
      if (!search.over()) search.evaluate(x, rows);
    }
  }
}

void corners(Search& search) {
  for (int64_t pass = 0; pass < 4 && !search.over(); ++pass) {
    const Rows rows = search.rows(search.rows_for(4));
    // From nearly all low to nearly all high, half and half being most likely.
    const at::Tensor share =
        0.5 * (coins(rows.size(), search.rng()) + coins(rows.size(), search.rng()));
    const at::Tensor up = uniform_like(rows.spec.lo, search.rng()) < share.unsqueeze(1);
    search.evaluate(at::where(up, rows.spec.hi, rows.spec.lo), rows);
  }
}

void uniform(Search& search) {
  for (int64_t pass = 0; pass < 4 && !search.over(); ++pass) {
    const Rows rows = search.rows(search.rows_for(4));
    const at::Tensor u = uniform_like(rows.spec.lo, search.rng());
    search.evaluate(project(at::lerp(rows.spec.lo, rows.spec.hi, u), rows.spec), rows);
  }
}

void sobol(Search& search) {
  for (const int64_t instance : search.round()) {
    if (search.over()) return;
    const std::vector<int64_t>& free = search.features(instance).free;
    const Rows rows =
        search.rows_of_instance(instance, search.rows_for(std::ssize(search.round())));
    const auto dimensions = static_cast<int64_t>(free.size());
    const at::Tensor points =
        search.memory<Sobol>("sobol", instance).draw(rows.size(), dimensions, search.rng());
    at::Tensor u = at::full_like(rows.spec.lo, 0.5);
    u.index_copy_(1, at::tensor(free, at::kLong), points);
    search.evaluate(project(at::lerp(rows.spec.lo, rows.spec.hi, u), rows.spec), rows);
  }
}

void near(Search& search) {
  // Normal steps around near misses, of many sizes, in some coordinates or all.
  for (int64_t pass = 0; pass < 4 && !search.over(); ++pass) {
    const Stand at = search.near(search.rows_for(4));
    const int64_t n = at.rows.size();
    const at::Tensor size = at::pow(10., -4. * coins(n, search.rng())).unsqueeze(1);
    const at::Tensor share = coins(n, search.rng()).unsqueeze(1);
    const at::Tensor moved = uniform_like(at.x, search.rng()) < share;
    const at::Tensor step = at::randn(at.x.sizes(), search.rng().generator());
    const at::Tensor x = at.x + moved * step * size * at.rows.width();
    search.evaluate(project(x, at.rows.spec), at.rows);
  }
}

at::Tensor begin_at(Search& search, const Rows& rows) {
  const RowSpec& spec = rows.spec;
  const at::Tensor u = uniform_like(spec.lo, search.rng());
  const at::Tensor style = coins(rows.size(), search.rng()).unsqueeze(1);
  at::Tensor x;
  if (spec.set.any()) {
    const at::Tensor towards = at::where(style < 0.4, (u >= 0.5).to(u.scalar_type()), u);
    x = draw_inside(towards, spec.set, spec.lo, spec.hi, search.rng());
  } else {
    const at::Tensor inside = at::lerp(spec.lo, spec.hi, u);
    const at::Tensor corner = at::where(u < 0.5, spec.lo, spec.hi);
    x = at::where(style < 0.4, corner, inside);
  }
  x = at::where(style > 0.85, search.originals(rows), x);
  return project(x, spec);
}

}  // namespace grapeshot::falsify
