#include "grapeshot/diff/transform.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"

namespace grapeshot::diff {
namespace {

// A parameter of every row, [n, 1, 1, 1].
at::Tensor of_rows(const at::Tensor& parameters, int64_t column = 0) {
  return parameters.select(1, column).view({-1, 1, 1, 1});
}

// --- affine: a pixel at d from the centre of the result comes from A d + b there
// ------------------

struct Affine {
  at::Tensor xx, xy, yx, yy, x, y;  // [n]
};

Affine unmoved(const at::Tensor& p) {
  const at::Tensor one = at::ones_like(p.select(1, 0)), zero = at::zeros_like(one);
  return {one, zero, zero, one, zero, zero};
}

// Bilinear, with black around the image.
at::Tensor resample(const at::Tensor& x, const Affine& a, const ValidRange& range) {
  const auto h = static_cast<double>(x.size(2) - 1), w = static_cast<double>(x.size(3) - 1);
  // Coordinates of the grid go from -1 to 1 between the centres of the outermost pixels.
  const at::Tensor theta = at::stack({a.xx, a.xy * (h / w), a.x * (2. / w),  //
                                      a.yx * (w / h), a.yy, a.y * (2. / h)},
                                     1)
                               .view({-1, 2, 3});
  const at::Tensor grid = at::affine_grid_generator(theta, x.sizes(), /*align_corners=*/true);
  const at::Tensor moved = at::grid_sampler(x - range.low, grid, /*bilinear*/ 0, /*zeros*/ 0,
                                            /*align_corners=*/true);
  // A pixel that rounding of the coordinates alone lets in.
  return moved.masked_fill(moved.abs() < 1e-9 * range.width(), 0.) + range.low;
}

at::Tensor translate(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng&) {
  Affine a = unmoved(p);
  a.x = -p.select(1, 0);
  a.y = -p.select(1, 1);
  return resample(x, a, range);
}

at::Tensor scale(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng&) {
  Affine a = unmoved(p);
  a.xx = a.yy = p.select(1, 0).reciprocal();
  return resample(x, a, range);
}

at::Tensor shear(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng&) {
  Affine a = unmoved(p);
  a.xy = p.select(1, 0);
  return resample(x, a, range);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng&) {
  const at::Tensor angle = p.select(1, 0) * (std::numbers::pi / 180.);
  Affine a = unmoved(p);
  a.xx = a.yy = angle.cos();
  a.yx = angle.sin();
  a.xy = -a.yx;
  return resample(x, a, range);
}

// --- values
// ---------------------------------------------------------------------------------------

at::Tensor contrast(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng&) {
  return (x - range.low) * of_rows(p) + range.low;
}

at::Tensor brightness(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng&) {
  return x + of_rows(p) * range.width();
}

// The k x k pixels around each, [n, C, H, W, k * k]; those of the border go on outside.
at::Tensor windows(const at::Tensor& x, int64_t k) {
  const int64_t before = k / 2, after = (k - 1) / 2;
  return at::replication_pad2d(x, {before, after, before, after})
      .unfold(2, k, 1)
      .unfold(3, k, 1)
      .flatten(-2);
}

at::Tensor mean_blur(const at::Tensor& x, int64_t k, const ValidRange&) {
  return windows(x, k).mean(-1);
}

at::Tensor median_blur(const at::Tensor& x, int64_t k, const ValidRange&) {
  return std::get<0>(windows(x, k).median(-1));
}

// Squared distances to the centre of a window, [k * k].
at::Tensor square_distances(int64_t k) {
  const at::Tensor at = (at::arange(k) - k / 2).to(at::kDouble).square();
  return (at.unsqueeze(0) + at.unsqueeze(1)).flatten();
}

at::Tensor gaussian_blur(const at::Tensor& x, int64_t k, const ValidRange&) {
  const double sigma = 0.3 * (0.5 * static_cast<double>(k - 1) - 1.) + 0.8;
  const at::Tensor weight = (square_distances(k) * (-0.5 / (sigma * sigma))).exp();
  return (windows(x, k) * (weight / weight.sum())).sum(-1);
}

// Pixels count by how near they are, in place and in colour.
at::Tensor bilateral_blur(const at::Tensor& x, int64_t k, const ValidRange& range) {
  constexpr double kPixels = 75., kShare = 75. / 255.;
  const at::Tensor around = windows(x, k);
  const at::Tensor colour = (around - x.unsqueeze(-1)).abs().sum(1, true) / range.width();
  const at::Tensor apart = square_distances(k);
  const auto radius = static_cast<double>(k / 2);
  const at::Tensor weight = ((apart * (-0.5 / (kPixels * kPixels))).exp() *
                             (colour.square() * (-0.5 / (kShare * kShare))).exp())
                                .masked_fill(apart > radius * radius, 0.);
  return (around * weight).sum(-1) / weight.sum(-1);
}

struct Blur {
  at::Tensor (*apply)(const at::Tensor& x, int64_t k, const ValidRange& range);
  int64_t size;
};

// By their number, from 1; DeepHunter has the first nine.
constexpr Blur kBlurs[] = {
    {mean_blur, 3},     {mean_blur, 4},   {mean_blur, 5},   {gaussian_blur, 3},  {gaussian_blur, 5},
    {gaussian_blur, 7}, {median_blur, 3}, {median_blur, 5}, {bilateral_blur, 9}, {mean_blur, 6}};

at::Tensor blur(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng&) {
  at::Tensor out = x.clone();
  for (size_t kind = 0; kind < std::size(kBlurs); ++kind) {
    const at::Tensor rows = (p.select(1, 0) == static_cast<double>(kind + 1)).nonzero().flatten();
    if (rows.size(0) == 0) continue;
    const Blur& by = kBlurs[kind];
    out.index_copy_(0, rows, by.apply(x.index_select(0, rows), by.size, range));
  }
  return out;
}

at::Tensor uniform(const at::Tensor& like, Rng& rng) {
  return at::rand(like.sizes(), rng.generator(), like.options());
}

// So many inputs of every row, drawn anew from the range.
at::Tensor pixels(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng& rng) {
  const at::Tensor order = uniform(x.flatten(1), rng)
                               .argsort(/*stable=*/true, 1)
                               .argsort(/*stable=*/true, 1)
                               .view(x.sizes());
  const at::Tensor drawn = uniform(x, rng) * range.width() + range.low;
  return at::where(order < of_rows(p), drawn, x);
}

at::Tensor normal(const at::Tensor& like, Rng& rng) {
  return at::randn(like.sizes(), rng.generator(), like.options());
}

at::Tensor noise(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng& rng) {
  return x + normal(x, rng) * of_rows(p) * range.width();
}

at::Tensor salt_and_pepper(const at::Tensor& x, const at::Tensor& p, const ValidRange& range,
                           Rng& rng) {
  const at::Tensor drawn = uniform(x, rng), share = of_rows(p);
  return x.masked_fill(drawn < share, range.low).masked_fill(drawn < 0.5 * share, range.high);
}

at::Tensor speckle(const at::Tensor& x, const at::Tensor& p, const ValidRange& range, Rng& rng) {
  return x + normal(x, rng) * of_rows(p) * (x - range.low);
}

constexpr Transformation kTable[] = {
    {.name = "translate",
     .summary = "Moves the image right and down by whole pixels.",
     .apply = translate,
     .parameters = {{{"right", {-3, 3}, {-50, 50}, true, true},
                     {"down", {-3, 3}, {-50, 50}, true, true}}},
     .count = 2,
     .affine = true},
    {.name = "scale",
     .summary = "Enlarges the image about its centre.",
     .apply = scale,
     .parameters = {{{"factor", {0.7, 1.1}, {0.5, 1.9}}}},
     .affine = true},
    {.name = "shear",
     .summary = "Moves lines left by so many pixels for each that they lie below the centre.",
     .apply = shear,
     .parameters = {{{"factor", {-0.6, 0.5}, {-0.5, 0.5}}}},
     .affine = true},
    {.name = "rotate",
     .summary = "Turns the image about its centre, counter-clockwise.",
     .apply = rotate,
     .parameters = {{{"degrees", {-50, 50}, {-30, 30}}}},
     .affine = true},
    {.name = "contrast",
     .summary = "Scales values from the lowest valid one.",
     .apply = contrast,
     .parameters = {{{"factor", {0.5, 1.2}, {0.1, 1.9}}}}},
    {.name = "brightness",
     .summary = "Adds a share of the valid range.",
     .apply = brightness,
     .parameters = {{{"share", {-20. / 255., 20. / 255.}, {-21. / 255., 21. / 255.}}}}},
    {.name = "blur",
     .summary = "Means (1-3: 3, 4, 5 pixels; 10: 6), Gaussian (4-6: 3, 5, 7), median (7, 8: 3, 5) "
                "or bilateral (9).",
     .apply = blur,
     .parameters = {{{"kind", {1, 9}, {1, 10}, true}}}},
    {.name = "pixels",
     .summary = "Draws so many inputs anew.",
     .apply = pixels,
     .parameters = {{{"count", {1, 9}, {}, true}}},
     .deeptest = false},
    {.name = "noise",
     .summary = "Adds normal noise; its deviation is a share of the valid range.",
     .apply = noise,
     .parameters = {{{"share", {0.001, 0.05}, {}}}},
     .deeptest = false},
    {.name = "salt-and-pepper",
     .summary = "Makes a share of the inputs the highest or the lowest valid value.",
     .apply = salt_and_pepper,
     .parameters = {{{"share", {0.004, 0.02}, {}}}},
     .deeptest = false},
    {.name = "speckle",
     .summary = "Multiplies values by normal noise about 1, from the lowest valid one.",
     .apply = speckle,
     .parameters = {{{"deviation", {0.01, 1.}, {}}}},
     .deeptest = false},
};

}  // namespace

std::span<const Transformation> transformations() {
  return kTable;
}

const Transformation& find_transformation(std::string_view name) {
  return find_row(transformations(), name, "transformation");
}

TransformationSet parse_transformations(std::string_view text) {
  TransformationSet out;
  out.deeptest = text == "deeptest";
  if (out.deeptest || text == "deephunter") {
    for (const Transformation& row : kTable) {
      if (row.deeptest || !out.deeptest) out.rows.push_back(&row);
    }
    return out;
  }
  for (const std::string_view name : split_at('+', text)) {
    GRAPESHOT_CHECK(name != "deephunter" && name != "deeptest", kInvalidArgument, "--transform ",
                    name, " is a set of its own: it does not go with other names");
    const Transformation& row = find_transformation(name);
    if (std::ranges::find(out.rows, &row) == out.rows.end()) out.rows.push_back(&row);
  }
  GRAPESHOT_CHECK(!out.rows.empty(), kInvalidArgument, "--transform names none");
  return out;
}

at::Tensor draw_parameters(const Transformation& row, bool deeptest, int64_t n, int64_t h,
                           int64_t w, Rng& rng) {
  const auto half = static_cast<double>(std::min(h, w) / 2);
  std::vector<at::Tensor> out;
  for (const Parameter& each : std::span(row.parameters).first(row.count)) {
    auto [low, high] = deeptest ? each.deeptest : each.deephunter;
    if (each.pixels) {
      low = std::max(low, -half);
      high = std::min(high, half);
    }
    const at::Tensor u = at::rand({n}, rng.generator(), at::kDouble);
    out.push_back(each.whole ? (low + u * (high - low + 1.)).floor() : low + u * (high - low));
  }
  return at::stack(out, 1);
}

at::Tensor transform(const Transformation& row, const at::Tensor& x, const at::Tensor& parameters,
                     const ValidRange& range, Rng& rng) {
  at::Tensor out = row.apply(x.to(at::kDouble), parameters, range, rng);
  out = out.clamp(range.low, range.high);
  if (range.grid > 0.) {
    out = (out / range.grid)
              .round()
              .clamp(std::ceil(range.low / range.grid - 1e-9),
                     std::floor(range.high / range.grid + 1e-9))
              .mul(range.grid);
  }
  return out.to(at::kFloat);
}

}  // namespace grapeshot::diff
