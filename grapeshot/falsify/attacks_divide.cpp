// grapeshot/falsify/attacks_divide.cpp: few free inputs, covered systematically.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/falsify/attack.h"

namespace grapeshot::falsify {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Grid {
  int64_t level = 0;  // 2^level + 1 points a dimension
  int64_t next = 0;   // of this level
  size_t region = 0;
  std::vector<int64_t> order;  // of the instance's regions
};

constexpr double kFirstPoints = 6000., kFirstMacs = 1.5e10;

int64_t points_of(int64_t level) {
  return (int64_t{1} << level) + 1;
}

// Points next .. next + n of the grid with `per` points a dimension, [n, dimensions] in [0, 1].
at::Tensor lattice(int64_t next, int64_t n, int64_t per, int64_t dimensions) {
  at::Tensor rest = at::arange(next, next + n, at::kLong);
  std::vector<at::Tensor> columns;
  for (int64_t d = 0; d < dimensions; ++d) {
    columns.push_back((rest % per).to(at::kFloat) / static_cast<double>(per - 1));
    rest = rest.div(per, "floor");
  }
  return at::stack(columns, 1);
}

// Boxes that together are an instance's, with what is thought of their lowest margin.
struct Boxes {
  at::Tensor lo, hi, promise, region;  // [Q, D], [Q, D], [Q], [Q]
  bool begun = false;
};

constexpr int64_t kMostBoxes = 1 << 15;

// All boxes of the instance, at most as many as are kept.
void begin(Boxes& boxes, Search& search, int64_t instance) {
  const auto* first = search.specs().first_region().const_data_ptr<int64_t>();
  const int64_t end = std::min(first[instance + 1], first[instance] + kMostBoxes);
  boxes.region = at::arange(first[instance], end, at::kLong);
  boxes.lo = search.specs().lo().slice(0, first[instance], end).clone();
  boxes.hi = search.specs().hi().slice(0, first[instance], end).clone();
  boxes.promise = at::full({boxes.region.size(0)}, -kInfinity);
  boxes.begun = true;
}

// The most promising ones leave the queue, halved across `score` [m, D]'s largest entry.
struct Halves {
  Rows rows;
  at::Tensor lo, hi;  // [2 m, D]
};

template <class Score>
Halves halve(Boxes& boxes, Search& search, int64_t count, Score score) {
  const int64_t m = std::min(count, boxes.promise.size(0));
  const at::Tensor order = boxes.promise.argsort(/*stable=*/true, 0, false);
  const at::Tensor taken = order.slice(0, 0, m), rest = order.slice(0, m);
  const auto pick = [](const at::Tensor& t, const at::Tensor& i) { return t.index_select(0, i); };
  const at::Tensor lo = pick(boxes.lo, taken), hi = pick(boxes.hi, taken);
  const at::Tensor region = pick(boxes.region, taken);
  const at::Tensor axis = score(lo, hi, region).argmax(1, true);
  const at::Tensor middle = at::lerp(lo.gather(1, axis), hi.gather(1, axis), 0.5);
  boxes = {pick(boxes.lo, rest), pick(boxes.hi, rest), pick(boxes.promise, rest),
           pick(boxes.region, rest), true};
  return {search.rows_of(at::cat({region, region})), at::cat({lo, lo.scatter(1, axis, middle)}),
          at::cat({hi.scatter(1, axis, middle), hi})};
}

void put_back(Boxes& boxes, const Halves& halves, const at::Tensor& promise,
              const at::Tensor& keep) {
  const at::Tensor rows = keep.nonzero().squeeze(1);
  const auto join = [&](const at::Tensor& old, const at::Tensor& added) {
    return at::cat({added.index_select(0, rows), old});  // of equals the newest go first: depth
  };
  boxes.lo = join(boxes.lo, halves.lo);
  boxes.hi = join(boxes.hi, halves.hi);
  boxes.promise = join(boxes.promise, promise);
  boxes.region = join(boxes.region, halves.rows.region);
  if (boxes.promise.size(0) <= kMostBoxes) return;
  // What is least promising is given up, so that this is a search and no proof.
  const at::Tensor best = boxes.promise.argsort(true, 0, false).slice(0, 0, kMostBoxes / 2);
  boxes = {boxes.lo.index_select(0, best), boxes.hi.index_select(0, best),
           boxes.promise.index_select(0, best), boxes.region.index_select(0, best), true};
}

// Judges the centres, and the corners that the gradients at the centres point to. Returns what the
// affine model there says of the lowest margin, [n], and the gain of every coordinate's width.
struct Probe {
  at::Tensor lowest, gain;
};

Probe probe(Search& search, const Halves& h) {
  const at::Tensor centre = project(at::lerp(h.lo, h.hi, 0.5), h.rows.spec);
  const Climb c = search.climb(centre, h.rows);
  if (!search.over()) {
    search.evaluate(at::where(c.gradient > 0, h.hi, at::where(c.gradient < 0, h.lo, centre)),
                    h.rows);
  }
  const at::Tensor gain = c.gradient.abs() * (h.hi - h.lo);
  return {c.margin - 0.5 * gain.sum(1), gain};
}

}  // namespace

void grid(Search& search) {
  for (const int64_t instance : search.round()) {
    if (search.over()) return;
    const std::vector<int64_t>& free = search.features(instance).free;
    const auto dimensions = static_cast<int64_t>(free.size());
    Grid& at = search.memory<Grid>("grid", instance);
    const int64_t regions = search.features(instance).regions;
    const auto* first = search.specs().first_region().const_data_ptr<int64_t>();
    int64_t budget = 8 * search.rows_for(8 * std::ssize(search.round()));
    // The first round goes as far as a second or so allows: a grid of 65 x 65 for two inputs.
    if (at.level == 0 && at.next == 0) {
      budget = std::max<int64_t>(
          budget, static_cast<int64_t>(std::min(
                      kFirstPoints, kFirstMacs / static_cast<double>(search.model().macs() + 1))));
    }
    while (budget > 0 && !search.over()) {
      const int64_t per = points_of(at.level);
      const double all = std::pow(static_cast<double>(per), static_cast<double>(dimensions));
      if (all > 1e15) return;
      const int64_t total = static_cast<int64_t>(all);
      const int64_t n = std::min({total - at.next, budget, int64_t{512}});
      const Rows rows = search.rows_of(
          at::full({n}, first[instance] + static_cast<int64_t>(at.region), at::kLong));
      at::Tensor u = at::full_like(rows.spec.lo, 0.5);
      u.index_copy_(1, at::tensor(free, at::kLong), lattice(at.next, n, per, dimensions));
      search.evaluate(project(at::lerp(rows.spec.lo, rows.spec.hi, u), rows.spec), rows);
      at.next += n;
      budget -= n;
      if (at.next < total) continue;
      at.next = 0;
      if (++at.region < static_cast<size_t>(regions)) continue;
      at.region = 0;
      ++at.level;
    }
  }
}

void bisect(Search& search) {
  for (const int64_t instance : search.round()) {
    Boxes& boxes = search.memory<Boxes>("bisect", instance);
    if (!boxes.begun) begin(boxes, search, instance);
    for (int64_t pass = 0; pass < 16 && !search.over() && boxes.promise.size(0) > 0; ++pass) {
      const int64_t count =
          std::max<int64_t>(1, search.rows_for(64 * std::ssize(search.round())) / 2);
      const Halves h =
          halve(boxes, search, count,
                [&](const at::Tensor& lo, const at::Tensor& hi, const at::Tensor& region) {
                  // The widest, as a share of the whole box, weighed by the slope at the centre.
                  const Rows rows = search.rows_of(region);
                  const Climb c = search.climb(project(at::lerp(lo, hi, 0.5), rows.spec), rows);
                  const at::Tensor gain = c.gradient.abs() * (hi - lo);
                  const at::Tensor wide = (hi - lo) / rows.width().clamp_min(1e-30);
                  return gain / gain.sum(1, true).clamp_min(1e-30) + 0.1 * wide;
                });
      const Probe p = probe(search, h);
      const at::Tensor splits = (h.hi > h.lo).any(1);
      put_back(boxes, h, p.lowest, splits);
    }
  }
}

void split(Search& search) {
  for (const int64_t instance : search.round()) {
    Boxes& boxes = search.memory<Boxes>("split", instance);
    if (!boxes.begun) begin(boxes, search, instance);
    for (int64_t pass = 0; pass < 16 && !search.over() && boxes.promise.size(0) > 0; ++pass) {
      const int64_t count =
          std::max<int64_t>(1, search.rows_for(96 * std::ssize(search.round())) / 2);
      const Halves h =
          halve(boxes, search, count,
                [&](const at::Tensor& lo, const at::Tensor& hi, const at::Tensor& region) {
                  const Rows rows = search.rows_of(region);
                  const Climb c = search.climb(project(at::lerp(lo, hi, 0.5), rows.spec), rows);
                  const at::Tensor gain = c.gradient.abs() * (hi - lo);  // the smear
                  const at::Tensor wide = (hi - lo) / rows.width().clamp_min(1e-30);
                  return gain / gain.sum(1, true).clamp_min(1e-30) + 0.1 * wide;
                });
      const std::optional<Bounds> y = search.model().bounds(h.lo, h.hi, search.head());
      if (!y) return;
      const at::Tensor lowest = lowest_margins(*y, h.rows.spec);
      (void)probe(search, h);
      // Where the bound is above 0 nothing can violate.
      put_back(boxes, h, lowest, (h.hi > h.lo).any(1).logical_and(lowest <= 0));
    }
  }
}

}  // namespace grapeshot::falsify
