#include "grapeshot/core/set_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/set_rows_internal.h"

namespace grapeshot {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kLeast = -std::numeric_limits<float>::infinity();

// Of the radius: sums in float64 may be off by less, for as many inputs as a network has.
constexpr double kSpare = 1e-9;

// Of the inputs, how many a step of l1 moves: SLIDE's 1 %, and a little more for small inputs.
constexpr int64_t kSparse = 50;

// v - c for the features that the ball is about, in float64.
at::Tensor change_of(const at::Tensor& v, const SetRows& set) {
  const at::Tensor change = v.to(at::kDouble) - set.centre.to(at::kDouble);
  return set.grouped.defined() ? change.masked_fill(set.grouped, 0.) : change;
}

// sum over i of min(t a_i, m_i)^2 rises with t: its pieces end where an input meets its bound, at
// t_i = m_i / a_i. The piece in which it reaches r^2 is found by sorting these.
at::Tensor l2_shrunk(const at::Tensor& a, const at::Tensor& m, const at::Tensor& r) {
  const auto [at, order] = (m / a).nan_to_num(kInfinity, kInfinity).sort(1);
  const at::Tensor a2 = a.gather(1, order).square(), m2 = m.gather(1, order).square();
  const at::Tensor none = at::zeros({a.size(0), 1}, a.options());
  const at::Tensor met = at::cat({none, m2.cumsum(1)}, 1);                   // of the first k
  const at::Tensor free = at::cat({a2.flip(1).cumsum(1).flip(1), none}, 1);  // of the others
  const int64_t d = a.size(1);
  const at::Tensor value = met.slice(1, 0, d) + at.square() * free.slice(1, 0, d);
  const at::Tensor k = (value < r.square()).sum(1, true);
  const at::Tensor t =
      ((r.square() - met.gather(1, k)).clamp_min(0.) / free.gather(1, k)).sqrt().nan_to_num(0.);
  return at::minimum(a * t, m);
}

// sum over i of clamp(a_i - q, 0, m_i) = sum (a_i - q)+ - sum (a_i - m_i - q)+ falls with q, in
// pieces that are straight between the sorted a_i and a_i - m_i.
at::Tensor l1_shrunk(const at::Tensor& a, const at::Tensor& m, const at::Tensor& r) {
  const at::Tensor ends = at::cat({a, (a - m).clamp_min(0.)}, 1);
  const auto [at, order] = ends.sort(1, /*descending=*/true);
  const at::Tensor sign = at::cat({at::ones_like(a), at::full_like(a, -1.)}, 1).gather(1, order);
  const at::Tensor count = sign.cumsum(1), sum = (sign * at).cumsum(1);
  const at::Tensor value = sum - count * at;  // with q at the k-th
  const at::Tensor last = (value < r).sum(1, true).sub(1).clamp_min(0);
  const at::Tensor q = ((sum.gather(1, last) - r) / count.gather(1, last)).nan_to_num(0.);
  return at::minimum((a - q).clamp_min(0.), m);
}

at::Tensor length(const at::Tensor& change, BallNorm norm) {
  return change.norm(norm == BallNorm::kL1 ? 1 : 2, {1}, /*keepdim=*/true);
}

// The float32 next to p that is no farther from c.
at::Tensor rounded_towards(const at::Tensor& p, const at::Tensor& c) {
  const at::Tensor near = p.to(at::kFloat), from = c.to(at::kDouble);
  const at::Tensor beyond = (near.to(at::kDouble) - from).abs() > (p - from).abs();
  return at::where(beyond, at::nextafter(near, c), near);
}

at::Tensor into_ball(const at::Tensor& x, const SetRows& set, const at::Tensor& lo,
                     const at::Tensor& hi) {
  const at::Tensor d = change_of(x, set), c = set.centre.to(at::kDouble);
  const at::Tensor r = set.radius * (1. - kSpare);
  const at::Tensor m =
      at::where(d > 0, hi.to(at::kDouble) - c, c - lo.to(at::kDouble)).clamp_min(0.);
  const at::Tensor a = d.abs();
  const at::Tensor inside = length(at::minimum(a, m), set.norm) <= r;
  const at::Tensor size = set.norm == BallNorm::kL1 ? l1_shrunk(a, m, r) : l2_shrunk(a, m, r);
  at::Tensor moved = rounded_towards(c + d.sign() * size, set.centre);
  return at::where(inside, at::clamp(x, lo, hi), moved);
}

// Bounds are values of the grid, or equal: what is clamped to them stays.
at::Tensor onto_grid(const at::Tensor& x, const SetRows& set, const at::Tensor& lo,
                     const at::Tensor& hi) {
  const at::Tensor has = set.step > 0;
  const at::Tensor step = at::where(has, set.step, at::ones_like(set.step));
  const at::Tensor exact = x.to(at::kDouble);
  const at::Tensor value = set.origin + ((exact - set.origin) / step).round() * step;
  const at::Tensor near = at::clamp(at::where(has, value.to(at::kFloat), x), lo, hi);
  if (!set.has_ball()) return near;
  const at::Tensor c = set.centre.to(at::kDouble);
  const at::Tensor inside = length(change_of(near, set), set.norm) <= set.radius * (1. - kSpare);
  const at::Tensor towards = grid_towards(exact, c, set.origin, step);
  // The nearest float32 may be farther away than x after all.
  const at::Tensor beyond = (towards.to(at::kFloat).to(at::kDouble) - c).abs() > (exact - c).abs();
  const at::Tensor closer = towards - beyond * step * (exact - c).sign();
  const at::Tensor kept = at::clamp(at::where(has, closer.to(at::kFloat), x), lo, hi);
  return at::where(inside, near, kept);
}

// [N, G, W]: values of groups, -inf for features that may not be 1.
at::Tensor by_group(const at::Tensor& values, const SetRows& set, const at::Tensor& hi) {
  const auto shaped = [&](const at::Tensor& t) {
    return t.index_select(1, set.groups.flatten())
        .view({t.size(0), set.groups.size(0), set.groups.size(1)});
  };
  return shaped(values).masked_fill(shaped(hi) < 1., kLeast);
}

// x with the 1 of every group at `place` [N, G], a position in it.
at::Tensor with_ones(const at::Tensor& x, const SetRows& set, const at::Tensor& place) {
  const at::Tensor feature =
      set.groups.unsqueeze(0).expand({x.size(0), -1, -1}).gather(2, place.unsqueeze(2)).squeeze(2);
  return x.masked_fill(set.grouped, 0.).scatter(1, feature, 1.);
}

// Where the gradient is largest, in the group in which that gains most.
at::Tensor ones_by_gradient(const at::Tensor& to, const at::Tensor& x, const at::Tensor& g,
                            const SetRows& set, const at::Tensor& hi) {
  const at::Tensor now = by_group(x, set, hi).argmax(2);
  const at::Tensor slopes = by_group(g, set, hi);
  const auto [best, place] = slopes.max(2);
  const at::Tensor gain = best - slopes.gather(2, now.unsqueeze(2)).squeeze(2);
  const auto [most, group] = gain.max(1, /*keepdim=*/true);
  const at::Tensor there = at::where(most > 0, place.gather(1, group), now.gather(1, group));
  return with_ones(to, set, now.scatter(1, group, there));
}

// The direction of length 1 in which the loss rises fastest within the box.
at::Tensor steepest(const at::Tensor& x, const at::Tensor& g, const SetRows& set,
                    const at::Tensor& lo, const at::Tensor& hi) {
  const at::Tensor out = (x >= hi).logical_and_(g > 0).logical_or_((x <= lo).logical_and(g < 0));
  at::Tensor free = g.masked_fill(out, 0.);
  if (set.grouped.defined()) free = free.masked_fill(set.grouped, 0.);
  if (set.norm == BallNorm::kL1) {
    const int64_t most = (g.size(1) + kSparse - 1) / kSparse;
    const auto [size, which] = free.abs().topk(std::max<int64_t>(most, 1), 1);
    const at::Tensor chosen = at::zeros_like(free).scatter(1, which, 1.);
    free = free.sign() * chosen;
  } else {
    // Gradients whose squares are beyond float32 have directions as well.
    free = free / free.abs().amax(1, true);
  }
  return (free / length(free, set.norm)).nan_to_num(0., 0., 0.);
}

template <class T>
bool same(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b,
          bool (*equal)(const T&, const T&)) {
  return a == b || (a && b && equal(*a, *b));
}

void check_alike(const InputSet& a, const InputSet& b) {
  const bool grids = same<Grid>(a.grid, b.grid, [](const Grid& x, const Grid& y) {
    return x.origin == y.origin && x.step == y.step;
  });
  const bool groups =
      same<OneHot>(a.one_hot, b.one_hot, [](const OneHot& x, const OneHot& y) { return x == y; });
  GRAPESHOT_CHECK(grids && groups && a.ball.norm == b.ball.norm, kUnsupported,
                  "the specifications of one model differ in their norm, grid or one-hot groups: "
                  "search for them in several runs");
}

}  // namespace

SetRows SetRows::slice(int64_t begin, int64_t end) const {
  SetRows out = *this;
  if (!has_ball()) return out;
  out.centre = centre.slice(0, begin, end);
  out.radius = radius.slice(0, begin, end);
  return out;
}

SetRows SetRows::pick(const at::Tensor& rows) const {
  SetRows out = *this;
  if (!has_ball()) return out;
  out.centre = centre.index_select(0, rows);
  out.radius = radius.index_select(0, rows);
  return out;
}

void SetRows::move_to(at::Device device) {
  for (at::Tensor* each : {&centre, &radius, &origin, &step, &groups, &grouped}) {
    if (each->defined()) *each = each->to(device);
  }
}

SetRows set_rows(std::span<const Property* const> properties) {
  const InputSet& first = properties[0]->regions.at(0).box.set;
  const int64_t d = properties[0]->inputs;
  SetRows out;
  out.norm = first.ball.norm;
  std::vector<at::Tensor> centres;
  std::vector<double> radii;
  for (const Property* property : properties) {
    for (const Region& region : property->regions) {
      check_alike(first, region.box.set);
      if (!out.has_ball()) continue;
      centres.push_back(at::tensor(region.box.set.ball.centre));
      radii.push_back(region.box.set.ball.radius);
    }
  }
  if (out.has_ball()) {
    out.centre = at::stack(centres);
    out.radius = at::tensor(radii, at::kDouble).unsqueeze(1);
  }
  if (first.grid) {
    out.origin = at::tensor(first.grid->origin, at::kDouble);
    out.step = at::tensor(first.grid->step, at::kDouble);
  }
  if (first.one_hot) {
    size_t width = 0;
    for (const auto& group : *first.one_hot) width = std::max(width, group.size());
    std::vector<int64_t> flat;
    for (const auto& group : *first.one_hot) {
      for (size_t k = 0; k < width; ++k) flat.push_back(group[std::min(k, group.size() - 1)]);
    }
    out.groups = at::tensor(flat, at::kLong).view({-1, static_cast<int64_t>(width)});
    out.grouped = at::zeros({d}, at::kBool).index_fill(0, out.groups.flatten(), true);
  }
  return out;
}

at::Tensor project(const at::Tensor& x, const SetRows& set, const at::Tensor& lo,
                   const at::Tensor& hi) {
  at::Tensor out = set.has_ball() ? into_ball(x, set, lo, hi) : at::clamp(x, lo, hi);
  if (set.step.defined()) out = onto_grid(out, set, lo, hi);
  if (set.groups.defined()) {
    // What was asked for counts, not what the box made of it: of equal ones the first would win.
    out = with_ones(out, set, by_group(x, set, hi).argmax(2));
  }
  return out;
}

at::Tensor reaching_grid(const at::Tensor& move, const SetRows& set) {
  if (!set.step.defined()) return move;
  const at::Tensor values = (move.abs() / set.step.to(move.scalar_type())).nan_to_num(0., 0., 0.);
  const at::Tensor most = values.amax(1, true);
  return at::where((most > 0).logical_and(most < 1), move / most, move);
}

at::Tensor steepest_step(const at::Tensor& x, const at::Tensor& gradient, const at::Tensor& size,
                         const SetRows& set, const at::Tensor& lo, const at::Tensor& hi) {
  const at::Tensor g = gradient.nan_to_num(0., 0., 0.);
  at::Tensor move;
  if (set.has_ball()) {
    move = reaching_grid(steepest(x, g, set, lo, hi) * size, set);
  } else {
    at::Tensor far = size;
    if (set.step.defined()) far = at::maximum(far, set.step.to(far.scalar_type()));
    move = far * g.sign();
  }
  at::Tensor to = x + move;
  if (set.groups.defined()) to = ones_by_gradient(to, x, g, set, hi);
  return project(to, set, lo, hi);
}

at::Tensor draw_inside(const at::Tensor& u, const SetRows& set, const at::Tensor& lo,
                       const at::Tensor& hi, Rng& rng) {
  at::Tensor to;
  if (set.has_ball()) {
    const at::Tensor part = at::rand({u.size(0), 1}, rng.generator(), u.options());
    to = set.centre + noise_of_norm(2. * u - 1., set) * (set.radius.to(u.scalar_type()) * part);
  } else {
    to = at::lerp(lo, hi, u);
  }
  if (set.groups.defined()) {
    to = at::where(set.grouped, at::rand(u.sizes(), rng.generator(), u.options()), to);
  }
  return project(to, set, lo, hi);
}

at::Tensor noise_of_norm(const at::Tensor& noise, const SetRows& set) {
  if (!set.has_ball()) return noise;
  const at::Tensor heavy = set.norm == BallNorm::kL1 ? noise.pow(3) : noise;
  return (heavy / length(heavy, set.norm)).nan_to_num(0., 0., 0.);
}

at::Tensor with_moved_ones(const at::Tensor& to, const at::Tensor& x, const SetRows& set,
                           const at::Tensor& hi, Rng& rng) {
  if (!set.groups.defined()) return to;
  const auto random = [&](at::IntArrayRef sizes) {
    return at::rand(sizes, rng.generator(), x.options());
  };
  const at::Tensor now = by_group(x, set, hi).argmax(2);
  const at::Tensor other = by_group(random(x.sizes()), set, hi).argmax(2);
  const at::Tensor u = random(now.sizes()), share = random({x.size(0), 1}).pow(4);
  const at::Tensor moves = (u < share).logical_or(u == u.amin(1, true));
  return with_ones(to, set, at::where(moves, other, now));
}

at::Tensor grid_towards(const at::Tensor& x, const at::Tensor& centre, const at::Tensor& origin,
                        const at::Tensor& step) {
  const at::Tensor home = ((centre - origin) / step).round();
  const at::Tensor steps = ((x - centre) / step).trunc();
  return (home + steps).mul(step).add(origin);
}

}  // namespace grapeshot
