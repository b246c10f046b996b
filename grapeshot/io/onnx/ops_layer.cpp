// grapeshot/io/onnx/ops_layer.cpp: layers with weights.
#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

Values conv(const Call& call) {
  return {convolution(call, call.in[0], call.in[1].t, call.has(2) ? call.in[2].t : at::Tensor())};
}

// Of the input's sizes the padding that gives the node's output_shape or auto_pad.
void take_output_shape(const Call& call, at::IntArrayRef spatial,
                       const std::vector<int64_t>& output_padding, Window& w) {
  const size_t n = spatial.size();
  std::vector<int64_t> wanted = call.node.ints("output_shape", {});
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  GRAPESHOT_CHECK(wanted.empty() || wanted.size() == n, kInvalidArgument,
                  "output_shape does not fit ", n, " spatial axes");
  const std::string_view automatic = call.node.s("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  GRAPESHOT_CHECK(same || automatic == "NOTSET" || automatic == "VALID", kUnsupported,
                  "auto_pad is '", automatic, "'");
  if (automatic == "VALID") {
    std::ranges::fill(w.before, 0);
    std::ranges::fill(w.after, 0);
  }
  for (size_t i = 0; i < n; ++i) {
    if (wanted.empty() && !same) continue;
    const int64_t size = wanted.empty() ? spatial[i] * w.strides[i] : wanted[i];
    const int64_t total = w.strides[i] * (spatial[i] - 1) + output_padding[i] +
                          w.dilations[i] * (w.kernel[i] - 1) + 1 - size;
    const int64_t half = std::max<int64_t>(total, 0) / 2;
    w.before[i] = automatic == "SAME_UPPER" ? half : std::max<int64_t>(total, 0) - half;
    w.after[i] = total - w.before[i];
  }
}

Values conv_transpose(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor& weight = call.in[1].t;
  GRAPESHOT_CHECK(x.dim() >= 3 && weight.dim() == x.dim(), kInvalidArgument, "the input has ",
                  x.dim(), " axes, the weights ", weight.dim());
  const at::IntArrayRef spatial = x.sizes().slice(2);
  const size_t n = spatial.size();
  Window w = plain_window(call, n, weight.sizes().slice(2).vec());
  const std::vector<int64_t> output_padding =
      call.node.ints("output_padding", std::vector<int64_t>(n, 0));
  GRAPESHOT_CHECK(output_padding.size() == n, kInvalidArgument, "output_padding does not fit ", n,
                  " spatial axes");
  const int64_t groups = call.node.i("group", 1);
  const auto sane = [](int64_t i) { return i >= 0 && i <= (int64_t{1} << 31); };
  GRAPESHOT_CHECK(std::ranges::all_of(output_padding, sane) &&
                      std::ranges::all_of(call.node.ints("output_shape", {}), sane) && sane(groups),
                  kInvalidArgument, "output_padding, output_shape or group is impossible");
  take_output_shape(call, spatial, output_padding, w);
  if (call.planning) {
    std::vector<int64_t> sizes = {x.size(0), weight.size(1) * groups}, cropped = sizes;
    for (size_t i = 0; i < n; ++i) {
      const int64_t last = int64_t{w.strides[i]} * (spatial[i] - 1) + output_padding[i];
      sizes.push_back(last + w.dilations[i] * (w.kernel[i] - 1) + 1);
      cropped.push_back(sizes.back() - w.before[i] - w.after[i]);
    }
    checked_count(sizes);
    checked_count(cropped);
  }
  bool crops = !w.symmetric();
  for (const int64_t pad : w.before) crops |= pad < 0;
  std::vector<int64_t> crop;
  if (crops) {
    for (const int64_t pad : w.torch_padding()) crop.push_back(-pad);
    std::ranges::fill(w.before, 0);
  }
  const at::Tensor bias = call.has(2) ? call.in[2].t : at::Tensor();
  at::Tensor y = at::convolution(x, weight, bias, w.strides, w.before, w.dilations, true,
                                 output_padding, groups);
  if (crops) y = at::constant_pad_nd(y, crop);
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
  if (call.planning) checked_count({a.size(0), b.size(1)});
  const bool has_c = call.has(2);
  // One call when C is a bias that every row shares.
  if (has_c && a.rows && !b.rows && !call.in[2].rows && call.in[2].rank() <= 1) {
    return {unfold_rows(at::addmm(call.in[2].t, fold_rows(a), b.t, beta, alpha), a)};
  }
  Value y = matmul(call, a, b);
  if (alpha != 1.) y.t = y.t * alpha;
  if (!has_c) return {y};
  const Aligned both = align(call, y, call.in[2]);
  return {Value{at::add(both.a, both.b, beta), both.rows}};
}

Values mat_mul(const Call& call) {
  return {matmul(call, call.in[0], call.in[1])};
}

constexpr Operator kTable[] = {
    {"Conv", 1, 2, kFirstInput, "1 to 3 spatial axes, groups, dilations, any padding.", conv},
    {"ConvTranspose", 1, 2, kFirstInput, "1 to 3 spatial axes, groups, dilations, any padding.",
     conv_transpose},
    {"Gemm", 7, 2, kEveryInput, "alpha A B + beta C.", gemm},
    {"MatMul", 1, 2, kEveryInput, "Matrix product of any ranks, broadcast.", mat_mul},
};

}  // namespace

Value convolution(const Call& call, const Value& input, const at::Tensor& weight,
                  const at::Tensor& bias) {
  at::Tensor x = fold_rows(input);
  GRAPESHOT_CHECK(x.dim() >= 3 && weight.dim() == x.dim(), kInvalidArgument, "the input has ",
                  x.dim(), " axes, the weights ", weight.dim());
  Window w = read_window(call, x.sizes().slice(2), weight.sizes().slice(2).vec());
  w.ceil = false;
  if (call.planning) {
    std::vector<int64_t> sizes = {x.size(0), weight.size(0)};
    for (size_t i = 0; i < w.kernel.size(); ++i) {
      const int64_t padded = x.size(static_cast<int64_t>(i) + 2) + w.before[i] + w.after[i];
      sizes.push_back((padded - w.dilations[i] * (w.kernel[i] - 1) - 1) / w.strides[i] + 1);
    }
    checked_count(sizes);
  }
  if (!w.symmetric()) x = at::constant_pad_nd(x, w.take_padding(x.sizes().slice(2)));
  const std::vector<int64_t> no_output_padding(w.kernel.size(), 0);
  at::Tensor y = at::convolution(x, weight, bias, w.strides, w.before, w.dilations, false,
                                 no_output_padding, call.node.i("group", 1));
  return unfold_rows(y, input);
}

std::span<const Operator> layer_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
