// grapeshot/falsify/attacks_divide.cpp: few free inputs, covered systematically.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
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

// Boxes that are kept: of both bounds some 64 MiB.
int64_t most_boxes(const Search& search) {
  return std::clamp<int64_t>((int64_t{64} << 20) / (8 * search.model().inputs()), 64, 1 << 15);
}

// All boxes of the instance, at most as many as are kept; again when none is left.
void begin(Boxes& boxes, Search& search, int64_t instance) {
  const auto* first = search.specs().first_region().const_data_ptr<int64_t>();
  const int64_t end = std::min(first[instance + 1], first[instance] + most_boxes(search));
  boxes.region = at::arange(first[instance], end, at::kLong);
  boxes.lo = search.specs().lo().slice(0, first[instance], end).clone();
  boxes.hi = search.specs().hi().slice(0, first[instance], end).clone();
  boxes.promise = at::full({boxes.region.size(0)}, -kInfinity);
  boxes.begun = true;
}

at::Tensor pick(const at::Tensor& t, const at::Tensor& index) {
  return t.index_select(0, index);
}

Boxes some(const Boxes& boxes, const at::Tensor& index) {
  return {pick(boxes.lo, index), pick(boxes.hi, index), pick(boxes.promise, index),
          pick(boxes.region, index), true};
}

// `first`, then `second`: of equals the newest are taken first, so that depth comes before breadth.
Boxes join(const Boxes& first, const Boxes& second) {
  return {at::cat({first.lo, second.lo}), at::cat({first.hi, second.hi}),
          at::cat({first.promise, second.promise}), at::cat({first.region, second.region}), true};
}

// The `count` most promising ones leave the queue.
Boxes take(Boxes& boxes, int64_t count) {
  const int64_t m = std::min(count, boxes.promise.size(0));
  const at::Tensor order = boxes.promise.argsort(/*stable=*/true, 0, false);
  const Boxes taken = some(boxes, order.slice(0, 0, m));
  boxes = some(boxes, order.slice(0, m));
  return taken;
}

// Both halves of each, across the input with the largest smear: slope at the centre times width,
// and some of the width alone, as a share of the whole box. Halves that are no smaller go.
Boxes halves(Search& search, const Boxes& whole) {
  const Rows rows = search.rows_of(whole.region);
  const Climb c = search.climb(box_centre(whole.lo, whole.hi), rows);
  const at::Tensor gain = c.gradient.abs() * (whole.hi - whole.lo);
  const at::Tensor wide = (whole.hi - whole.lo) / rows.width().clamp_min(1e-30);
  const at::Tensor axis = (gain / gain.sum(1, true).clamp_min(1e-30) + 0.1 * wide).argmax(1, true);
  const at::Tensor low = whole.lo.gather(1, axis), high = whole.hi.gather(1, axis);
  const at::Tensor middle = at::lerp(low, high, 0.5);
  const Boxes both = {at::cat({whole.lo, whole.lo.scatter(1, axis, middle)}),
                      at::cat({whole.hi.scatter(1, axis, middle), whole.hi}),
                      at::cat({whole.promise, whole.promise}),
                      at::cat({whole.region, whole.region}), true};
  const at::Tensor smaller = at::cat({middle<high, middle> low}).squeeze(1);
  return some(both, smaller.nonzero().squeeze(1));
}

void put_back(Boxes& boxes, const Boxes& added, int64_t most) {
  boxes = join(added, boxes);
  if (boxes.promise.size(0) <= most) return;
  // What is least promising is given up, so that this is a search and no proof.
  boxes = some(boxes, boxes.promise.argsort(true, 0, false).slice(0, 0, most / 2));
}

// Judges the centres, and the corners that the gradients at the centres point to. Returns what the
// affine model there says of the lowest margin, [n].
at::Tensor probe(Search& search, const Boxes& boxes) {
  const Rows rows = search.rows_of(boxes.region);
  const at::Tensor centre = box_centre(boxes.lo, boxes.hi);
  const Climb c = search.climb(centre, rows);
  if (!search.over()) {
    const at::Tensor& g = c.gradient;
    search.evaluate(at::where(g > 0, boxes.hi, at::where(g < 0, boxes.lo, centre)), rows);
  }
  return c.margin - 0.5 * (c.gradient.abs() * (boxes.hi - boxes.lo)).sum(1);
}

// One round of halving on every instance; `promise_of` says what halves are worth after they were
// probed, +inf for those that cannot violate.
template <class Promise>
void divide(Search& search, std::string_view name, int64_t passes, Promise promise_of) {
  const auto instances = std::ssize(search.round());
  const int64_t count = std::max<int64_t>(1, search.rows_for(passes * instances) / 2);
  for (const int64_t instance : search.round()) {
    Boxes& boxes = search.memory<Boxes>(name, instance);
    for (int64_t pass = 0; pass < 16 && !search.over(); ++pass) {
      if (!boxes.begun || boxes.promise.size(0) == 0) begin(boxes, search, instance);
      const Boxes whole = take(boxes, count);
      Boxes both = halves(search, whole);
      if (!search.over()) both.promise = promise_of(both, probe(search, both));
      if (search.over()) {  // as if they had not been taken
        put_back(boxes, whole, most_boxes(search));
        return;
      }
      const at::Tensor keep = both.promise.lt(kInfinity).logical_and(both.lo.lt(both.hi).any(1));
      put_back(boxes, some(both, keep.nonzero().squeeze(1)), most_boxes(search));
    }
  }
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
      if (all > 1e15) break;
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
  divide(search, "bisect", 64, [](const Boxes&, const at::Tensor& affine) {
    return at::nan_to_num(affine, 1e30, 1e30, -1e30);
  });
}

void split(Search& search) {
  if (!search.has_bounds()) return;
  divide(search, "split", 96, [&](const Boxes& boxes, const at::Tensor&) {
    const std::optional<Bounds> y = search.model().bounds(boxes.lo, boxes.hi, search.head());
    const RowSpec spec = search.rows_of(boxes.region).spec;
    // Where the bound is above 0 nothing can violate; where it is NaN nothing is known.
    const at::Tensor lowest = at::nan_to_num(lowest_margins(*y, spec), -1e30, 1e30, -1e30);
    return at::where(lowest > 0, kInfinity, lowest);
  });
}

}  // namespace grapeshot::falsify
