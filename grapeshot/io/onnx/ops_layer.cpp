// grapeshot/io/onnx/ops_layer.cpp: layers with weights or windows.
#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

// Kernel, stride, dilation and padding of a convolution or pooling over `spatial` axes.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  bool ceil = false;

  [[nodiscard]] bool symmetric() const { return before == after; }

  // torch's constant_pad_nd order: last axis first, before and after.
  [[nodiscard]] std::vector<int64_t> torch_padding() const {
    std::vector<int64_t> out;
    for (size_t i = before.size(); i-- > 0;) {
      out.push_back(before[i]);
      out.push_back(after[i]);
    }
    return out;
  }

  // Takes torch's part of the padding out and, with ceil_mode, adds what the last windows reach
  // beyond it; as in ONNX and torch no window starts after the input and the padding before it.
  // Returns torch's order.
  std::vector<int64_t> take_padding(at::IntArrayRef spatial) {
    std::vector<int64_t> padding = torch_padding();
    for (size_t i = 0; ceil && i < kernel.size(); ++i) {
      const int64_t reach = dilations[i] * (kernel[i] - 1) + 1;
      const int64_t padded = spatial[i] + before[i] + after[i];
      int64_t last = (padded - reach + strides[i] - 1) / strides[i] * strides[i];
      if (last >= spatial[i] + before[i]) last -= strides[i];
      padding[2 * (kernel.size() - 1 - i) + 1] += std::max<int64_t>(0, last + reach - padded);
    }
    ceil = false;
    std::ranges::fill(before, 0);
    std::ranges::fill(after, 0);
    return padding;
  }
};

Window read_window(const Call& call, at::IntArrayRef spatial, std::vector<int64_t> kernel) {
  const size_t n = spatial.size();
  const std::vector<int64_t> ones(n, 1), zeros(2 * n, 0);
  Window w;
  w.kernel = call.node.ints("kernel_shape", std::move(kernel));
  w.strides = call.node.ints("strides", ones);
  w.dilations = call.node.ints("dilations", ones);
  std::vector<int64_t> pads = call.node.ints("pads", zeros);
  GRAPESHOT_CHECK(w.kernel.size() == n && w.strides.size() == n && w.dilations.size() == n &&
                      pads.size() == 2 * n,
                  kInvalidArgument, "kernel_shape, strides, dilations or pads do not fit ", n,
                  " spatial axes");
  const auto positive = [](const auto& v) {
    return std::ranges::all_of(v, [](int64_t i) { return i > 0; });
  };
  GRAPESHOT_CHECK(positive(w.kernel) && positive(w.strides) && positive(w.dilations),
                  kInvalidArgument, "kernel_shape, strides and dilations must be positive");
  w.ceil = call.node.i("ceil_mode", 0) != 0;
  const std::string_view automatic = call.node.s("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < n; ++i) {
      const int64_t out = (spatial[i] + w.strides[i] - 1) / w.strides[i];
      const int64_t reach = (out - 1) * w.strides[i] + w.dilations[i] * (w.kernel[i] - 1) + 1;
      const int64_t total = std::max<int64_t>(0, reach - spatial[i]);
      pads[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[i + n] = total - pads[i];
    }
  } else if (automatic == "VALID") {
    pads = zeros;
  } else {
    GRAPESHOT_CHECK(automatic == "NOTSET", kUnsupported, "auto_pad is '", automatic, "'");
  }
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(n);
  w.before.assign(pads.begin(), middle);
  w.after.assign(middle, pads.end());
  return w;
}

Values conv(const Call& call) {
  GRAPESHOT_CHECK(!call.in[1].rows && !(call.has(2) && call.in[2].rows), kUnsupported,
                  "weights that depend on the input are not supported");
  at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor& weight = call.in[1].t;
  GRAPESHOT_CHECK(x.dim() >= 3 && weight.dim() == x.dim(), kInvalidArgument, "the input has ",
                  x.dim(), " axes, the weights ", weight.dim());
  Window w = read_window(call, x.sizes().slice(2), weight.sizes().slice(2).vec());
  w.ceil = false;
  if (!w.symmetric()) x = at::constant_pad_nd(x, w.take_padding(x.sizes().slice(2)));
  const at::Tensor bias = call.has(2) ? call.in[2].t : at::Tensor();
  const std::vector<int64_t> no_output_padding(w.kernel.size(), 0);
  at::Tensor y = at::convolution(x, weight, bias, w.strides, w.before, w.dilations, false,
                                 no_output_padding, call.node.i("group", 1));
  return {unfold_rows(y, call.in[0])};
}

Values max_pool(const Call& call) {
  at::Tensor x = fold_rows(call.in[0]);
  Window w = read_window(call, x.sizes().slice(2), {});
  // torch wants padding of at most half a kernel, the same on both sides.
  bool pads_here = !w.symmetric();
  for (size_t i = 0; i < w.kernel.size(); ++i) pads_here |= w.before[i] > w.kernel[i] / 2;
  if (pads_here) {
    x = at::constant_pad_nd(x, w.take_padding(x.sizes().slice(2)),
                            -std::numeric_limits<double>::infinity());
  }
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
  if (!plain) {
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

Values batch_normalization(const Call& call) {
  GRAPESHOT_CHECK(call.node.i("training_mode", 0) == 0 && call.node.i("spatial", 1) == 1,
                  kUnsupported, "training_mode=1 and spatial=0 are not supported");
  for (size_t i = 1; i < 5; ++i) {
    GRAPESHOT_CHECK(call.has(i) && !call.in[i].rows, kUnsupported, "input ", i,
                    " is missing or depends on the network's input");
  }
  const double epsilon = call.node.f("epsilon", 1e-5f);
  at::Tensor y = at::batch_norm(fold_rows(call.in[0]), call.in[1].t, call.in[2].t, call.in[3].t,
                                call.in[4].t, false, 0., epsilon, false);
  return {unfold_rows(y, call.in[0])};
}

Values gemm(const Call& call) {
  const double alpha = call.node.f("alpha", 1.f), beta = call.node.f("beta", 1.f);
  const auto transposed = [](const Value& v, bool yes) {
    return yes ? Value{v.t.transpose(-2, -1), v.rows} : v;
  };
  const Value a = transposed(call.in[0], call.node.i("transA", 0) != 0);
  const Value b = transposed(call.in[1], call.node.i("transB", 0) != 0);
  GRAPESHOT_CHECK(a.rank() == 2 && b.rank() == 2, kInvalidArgument, "A and B must have two axes");
  const bool has_c = call.has(2);
  // One call when C is a bias that every row shares.
  if (has_c && a.rows && !b.rows && !call.in[2].rows && call.in[2].rank() <= 1) {
    return {unfold_rows(at::addmm(call.in[2].t, fold_rows(a), b.t, beta, alpha), a)};
  }
  Value y = matmul(a, b);
  if (alpha != 1.) y.t = y.t * alpha;
  if (!has_c) return {y};
  const Aligned both = align(y, call.in[2]);
  return {Value{at::add(both.a, both.b, beta), both.rows}};
}

Values mat_mul(const Call& call) {
  return {matmul(call.in[0], call.in[1])};
}

constexpr Operator kTable[] = {
    {"AveragePool", 7, 1, "Mean over windows.", average_pool},
    {"BatchNormalization", 7, 5, "With the stored statistics, as at inference.",
     batch_normalization},
    {"Conv", 1, 2, "1 to 3 spatial axes, groups, dilations, any padding; constant weights.", conv},
    {"Gemm", 7, 2, "alpha A B + beta C.", gemm},
    {"GlobalAveragePool", 1, 1, "Mean over all spatial axes.", global_average_pool},
    {"MatMul", 1, 2, "Matrix product of any ranks, broadcast.", mat_mul},
    {"MaxPool", 1, 1, "Maximum over windows; Indices are not computed.", max_pool},
};

}  // namespace

std::span<const Operator> layer_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
