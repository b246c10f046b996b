#include "grapeshot/diff/constraint.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/table.h"

namespace grapeshot::diff {
namespace {

at::Tensor anything(const at::Tensor& g, const std::vector<int64_t>&, Rng&) {
  return g;
}

// The whole image lighter or darker.
at::Tensor light(const at::Tensor& g, const std::vector<int64_t>&, Rng&) {
  return g.mean(1, true).sign().expand(g.sizes()).contiguous();
}

// 1 in a rectangle of `height` x `width` at a random place of every image, [n, H, W].
at::Tensor patches(int64_t n, int64_t h, int64_t w, int64_t height, int64_t width, Rng& rng) {
  const auto inside = [&](int64_t size, int64_t length) {
    const at::Tensor begin = at::randint(size - length + 1, {n, 1}, rng.generator(), at::kLong);
    const at::Tensor place = at::arange(size).unsqueeze(0);
    return (place >= begin).logical_and(place < begin + length);
  };
  return inside(h, height).unsqueeze(2).logical_and(inside(w, width).unsqueeze(1)).to(at::kFloat);
}

at::Tensor as_planes(const at::Tensor& g, const std::vector<int64_t>& shape) {
  return g.view({g.size(0), -1, shape[shape.size() - 2], shape.back()});
}

int64_t part(int64_t size, int64_t of) {
  return std::max<int64_t>(1, (size + of - 1) / of);
}

// One rectangle of a third of the sides, as by something in front of the lens.
at::Tensor occlusion(const at::Tensor& g, const std::vector<int64_t>& shape, Rng& rng) {
  const at::Tensor planes = as_planes(g, shape);
  const int64_t h = planes.size(2), w = planes.size(3);
  const at::Tensor mask = patches(g.size(0), h, w, part(h, 3), part(w, 3), rng).unsqueeze(1);
  return (planes * mask).view(g.sizes());
}

// Several small rectangles darker, as by dirt on the lens, where that is the way to go.
at::Tensor blackout(const at::Tensor& g, const std::vector<int64_t>& shape, Rng& rng) {
  constexpr int kPatches = 5;
  const at::Tensor planes = as_planes(g, shape);
  const int64_t h = planes.size(2), w = planes.size(3);
  at::Tensor out = at::zeros_like(planes);
  for (int i = 0; i < kPatches; ++i) {
    const at::Tensor mask = patches(g.size(0), h, w, part(h, 5), part(w, 5), rng).unsqueeze(1);
    const at::Tensor darker = ((planes * mask).sum({1, 2, 3}, true) < 0).to(at::kFloat);
    out = at::minimum(out, -mask * darker);
  }
  return out.view(g.sizes());
}

constexpr Constraint kTable[] = {
    {"none", "Any change.", anything, false},
    {"light", "The whole image lighter or darker.", light, false},
    {"occlusion", "One rectangle, a third of the sides, at a random place in every step.",
     occlusion, true},
    {"blackout", "Five small rectangles darker.", blackout, true},
};

}  // namespace

std::span<const Constraint> constraints() {
  return kTable;
}

const Constraint& find_constraint(std::string_view name) {
  return find_row(constraints(), name, "constraint");
}

}  // namespace grapeshot::diff
