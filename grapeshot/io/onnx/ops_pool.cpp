// grapeshot/io/onnx/ops_pool.cpp: maxima and means over windows.
#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/window_loops.h"

namespace grapeshot::onnx {
namespace {

// torch wants padding of at most half a kernel, the same on both sides.
bool torch_pads(const Window& w) {
  bool fits = w.symmetric();
  for (size_t i = 0; i < w.kernel.size(); ++i) fits = fits && w.before[i] <= w.kernel[i] / 2;
  return fits;
}

// The places of maxima, which torch counts within the spatial axes of an input padded by `before`,
// as ONNX counts them: over all of [B, C, spatial...], of one row.
at::Tensor places_of_maxima(const Call& call, const at::Tensor& index, at::IntArrayRef padded,
                            at::IntArrayRef spatial, const std::vector<int64_t>& before) {
  at::Tensor rest = index, place = at::zeros_like(index);
  const bool column_major = call.node.i("storage_order", 0) != 0;
  int64_t step = 1;
  std::vector<at::Tensor> along(spatial.size());
  for (size_t i = spatial.size(); i-- > 0;) {
    along[i] = rest.remainder(padded[i]) - before[i];
    rest = rest.div(padded[i], "floor");
  }
  for (size_t k = 0; k < spatial.size(); ++k) {
    const size_t i = column_major ? k : spatial.size() - 1 - k;
    place = place + along[i] * step;
    step *= spatial[i];
  }
  const int64_t batch = call.in[0].size(0), channels = index.size(1);
  const at::Tensor entry = at::arange(index.size(0), index.options()).remainder(batch);
  const at::Tensor picture = entry.unsqueeze(1) * channels + at::arange(channels, index.options());
  std::vector<int64_t> shape = {index.size(0), channels};
  shape.resize(static_cast<size_t>(index.dim()), 1);
  return place + picture.reshape(shape) * step;
}

Values max_pool(const Call& call) {
  at::Tensor x = fold_rows(call.in[0]);
  const at::ScalarType type = x.scalar_type();
  if (!x.is_floating_point()) x = x.to(at::kFloat);  // int8 and uint8
  const std::vector<int64_t> spatial = x.sizes().slice(2).vec();
  Window w = read_window(call, spatial, {});
  std::vector<int64_t> before(spatial.size(), 0);
  if (!torch_pads(w)) {
    before = w.before;
    x = at::constant_pad_nd(x, w.take_padding(spatial), -std::numeric_limits<double>::infinity());
  }
  const bool indexed = call.node.outputs.size() > 1 && !call.node.outputs[1].empty();
  if (!indexed && is_pooled_last(x, w)) return {unfold_rows(max_pool_last(x, w), call.in[0])};
  std::tuple<at::Tensor, at::Tensor> both;
  switch (w.kernel.size()) {
    case 1:
      both = at::max_pool1d_with_indices(x, w.kernel, w.strides, w.before, w.dilations, w.ceil);
      break;
    case 2:
      both = at::max_pool2d_with_indices(x, w.kernel, w.strides, w.before, w.dilations, w.ceil);
      break;
    case 3:
      both = at::max_pool3d_with_indices(x, w.kernel, w.strides, w.before, w.dilations, w.ceil);
      break;
    default:
      throw Error(ErrorCode::kUnsupported, "pooling over more than three axes");
  }
  const Value y = unfold_rows(std::get<0>(both).to(type), call.in[0]);
  if (!indexed) return {y};
  const at::Tensor places =
      places_of_maxima(call, std::get<1>(both), x.sizes().slice(2), spatial, before);
  return {y, unfold_rows(places, call.in[0])};
}

// The values at the places that MaxPool gives, zeros elsewhere.
Values max_unpool(const Call& call) {
  const Batch batch(call);
  const at::Tensor& x = batch.in[0];
  GRAPESHOT_CHECK(x.dim() >= 4 && batch.in[1].sizes() == x.sizes(), kInvalidArgument,
                  "values of shape ", x.sizes().slice(1), " at places of shape ",
                  batch.in[1].sizes().slice(1));
  const auto n = static_cast<size_t>(x.dim() - 3);
  GRAPESHOT_CHECK(call.node.find("kernel_shape"), kInvalidArgument, "there is no kernel_shape");
  const Window w = plain_window(call, n, {});
  std::vector<int64_t> sizes = {x.size(1), x.size(2)}, crop;
  for (size_t i = 0; i < n; ++i) {
    sizes.push_back((x.size(static_cast<int64_t>(i) + 3) - 1) * w.strides[i] - w.before[i] -
                    w.after[i] + w.kernel[i]);
  }
  const int64_t count = checked_count(sizes);
  const at::Tensor places = batch.in[1].to(at::kLong).flatten(1);
  at::Tensor y = at::zeros({x.size(0), count}, x.options()).scatter(1, places, x.flatten(1));
  y = y.unflatten(1, sizes);
  if (!call.has(2)) return {batch.value(y)};
  const std::vector<int64_t> wanted = constant_ints(call, 2);
  GRAPESHOT_CHECK(wanted.size() == sizes.size(), kInvalidArgument, "output_shape has ",
                  wanted.size(), " entries, the input ", sizes.size(), " axes");
  checked_count(wanted);
  for (size_t i = sizes.size(); i-- > 0;) {
    crop.push_back(0);
    crop.push_back(wanted[i] - sizes[i]);
  }
  return {batch.value(at::constant_pad_nd(y, crop))};
}

// Sums over windows, as a convolution with ones of a single channel.
at::Tensor sum_over(const at::Tensor& x, const Window& w) {
  std::vector<int64_t> kernel = {1, 1};
  kernel.insert(kernel.end(), w.kernel.begin(), w.kernel.end());
  const std::vector<int64_t> none(w.kernel.size(), 0);
  return at::convolution(x, at::ones(kernel, x.options()), {}, w.strides, none, w.dilations, false,
                         none, 1);
}

// The same of every channel, padded with zeros.
at::Tensor padded_sum_over(const at::Tensor& x, Window w) {
  std::vector<int64_t> one_channel = {-1, 1}, shape = {x.size(0), x.size(1)};
  const at::IntArrayRef spatial = x.sizes().slice(2);
  one_channel.insert(one_channel.end(), spatial.begin(), spatial.end());
  const std::vector<int64_t> whole = w.take_padding(spatial);
  const at::Tensor y = sum_over(at::constant_pad_nd(x.reshape(one_channel), whole), w);
  shape.insert(shape.end(), y.sizes().begin() + 2, y.sizes().end());
  return y.reshape(shape);
}

// Windows that torch's mean does not know: sums and counts.
at::Tensor mean_over(const at::Tensor& x, Window w, bool counts_padding) {
  const at::IntArrayRef spatial = x.sizes().slice(2);
  std::vector<int64_t> counted = {1, 1};
  counted.insert(counted.end(), spatial.begin(), spatial.end());
  const at::Tensor sum = padded_sum_over(x, w);
  const std::vector<int64_t> given = w.torch_padding();
  std::vector<int64_t> rest = w.take_padding(spatial);
  at::Tensor ones = at::ones(counted, x.options());
  if (counts_padding) ones = at::constant_pad_nd(ones, given, 1);
  for (size_t i = 0; counts_padding && i < rest.size(); ++i) rest[i] -= given[i];
  return sum / sum_over(at::constant_pad_nd(ones, rest), w).clamp_min(1);
}

Values average_pool(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const Window w = read_window(call, x.sizes().slice(2), {});
  GRAPESHOT_CHECK(w.kernel.size() <= 3, kUnsupported, "pooling over more than three axes");
  const bool counts_padding = call.node.i("count_include_pad", 0) != 0;
  bool plain = w.symmetric();
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    plain = plain && w.dilations[i] == 1 && w.before[i] <= w.kernel[i] / 2;
  }
  at::Tensor y;
  const std::vector<int64_t> pads = w.torch_padding();
  const bool padded = std::ranges::any_of(pads, [](int64_t p) { return p != 0; });
  if (plain && !padded && !w.ceil && is_pooled_last(x, w)) {
    y = mean_pool_last(x, w);
  } else if (!plain) {
    y = mean_over(x, w, counts_padding);
  } else if (w.kernel.size() == 1) {
    y = at::avg_pool1d(x, w.kernel, w.strides, w.before, w.ceil, counts_padding);
  } else if (w.kernel.size() == 2) {
    y = at::avg_pool2d(x, w.kernel, w.strides, w.before, w.ceil, counts_padding);
  } else {
    y = at::avg_pool3d(x, w.kernel, w.strides, w.before, w.ceil, counts_padding);
  }
  return {unfold_rows(y, call.in[0])};
}

Values global_average_pool(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  std::vector<int64_t> spatial;
  for (int64_t i = 2; i < x.dim(); ++i) spatial.push_back(i);
  return {unfold_rows(spatial.empty() ? x : x.mean(spatial, true), call.in[0])};
}

Values global_max_pool(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  std::vector<int64_t> spatial;
  for (int64_t i = 2; i < x.dim(); ++i) spatial.push_back(i);
  return {unfold_rows(spatial.empty() ? x : x.amax(spatial, true), call.in[0])};
}

// s to the power 1 / p, without an infinite gradient at 0.
at::Tensor root(const at::Tensor& s, int64_t p) {
  const at::Tensor none = s == 0;
  return s.masked_fill(none, 1.).pow(1. / static_cast<double>(p)).masked_fill(none, 0.);
}

int64_t norm_of(const Call& call) {
  const int64_t p = call.node.i("p", 2);
  GRAPESHOT_CHECK(p > 0, kInvalidArgument, "p is ", p);
  return p;
}

Values lp_pool(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const int64_t p = norm_of(call);
  GRAPESHOT_CHECK(call.node.find("kernel_shape"), kInvalidArgument, "there is no kernel_shape");
  const Window w = read_window(call, x.sizes().slice(2), {});
  GRAPESHOT_CHECK(w.kernel.size() <= 3, kUnsupported, "pooling over more than three axes");
  return {unfold_rows(root(padded_sum_over(x.abs().pow(p), w), p), call.in[0])};
}

Values global_lp_pool(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const int64_t p = norm_of(call);
  std::vector<int64_t> spatial;
  for (int64_t i = 2; i < x.dim(); ++i) spatial.push_back(i);
  GRAPESHOT_CHECK(!spatial.empty(), kInvalidArgument, "the input has no spatial axes");
  return {unfold_rows(root(x.abs().pow(p).sum(spatial, true), p), call.in[0])};
}

// Columns [B, C * taps, places] added up into pictures [B, C, spatial...], of any number of axes.
Values columns_to_image(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const std::vector<int64_t> image = constant_ints(call, 1), block = constant_ints(call, 2);
  const size_t n = image.size();
  Window w = plain_window(call, n, block);
  w.kernel = block;
  std::vector<int64_t> padded;
  const auto whole = at::TensorOptions(at::kLong).device(x.device());
  at::Tensor place = at::zeros({1, 1}, whole);  // [taps, places] in the padded picture
  for (size_t i = 0; i < n; ++i) {
    constexpr int64_t kMost = int64_t{1} << 31;
    GRAPESHOT_CHECK(
        block.size() == n && image[i] > 0 && image[i] <= kMost && block[i] > 0 && block[i] <= kMost,
        kInvalidArgument, "a block of ", at::IntArrayRef(block), " in a picture of ",
        at::IntArrayRef(image));
    padded.push_back(image[i] + w.before[i] + w.after[i]);
    const int64_t reach = w.dilations[i] * (block[i] - 1) + 1;
    GRAPESHOT_CHECK(padded[i] >= reach, kInvalidArgument, "a block reaches over ", reach,
                    " of an axis of ", padded[i]);
    const int64_t starts = (padded[i] - reach) / w.strides[i] + 1;
    checked_count({place.size(0), place.size(1), block[i], starts});
    const at::Tensor along = at::arange(block[i], whole).unsqueeze(1) * w.dilations[i] +
                             at::arange(starts, whole) * w.strides[i];
    const at::Tensor both = place.view({place.size(0), 1, place.size(1), 1}) * padded[i] +
                            along.view({1, block[i], 1, starts});
    place = both.reshape({place.size(0) * block[i], place.size(1) * starts});
  }
  GRAPESHOT_CHECK(x.dim() == 3 && x.size(1) % place.size(0) == 0 && x.size(2) == place.size(1),
                  kInvalidArgument, "columns of shape ", x.sizes(), " do not fit ", place.size(0),
                  " taps at ", place.size(1), " places");
  const int64_t channels = x.size(1) / place.size(0);
  std::vector<int64_t> sizes = {x.size(0), channels};
  sizes.insert(sizes.end(), padded.begin(), padded.end());
  checked_count(sizes);
  const at::Tensor columns = x.reshape({x.size(0), channels, place.numel()});
  at::Tensor y = at::zeros(sizes, x.options()).flatten(2).index_add(2, place.flatten(), columns);
  std::vector<int64_t> crop = w.torch_padding();
  for (int64_t& pad : crop) pad = -pad;
  return {unfold_rows(at::constant_pad_nd(y.reshape(sizes), crop), call.in[0])};
}

constexpr Operator kTable[] = {
    {"AveragePool", 7, 1, kFirstInput, "Mean over windows.", average_pool},
    {"Col2Im", 18, 3, kFirstInput, "Columns of blocks added up into pictures.", columns_to_image},
    {"GlobalAveragePool", 1, 1, kFirstInput, "Mean over all spatial axes.", global_average_pool},
    {"GlobalLpPool", 2, 1, kFirstInput, "p-norm over all spatial axes.", global_lp_pool},
    {"GlobalMaxPool", 1, 1, kFirstInput, "Maximum over all spatial axes.", global_max_pool},
    {"LpPool", 2, 1, kFirstInput, "p-norm over windows.", lp_pool},
    {"MaxPool", 1, 1, kFirstInput, "Maximum over windows, and its place.", max_pool},
    {"MaxUnpool", 9, 2, 0b11, "Values at the places of maxima, zeros elsewhere.", max_unpool},
};

}  // namespace

bool max_pool_pulls(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  if (x.dim() != 4) return false;
  const Window w = read_window(call, x.sizes().slice(2), {});
  return torch_pads(w) && is_pooled_last(x, w);
}

at::Tensor max_pool_gradient(const Call& call, const Value& out, const at::Tensor& gradient) {
  const at::Tensor x = fold_rows(call.in[0]);
  const Window w = read_window(call, x.sizes().slice(2), {});
  return max_pool_last_gradient(x, fold_rows(out), gradient.flatten(0, 1), w)
      .view(call.in[0].t.sizes());
}

std::span<const Operator> pool_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
