// grapeshot/falsify/attacks_local.cpp: proposals that are kept when they are no worse.
//
// "Square Attack: a query-efficient black-box adversarial attack via random search", Andriushchenko
// et al., 2020.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/falsify/attack.h"

namespace grapeshot::falsify {
namespace {

// Forward passes of a round's chains.
constexpr int64_t kSteps = 60;

// Where an input is an image: its channels and its plane, and whether channels come last.
struct Image {
  int64_t channels = 1, height = 1, width = 1;
  bool last = false;
};

Image image_of(const Model& model) {
  std::vector<int64_t> shape;
  for (const int64_t size : model.input_shape()) {
    if (size != 1) shape.push_back(size);
  }
  Image out;
  if (shape.size() == 2) {
    out.height = shape[0];
    out.width = shape[1];
  } else if (shape.size() == 3) {
    out.last = shape[2] < shape[0];
    out.channels = out.last ? shape[2] : shape[0];
    out.height = shape[out.last ? 0 : 1];
    out.width = shape[out.last ? 1 : 2];
  } else {
    out.width = model.inputs();
  }
  return out;
}

// n random rectangles of `share` [n] of the plane, bool [n, H, W].
at::Tensor rectangles(const Image& image, const at::Tensor& share, Rng& rng) {
  const int64_t n = share.size(0);
  const auto run = [&](int64_t size, const at::Tensor& part) {
    const at::Tensor length = (part * static_cast<double>(size)).round().clamp(1, size);
    const at::Tensor begin = (coins(n, rng) * (static_cast<double>(size) - length + 1)).floor();
    const at::Tensor at = at::arange(size, at::kFloat).unsqueeze(0);
    return (at >= begin.unsqueeze(1)).logical_and_(at < (begin + length).unsqueeze(1));
  };
  const bool line = image.height == 1;
  const at::Tensor part = line ? share : share.sqrt();
  return run(image.height, line ? at::ones({n}) : part)
      .unsqueeze(2)
      .logical_and(run(image.width, part).unsqueeze(1));
}

// Chains from near misses: `propose` changes x [n, D], what is no worse stays.
template <class Propose>
void chains(Search& search, Stand at, int64_t steps, Propose propose) {
  at::Tensor x = at.x, margin = at.margin;
  if (!(margin < std::numeric_limits<float>::infinity()).all().template item<bool>()) {
    margin = search.evaluate(x, at.rows);
  }
  for (int64_t t = 0; t < steps && !search.over(); ++t) {
    const at::Tensor next = project(propose(x), at.rows.spec);
    const at::Tensor found = search.evaluate(next, at.rows);
    x = at::where((found <= margin).unsqueeze(1), next, x);
    margin = at::minimum(found, margin);
  }
}

}  // namespace

void square(Search& search) {
  const Image image = image_of(search.model());
  const Stand at = search.near(search.rows_for(kSteps));
  const int64_t n = at.rows.size();
  // Large squares and small ones, side by side instead of one after another.
  const at::Tensor share = 0.5 * at::pow(10., -2.5 * coins(n, search.rng()));
  const RowSpec& spec = at.rows.spec;
  chains(search, at, kSteps, [&](const at::Tensor& x) {
    const at::Tensor mask = rectangles(image, share, search.rng());
    const at::Tensor up = at::rand({n, image.channels}, search.rng().generator()) < 0.5;
    const auto spread = [&](const at::Tensor& plane, const at::Tensor& channel) {
      return image.last ? plane.unsqueeze(3).logical_and(channel.view({n, 1, 1, -1})).flatten(1)
                        : plane.unsqueeze(1).logical_and(channel.view({n, -1, 1, 1})).flatten(1);
    };
    const at::Tensor high = spread(mask, up), low = spread(mask, up.logical_not());
    return at::where(high, spec.hi, at::where(low, spec.lo, x));
  });
}

void discrete(Search& search) {
  // Flips of coordinates to one of their bounds or back to the original, from one to a tenth of
  // them; half of the chains prefer those that the gradient at their start says most of.
  const Stand at = search.near(search.rows_for(kSteps));
  const int64_t n = at.rows.size();
  search.turn_surrogate(at.rows);
  const RowSpec& spec = at.rows.spec;
  const at::Tensor original = search.originals(at.rows);
  const at::Tensor gradient = search.climb(at.x, at.rows).gradient;
  if (search.over()) return;
  const at::Tensor free = (spec.lo < spec.hi).to(at::kFloat);
  const at::Tensor gain = gradient.abs() * at.rows.width();
  const at::Tensor average = gain.sum(1, true) / free.sum(1, true).clamp_min(1);
  const at::Tensor guided = coins(n, search.rng()).unsqueeze(1) < 0.5;
  const at::Tensor weight =
      at::where(guided.logical_and(average > 0), gain / average.clamp_min(1e-30), free);
  const at::Tensor count =
      at::pow(free.sum(1, true).clamp_min(1) * 0.1, coins(n, search.rng()).unsqueeze(1));
  const at::Tensor chance = (count / free.sum(1, true).clamp_min(1) * weight).clamp(0, 1);
  chains(search, at, kSteps, [&](const at::Tensor& x) {
    const at::Tensor flipped = uniform_like(x, search.rng()) < chance;
    const at::Tensor u = uniform_like(x, search.rng());
    const at::Tensor uphill = gradient > 0;
    const at::Tensor high = at::where(guided, uphill.logical_xor(u < 0.2), u < 0.5);
    at::Tensor to = at::where(high, spec.hi, spec.lo);
    // A coordinate that is there already goes to the other side, or home.
    to = at::where(to == x, at::where(u < 0.6, original, spec.lo + spec.hi - to), to);
    return at::where(flipped, to, x);
  });
}

void ulp(Search& search) {
  // Near the border, where float32 decides: steps of a few units in the last place.
  const Stand at = search.near(search.rows_for(kSteps));
  const int64_t n = at.rows.size();
  const at::Tensor gradient = search.climb(at.x, at.rows).gradient;
  if (search.over()) return;
  const at::Tensor free = (at.rows.spec.lo < at.rows.spec.hi).sum(1, true).clamp_min(1);
  const at::Tensor share = at::pow(free.to(at::kFloat), -coins(n, search.rng()).unsqueeze(1));
  const at::Tensor guided = coins(n, search.rng()).unsqueeze(1) < 0.7;
  const at::Tensor size = at::pow(2., (6. * coins(n, search.rng())).floor()).unsqueeze(1);
  chains(search, at, kSteps, [&](const at::Tensor& x) {
    const at::Tensor moved = uniform_like(x, search.rng()) < share;
    const at::Tensor coin = uniform_like(x, search.rng()) - 0.5;
    const at::Tensor way = at::where(guided.logical_and(gradient != 0), gradient, coin).sign();
    const at::Tensor unit =
        at::nextafter(x.abs(), at::full({1}, std::numeric_limits<float>::infinity())) - x.abs();
    return x + moved * way * unit * size;
  });
}

}  // namespace grapeshot::falsify
