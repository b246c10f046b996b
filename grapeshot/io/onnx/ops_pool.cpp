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

Values max_pool(const Call& call) {
  at::Tensor x = fold_rows(call.in[0]);
  Window w = read_window(call, x.sizes().slice(2), {});
  if (!torch_pads(w)) {
    x = at::constant_pad_nd(x, w.take_padding(x.sizes().slice(2)),
                            -std::numeric_limits<double>::infinity());
  }
  if (is_pooled_last(x, w)) return {unfold_rows(max_pool_last(x, w), call.in[0])};
  at::Tensor y;
  switch (w.kernel.size()) {
    case 1:
      y = at::max_pool1d(x, w.kernel, w.strides, w.before, w.dilations, w.ceil);
      break;
    case 2:
      y = at::max_pool2d(x, w.kernel, w.strides, w.before, w.dilations, w.ceil);
      break;
    case 3:
      y = at::max_pool3d(x, w.kernel, w.strides, w.before, w.dilations, w.ceil);
      break;
    default:
      throw Error(ErrorCode::kUnsupported, "pooling over more than three axes");
  }
  return {unfold_rows(y, call.in[0])};
}

// Windows that torch's mean does not know: sums and counts, as convolutions with ones.
at::Tensor mean_over(const at::Tensor& x, Window w, bool counts_padding) {
  const at::IntArrayRef spatial = x.sizes().slice(2);
  std::vector<int64_t> one_channel = {-1, 1}, kernel = {1, 1}, counted = {1, 1};
  one_channel.insert(one_channel.end(), spatial.begin(), spatial.end());
  kernel.insert(kernel.end(), w.kernel.begin(), w.kernel.end());
  counted.insert(counted.end(), spatial.begin(), spatial.end());
  const std::vector<int64_t> given = w.torch_padding(), whole = w.take_padding(spatial);
  at::Tensor ones = at::ones(counted, x.options());
  if (counts_padding) ones = at::constant_pad_nd(ones, given, 1);
  std::vector<int64_t> rest = whole;
  for (size_t i = 0; counts_padding && i < rest.size(); ++i) rest[i] -= given[i];
  const auto sum = [&](const at::Tensor& t) {
    const std::vector<int64_t> none(w.kernel.size(), 0);
    return at::convolution(t, at::ones(kernel, x.options()), {}, w.strides, none, w.dilations,
                           false, none, 1);
  };
  const at::Tensor count = sum(at::constant_pad_nd(ones, rest)).clamp_min(1);
  const at::Tensor y = sum(at::constant_pad_nd(x.reshape(one_channel), whole)) / count;
  std::vector<int64_t> shape = {x.size(0), x.size(1)};
  shape.insert(shape.end(), y.sizes().begin() + 2, y.sizes().end());
  return y.reshape(shape);
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

constexpr Operator kTable[] = {
    {"AveragePool", 7, 1, kFirstInput, "Mean over windows.", average_pool},
    {"GlobalAveragePool", 1, 1, kFirstInput, "Mean over all spatial axes.", global_average_pool},
    {"GlobalMaxPool", 1, 1, kFirstInput, "Maximum over all spatial axes.", global_max_pool},
    {"MaxPool", 1, 1, kFirstInput, "Maximum over windows; Indices are not computed.", max_pool},
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
