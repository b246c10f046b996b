// grapeshot/io/onnx/ops_sample.cpp: values read between the pixels of a picture.
#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

// Places in [-1, 1] of the pixels of a picture under affine maps.
Values affine_grid(const Call& call) {
  const Batch batch(call);
  std::vector<int64_t> size = constant_ints(call, 1);
  const bool align = call.node.i("align_corners", 0) != 0;
  GRAPESHOT_CHECK((size.size() == 4 || size.size() == 5) && batch.in[0].dim() == 4 &&
                      size[0] == batch.in[0].size(1),
                  kInvalidArgument, "a map of shape ", batch.in[0].sizes().slice(1),
                  " does not fit a size of ", at::IntArrayRef(size));
  std::vector<int64_t> space = {size[0], static_cast<int64_t>(size.size()) - 2};
  space.insert(space.end(), size.begin() + 2, size.end());
  checked_count(space);
  const int64_t n = batch.in[0].size(0);
  size[0] *= n;
  const at::Tensor y = at::affine_grid_generator(batch.in[0].flatten(0, 1), size, align);
  return {batch.value(y.unflatten(0, {n, batch.in[0].size(1)}))};
}

// torch's code for how it reads between pixels.
int64_t interpolation(std::string_view mode) {
  if (mode == "linear" || mode == "bilinear") return 0;
  if (mode == "nearest") return 1;
  GRAPESHOT_CHECK(mode == "cubic" || mode == "bicubic", kUnsupported, "mode is '", mode, "'");
  return 2;
}

int64_t padding(std::string_view mode) {
  if (mode == "zeros") return 0;
  if (mode == "border") return 1;
  GRAPESHOT_CHECK(mode == "reflection", kUnsupported, "padding_mode is '", mode, "'");
  return 2;
}

Values grid_sample(const Call& call) {
  const Batch batch(call);
  const at::Tensor &x = batch.in[0], &grid = batch.in[1];
  GRAPESHOT_CHECK((x.dim() == 5 || x.dim() == 6) && grid.dim() == x.dim(), kUnsupported,
                  "an input of ", x.dim() - 1, " axes");
  const int64_t mode = interpolation(call.node.s("mode", "linear"));
  if (call.planning) {
    std::vector<int64_t> sizes = grid.sizes().vec();
    sizes.back() = x.size(2);
    checked_count(sizes);
  }
  const at::Tensor y = at::grid_sampler(x.flatten(0, 1), grid.flatten(0, 1), mode,
                                        padding(call.node.s("padding_mode", "zeros")),
                                        call.node.i("align_corners", 0) != 0);
  return {batch.value(y.unflatten(0, {x.size(0), x.size(1)}))};
}

// A convolution whose kernel reads beside its places, as `offset` says for each; Dai et al., 2017.
Values deform_conv(const Call& call) {
  const Batch batch(call);
  const at::Tensor& weight = call.in[1].t;
  GRAPESHOT_CHECK(batch.in[0].dim() == 5 && weight.dim() == 4 && batch.in[2].dim() == 5,
                  kUnsupported, "only pictures of two axes are supported");
  const at::Tensor x = batch.in[0].flatten(0, 1);
  const int64_t h = x.size(2), w = x.size(3), groups = call.node.i("group", 1);
  const Window window = plain_window(call, 2, weight.sizes().slice(2).vec());
  const int64_t taps = window.kernel[0] * window.kernel[1];
  const int64_t parts = call.node.i("offset_group", 1);  // of channels, with offsets of their own
  const at::Tensor shifts = batch.in[2].flatten(0, 1);
  const int64_t n = x.size(0), rows = shifts.size(2), columns = shifts.size(3);
  GRAPESHOT_CHECK(groups > 0 && parts > 0 && x.size(1) % parts == 0 && x.size(1) % groups == 0 &&
                      weight.size(0) % groups == 0 && weight.size(1) == x.size(1) / groups &&
                      weight.size(2) * weight.size(3) == taps && h > 0 && w > 0 &&
                      shifts.size(0) == n && shifts.size(1) == 2 * parts * taps,
                  kInvalidArgument, "group, offset_group, weights of shape ", weight.sizes(),
                  " and offsets of shape ", shifts.sizes(), " do not fit an input of shape ",
                  x.sizes());
  checked_count({n, x.size(1), taps, rows, columns});
  // Places of pixels to [-1, 1], where -1 is the left edge of the first; in float64, since a place
  // that is rounded reads a part of the next pixel.
  const auto precise = x.options().dtype(at::kDouble);
  const auto places = [&](int64_t axis, int64_t count, int64_t size, const at::Tensor& shift) {
    const auto i = static_cast<size_t>(axis);
    const at::Tensor start = at::arange(count, precise) * window.strides[i] - window.before[i];
    const at::Tensor tap = at::arange(window.kernel[i], precise) * window.dilations[i];
    const at::Tensor at_tap = axis == 0 ? tap.view({-1, 1, 1, 1}) : tap.view({-1, 1, 1});
    const at::Tensor at_start = axis == 0 ? start.view({-1, 1}) : start;
    return ((at_start + at_tap + shift) * 2. + 1.) / static_cast<double>(size) - 1.;
  };
  const at::Tensor shift =
      shifts.reshape({n * parts, window.kernel[0], window.kernel[1], 2, rows, columns});
  const at::Tensor grid = at::stack(
      {places(1, columns, w, shift.select(3, 1)), places(0, rows, h, shift.select(3, 0))}, -1);
  const at::Tensor picture = x.to(at::kDouble).reshape({n * parts, x.size(1) / parts, h, w});
  at::Tensor read =
      at::grid_sampler(picture, grid.reshape({n * parts, taps * rows, columns, 2}), 0, 0, false)
          .reshape({n * parts, x.size(1) / parts, taps, rows * columns})
          .to(x.scalar_type());
  if (batch.has(4)) {
    read = read * batch.in[4].reshape({n * parts, 1, taps, rows * columns});
  }
  const int64_t width = weight.size(1) * taps, places_count = rows * columns;
  const at::Tensor columns_of = read.reshape({n, groups, width, places_count});
  at::Tensor y = at::matmul(weight.reshape({groups, weight.size(0) / groups, width}), columns_of)
                     .reshape({n, weight.size(0), rows, columns});
  if (call.has(3)) y = y + call.in[3].t.reshape({-1, 1, 1});
  return {batch.value(y.unflatten(0, {batch.in[0].size(0), batch.in[0].size(1)}))};
}

// Places between pixels along one axis of a region: the pixels at both sides and their shares,
// both 0 outside of the picture.
struct Reading {
  std::vector<int64_t> low, high;
  std::vector<float> low_share, high_share;

  void add(float at, int64_t size) {
    const bool inside = at >= -1.f && at <= static_cast<float>(size);
    at = std::clamp(at, 0.f, static_cast<float>(size - 1));
    const auto floor = static_cast<int64_t>(at);
    const float rest = at - static_cast<float>(floor);
    low.push_back(floor);
    high.push_back(std::min(floor + 1, size - 1));
    low_share.push_back(inside ? 1.f - rest : 0.f);
    high_share.push_back(inside ? rest : 0.f);
  }
};

// A region of [N, C, H, W] as [N, C, bins of y, places of y, bins of x, places of x].
at::Tensor region(const at::Tensor& x, const Reading& y_at, const Reading& x_at, int64_t bins_y,
                  int64_t bins_x, bool maximum) {
  const auto index = [&](const std::vector<int64_t>& v) { return at::tensor(v).to(x.device()); };
  const auto share = [&](const std::vector<float>& v) { return at::tensor(v).to(x.options()); };
  at::Tensor out;
  for (const bool low_y : {true, false}) {
    for (const bool low_x : {true, false}) {
      const at::Tensor weight = share(low_y ? y_at.low_share : y_at.high_share).unsqueeze(1) *
                                share(low_x ? x_at.low_share : x_at.high_share);
      const at::Tensor part = x.index_select(2, index(low_y ? y_at.low : y_at.high))
                                  .index_select(3, index(low_x ? x_at.low : x_at.high)) *
                              weight;
      out = !out.defined() ? part : maximum ? at::maximum(out, part) : out + part;
    }
  }
  return out.unflatten(3, {bins_x, -1}).unflatten(2, {bins_y, -1});
}

// Regions of interest in a grid of bins, read between pixels; He et al., 2017.
Values roi_align(const Call& call) {
  const Batch batch(call);
  const at::Tensor& x = batch.in[0];
  const int64_t height = call.node.i("output_height", 1), width = call.node.i("output_width", 1);
  const int64_t sampling = call.node.i("sampling_ratio", 0);
  const float scale = call.node.f("spatial_scale", 1.f);
  const std::string_view mode = call.node.s("mode", "avg");
  const std::string_view coordinates =
      call.opset < 16 ? "output_half_pixel"
                      : call.node.s("coordinate_transformation_mode", "half_pixel");
  const bool half_pixel = coordinates == "half_pixel";
  GRAPESHOT_CHECK(
      (mode == "avg" || mode == "max") && (half_pixel || coordinates == "output_half_pixel"),
      kUnsupported, "mode is '", mode, "', coordinates '", coordinates, "'");
  const std::vector<int64_t> owner = constant_ints(call, 2);
  const std::vector<double> boxes = constant_numbers(call, 1);
  GRAPESHOT_CHECK(x.dim() == 5 && x.size(3) > 0 && x.size(4) > 0 && height > 0 && width > 0 &&
                      boxes.size() == 4 * owner.size() && sampling >= 0,
                  kInvalidArgument, boxes.size(), " coordinates of ", owner.size(),
                  " regions, for an input of shape ", x.sizes().slice(1));
  checked_count({static_cast<int64_t>(owner.size()), x.size(2), height, width});
  std::vector<at::Tensor> out;
  for (size_t k = 0; k < owner.size(); ++k) {
    GRAPESHOT_CHECK(owner[k] >= 0 && owner[k] < x.size(1), kInvalidArgument, "region ", k,
                    " is of entry ", owner[k], " of a batch of ", x.size(1));
    // Axis 0 is x in a box, and the last one of the input.
    const auto read = [&](size_t axis, int64_t bins, int64_t size) {
      const float shift = half_pixel ? 0.5f : 0.f;
      const float from = static_cast<float>(boxes[4 * k + axis]) * scale - shift;
      float length = static_cast<float>(boxes[4 * k + axis + 2]) * scale - shift - from;
      if (!half_pixel) length = std::max(length, 1.f);
      const float bin = length / static_cast<float>(bins);
      const float count = sampling > 0 ? static_cast<float>(sampling) : std::ceil(bin);
      GRAPESHOT_CHECK(std::isfinite(from) && count >= 1.f && count <= 1e6f, kInvalidArgument,
                      "region ", k, " has a length of ", length);
      const auto places = static_cast<int64_t>(count);
      checked_count({x.size(2), height, width, places, places});
      Reading reading;
      for (int64_t i = 0; i < bins * places; ++i) {
        const auto b = static_cast<float>(i / places), p = static_cast<float>(i % places);
        reading.add(from + b * bin + (p + 0.5f) * bin / count, size);
      }
      return reading;
    };
    const at::Tensor values = region(x.select(1, owner[k]), read(1, height, x.size(3)),
                                     read(0, width, x.size(4)), height, width, mode == "max");
    out.push_back(mode == "max" ? values.amax({3, 5}) : values.mean({3, 5}));
  }
  if (out.empty())
    return {batch.value(at::zeros({x.size(0), 0, x.size(2), height, width}, x.options()))};
  return {batch.value(at::stack(out, 1))};
}

// Maxima over the pixels of a grid of bins; Girshick, 2015.
Values max_roi_pool(const Call& call) {
  const Batch batch(call);
  const at::Tensor& x = batch.in[0];
  const std::vector<int64_t> shape = call.node.ints("pooled_shape", {});
  const float scale = call.node.f("spatial_scale", 1.f);
  const std::vector<double> boxes = constant_numbers(call, 1);
  const auto count = static_cast<int64_t>(boxes.size() / 5);
  GRAPESHOT_CHECK(
      x.dim() == 5 && shape.size() == 2 && shape[0] > 0 && shape[1] > 0 && boxes.size() % 5 == 0,
      kInvalidArgument, "pooled_shape or the regions do not fit an input of shape ",
      x.sizes().slice(1));
  checked_count({count, x.size(2), shape[0], shape[1]});
  GRAPESHOT_CHECK(count * shape[0] * shape[1] <= (int64_t{1} << 20), kUnsupported, count,
                  " regions of ", shape[0], " x ", shape[1], " bins");
  std::vector<at::Tensor> out;
  for (int64_t k = 0; k < count; ++k) {
    const auto* box = boxes.data() + 5 * k;
    GRAPESHOT_CHECK(box[0] >= 0. && box[0] < static_cast<double>(x.size(1)), kInvalidArgument,
                    "region ", k, " is of entry ", box[0], " of a batch of ", x.size(1));
    const at::Tensor picture = x.select(1, static_cast<int64_t>(box[0]));
    const auto edge = [&](size_t i) {
      return static_cast<int64_t>(
          std::round(std::clamp(static_cast<float>(box[i]) * scale, -1e6f, 1e6f)));
    };
    const auto bin = [&](size_t axis, int64_t i, int64_t size) {
      const int64_t from = edge(2 - axis), length = std::max<int64_t>(edge(4 - axis) - from + 1, 1);
      const float step = static_cast<float>(length) / static_cast<float>(shape[axis]);
      const auto at = [&](float v) {
        return std::clamp<int64_t>(static_cast<int64_t>(v) + from, 0, size);
      };
      return std::pair(at(std::floor(static_cast<float>(i) * step)),
                       at(std::ceil(static_cast<float>(i + 1) * step)));
    };
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t j = 0; j < shape[1]; ++j) {
        const auto [top, bottom] = bin(0, i, x.size(3));
        const auto [left, right] = bin(1, j, x.size(4));
        const bool empty = bottom <= top || right <= left;
        out.push_back(empty ? at::zeros({x.size(0), x.size(2)}, x.options())
                            : picture.slice(2, top, bottom).slice(3, left, right).amax({2, 3}));
      }
    }
  }
  std::vector<int64_t> sizes = {x.size(0), x.size(2), count, shape[0], shape[1]};
  if (out.empty()) return {batch.value(at::zeros(sizes, x.options()).transpose(1, 2))};
  return {batch.value(at::stack(out, 2).reshape(sizes).transpose(1, 2))};
}

constexpr Operator kTable[] = {
    {"AffineGrid", 20, 2, kFirstInput, "Places of pixels under affine maps.", affine_grid},
    {"DeformConv", 19, 3, 0b10101, "Convolution whose kernel reads beside its places, in 2D.",
     deform_conv},
    {"GridSample", 16, 2, kEveryInput, "A picture read at given places, in 2D and 3D.",
     grid_sample},
    {"MaxRoiPool", 1, 2, kFirstInput, "Maxima over a grid of bins in regions.", max_roi_pool},
    {"RoiAlign", 10, 3, kFirstInput, "Regions read between pixels, in a grid of bins.", roi_align},
};

}  // namespace

std::span<const Operator> sample_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
