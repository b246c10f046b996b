// grapeshot/io/onnx/ops_resize.cpp: Resize and Upsample.
//
// Every axis is resized for itself: nearest by an index, linear and cubic by a small matrix.
// Coordinates are float32, as in ONNX Runtime, where rounding decides between two pixels.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

struct Rule {
  std::string_view mode, coordinates, nearest;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  double extrapolation = 0.;  // outside of the input, for tf_crop_and_resize
  bool antialias = false;

  [[nodiscard]] bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

struct Axis {
  int64_t axis, in, out;
  float scale;
  float start = 0.f, end = 1.f;  // the part of the input that tf_crop_and_resize takes
};

float raw_source(const Axis& a, int64_t i, const Rule& rule) {
  const auto x = static_cast<float>(i);
  const auto in = static_cast<float>(a.in), out = static_cast<float>(a.out);
  if (rule.coordinates == "asymmetric") return x / a.scale;
  if (rule.coordinates == "align_corners") {
    return a.out == 1 ? 0.f : x * (in - 1.f) / (out - 1.f);
  }
  if (rule.crops()) {
    if (a.out == 1) return 0.5f * (a.start + a.end) * (in - 1.f);
    return a.start * (in - 1.f) + x * (a.end - a.start) * (in - 1.f) / (out - 1.f);
  }
  if (rule.coordinates == "pytorch_half_pixel" && a.out == 1) return 0.f;
  if (rule.coordinates == "tf_half_pixel_for_nn") return (x + 0.5f) / a.scale;
  if (rule.coordinates == "half_pixel_symmetric") {
    const float adjustment = out / (a.scale * in);
    return in / 2.f * (1.f - adjustment) + (x + 0.5f) / a.scale - 0.5f;
  }
  return (x + 0.5f) / a.scale - 0.5f;
}

// Where output position i looks in the input; far outside is as good as anywhere outside.
float source(const Axis& a, int64_t i, const Rule& rule) {
  const float x = raw_source(a, i, rule);
  return std::isfinite(x) ? std::clamp(x, -1e9f, 1e9f) : -1.f;
}

int64_t nearest(const Axis& a, float x, const Rule& rule) {
  float i = 0.f;
  if (rule.nearest == "floor") {
    i = std::floor(x);
  } else if (rule.nearest == "ceil") {
    i = std::ceil(x);
  } else if (rule.nearest == "round_prefer_ceil") {
    i = std::floor(x + 0.5f);
  } else if (rule.nearest == "simple") {
    i = a.scale < 1.f ? std::ceil(x) : std::floor(x);
  } else {
    i = std::ceil(x - 0.5f);
  }
  return std::clamp<int64_t>(static_cast<int64_t>(i), 0, a.in - 1);
}

at::Tensor resize_nearest(const at::Tensor& x, const Axis& a, const Rule& rule) {
  std::vector<int64_t> index;
  for (int64_t i = 0; i < a.out; ++i) index.push_back(nearest(a, source(a, i, rule), rule));
  return x.index_select(a.axis, at::tensor(index, at::TensorOptions(at::kLong)).to(x.device()));
}

// How much a pixel at distance d weighs: a triangle, or Keys' cubic.
double kernel(double d, const Rule& rule) {
  d = std::abs(d);
  if (rule.mode == "linear") return std::max(0., 1. - d);
  const double a = rule.cubic_a;
  if (d <= 1.) return ((a + 2.) * d - (a + 3.)) * d * d + 1.;
  return d < 2. ? ((a * d - 5. * a) * d + 8. * a) * d - 4. * a : 0.;
}

at::Tensor resize_by_weights(const at::Tensor& x, const Axis& a, const Rule& rule) {
  checked_count({a.out, a.in});
  at::Tensor weight = at::zeros({a.in, a.out}, at::kDouble);
  auto w = weight.accessor<double, 2>();
  // Smoothing widens the kernel by as much as the picture shrinks.
  const double narrow = rule.antialias ? std::min(static_cast<double>(a.scale), 1.) : 1.;
  const double reach = (rule.mode == "linear" ? 1. : 2.) / narrow;
  const auto first = static_cast<int64_t>(std::floor(-reach)) + 1, last = 1 - first;
  for (int64_t i = 0; i < a.out; ++i) {
    const auto at = static_cast<double>(source(a, i, rule));
    const double low = std::floor(at);
    double total = 0.;
    for (int64_t k = first; k <= last; ++k) {
      const int64_t from = static_cast<int64_t>(low) + k;
      if (rule.exclude_outside && (from < 0 || from >= a.in)) continue;
      const double share = kernel((static_cast<double>(k) - (at - low)) * narrow, rule);
      w[std::clamp<int64_t>(from, 0, a.in - 1)][i] += share;
      total += share;
    }
    if (!rule.exclude_outside && !rule.antialias) continue;
    for (int64_t k = 0; k < a.in; ++k) w[k][i] /= total;
  }
  const at::Tensor y = at::matmul(x.movedim(a.axis, -1), weight.to(x.options()));
  return y.movedim(-1, a.axis);
}

// Where tf_crop_and_resize looks outside of the input there is a fixed value.
at::Tensor extrapolated(const at::Tensor& y, const Axis& a, const Rule& rule) {
  std::vector<int64_t> outside, along(static_cast<size_t>(y.dim()), 1);
  for (int64_t i = 0; i < a.out; ++i) {
    const float x = source(a, i, rule);
    outside.push_back(x < 0.f || x > static_cast<float>(a.in - 1));
  }
  along[static_cast<size_t>(a.axis)] = a.out;
  return y.masked_fill(at::tensor(outside).ne(0).reshape(along).to(y.device()), rule.extrapolation);
}

// Whole pixels repeated along the last two of four axes are one call.
bool repeats_pixels(const std::vector<Axis>& axes, const Rule& rule, int64_t rank) {
  return rank == 4 && rule.coordinates == "asymmetric" && rule.nearest != "ceil" &&
         rule.mode == "nearest" && std::ranges::all_of(axes, [&](const Axis& a) {
           return a.axis >= rank - 2 && a.out % a.in == 0 &&
                  a.scale == static_cast<float>(a.out / a.in) &&
                  (rule.nearest == "floor" || rule.nearest == "simple");
         });
}

Values resize_axes(const Call& call, std::vector<Axis> axes, const Rule& rule) {
  const Value& v = call.in[0];
  GRAPESHOT_CHECK(rule.mode == "nearest" || rule.mode == "linear" || rule.mode == "cubic",
                  kUnsupported, "mode is '", rule.mode, "'");
  std::vector<int64_t> sizes = v.shape().vec();
  for (const Axis& a : axes) {
    GRAPESHOT_CHECK(a.in > 0 && a.out > 0 && std::isfinite(a.scale) && a.scale > 0.f,
                    kInvalidArgument, "axis ", a.axis, " cannot go from ", a.in, " to ", a.out);
    sizes[static_cast<size_t>(a.axis)] = a.out;
  }
  checked_count(sizes);
  std::erase_if(axes, [](const Axis& a) {
    return a.in == a.out && a.scale == 1.f && a.start == 0.f && a.end == 1.f;
  });
  if (repeats_pixels(axes, rule, v.rank())) {
    const at::Tensor x = fold_rows(v);
    return {unfold_rows(at::upsample_nearest2d(x, {sizes[2], sizes[3]}), v)};
  }
  at::Tensor y = v.t;
  for (Axis a : axes) {
    a.axis += v.rows;
    y = rule.mode == "nearest" ? resize_nearest(y, a, rule) : resize_by_weights(y, a, rule);
    if (rule.crops()) y = extrapolated(y, a, rule);
  }
  return {Value{y, v.rows}};
}

std::vector<Axis> by_scales(const Value& x, const std::vector<int64_t>& axes,
                            const std::vector<double>& scales) {
  GRAPESHOT_CHECK(scales.size() == axes.size(), kInvalidArgument, "there are ", scales.size(),
                  " scales for ", axes.size(), " axes");
  std::vector<Axis> out;
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t in = x.size(axes[k]);
    const auto scale = static_cast<float>(scales[k]);
    const double size = std::floor(static_cast<double>(static_cast<float>(in) * scale));
    GRAPESHOT_CHECK(size >= 0. && size < 1e12, kInvalidArgument, "a scale of ", scales[k],
                    " is impossible");
    out.push_back({axes[k], in, static_cast<int64_t>(size), scale});
  }
  return out;
}

std::vector<Axis> by_sizes(const Value& x, const std::vector<int64_t>& axes,
                           const std::vector<int64_t>& sizes, std::string_view policy) {
  GRAPESHOT_CHECK(sizes.size() == axes.size(), kInvalidArgument, "there are ", sizes.size(),
                  " sizes for ", axes.size(), " axes");
  std::vector<Axis> out;
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t in = x.size(axes[k]);
    out.push_back({axes[k], in, sizes[k], static_cast<float>(sizes[k]) / static_cast<float>(in)});
  }
  if (policy == "stretch" || out.empty()) return out;
  const auto by_scale = [](const Axis& a, const Axis& b) { return a.scale < b.scale; };
  const float scale = policy == "not_larger" ? std::ranges::min_element(out, by_scale)->scale
                                             : std::ranges::max_element(out, by_scale)->scale;
  for (Axis& a : out) {
    a.scale = scale;
    GRAPESHOT_CHECK(static_cast<double>(scale) * static_cast<double>(a.in) < 1e12, kInvalidArgument,
                    "a scale of ", scale, " is impossible");
    a.out = static_cast<int64_t>(
        std::floor(static_cast<double>(scale * static_cast<float>(a.in)) + 0.5));
  }
  return out;
}

// Opset 10: scales as the second input, from 11 on roi, scales, sizes.
Values resize(const Call& call) {
  const Value& x = call.in[0];
  const Node& node = call.node;
  std::vector<int64_t> axes = node.ints("axes", {});
  for (int64_t& axis : axes) axis = normal_axis(axis, x.rank());
  GRAPESHOT_CHECK(std::set(axes.begin(), axes.end()).size() == axes.size(), kInvalidArgument,
                  "an axis is named twice");
  for (int64_t i = 0; !node.find("axes") && i < x.rank(); ++i) axes.push_back(i);
  if (call.opset < 11) {
    const Rule rule{node.s("mode", "nearest"), "asymmetric", "simple"};
    return resize_axes(call, by_scales(x, axes, constant_numbers(call, 1)), rule);
  }
  const Rule rule{node.s("mode", "nearest"),
                  node.s("coordinate_transformation_mode", "half_pixel"),
                  node.s("nearest_mode", "round_prefer_floor"),
                  node.f("cubic_coeff_a", -0.75f),
                  node.i("exclude_outside", 0) != 0,
                  node.f("extrapolation_value", 0.f),
                  node.i("antialias", 0) != 0};
  constexpr std::array<std::string_view, 7> kKnown = {
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
      "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
  GRAPESHOT_CHECK(std::ranges::count(kKnown, rule.coordinates) > 0, kUnsupported,
                  "coordinate_transformation_mode is '", rule.coordinates, "'");
  std::vector<Axis> resized;
  if (call.has(2) && call.in[2].t.numel() > 0) {
    resized = by_scales(x, axes, constant_numbers(call, 2));
  } else {
    GRAPESHOT_CHECK(call.has(3), kInvalidArgument, "neither scales nor sizes are given");
    const std::string_view policy = node.s("keep_aspect_ratio_policy", "stretch");
    resized = by_sizes(x, axes, constant_ints(call, 3), policy);
  }
  if (rule.crops()) {
    const std::vector<double> roi = constant_numbers(call, 1);
    GRAPESHOT_CHECK(roi.size() == 2 * resized.size(), kInvalidArgument, "roi has ", roi.size(),
                    " values for ", resized.size(), " axes");
    for (size_t k = 0; k < resized.size(); ++k) {
      resized[k].start = static_cast<float>(roi[k]);
      resized[k].end = static_cast<float>(roi[k + resized.size()]);
    }
  }
  return resize_axes(call, resized, rule);
}

// Opset 7 has the scales as an attribute, 9 as an input.
Values upsample(const Call& call) {
  const Value& x = call.in[0];
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  std::vector<double> scales;
  if (call.opset < 9) {
    if (const Attribute* a = call.node.find("scales"))
      scales.assign(a->floats.begin(), a->floats.end());
  } else {
    scales = constant_numbers(call, 1);
  }
  std::string_view mode = call.node.s("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  return resize_axes(call, by_scales(x, axes, scales), Rule{mode, "asymmetric", "simple"});
}

constexpr Operator kTable[] = {
    {"Resize", 10, 1, kFirstInput, "Nearest, linear or cubic along any axes, smoothed or not.",
     resize},
    {"Upsample", 7, 1, kFirstInput, "Nearest or linear along any axes.", upsample},
};

}  // namespace

std::span<const Operator> resize_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
