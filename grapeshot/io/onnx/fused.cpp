#include "grapeshot/io/onnx/fused.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "grapeshot/io/onnx/conv_loops.h"
#include "grapeshot/io/onnx/window_loops.h"

// Convolutions with what follows them, as torch.compile calls them; no header declares them, and a
// build of torch may lack them.
namespace at::native {
__attribute__((weak)) Tensor mkldnn_convolution_pointwise(
    const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
    IntArrayRef padding, IntArrayRef stride, IntArrayRef dilation, int64_t groups,
    std::string_view attribute, c10::List<std::optional<Scalar>> scalars,
    std::optional<std::string_view> algorithm);
__attribute__((weak)) Tensor mkldnn_convolution_pointwise_binary(
    const Tensor& input, const Tensor& other, const Tensor& weight,
    const std::optional<Tensor>& bias, IntArrayRef padding, IntArrayRef stride,
    IntArrayRef dilation, int64_t groups, std::string_view binary, std::optional<Scalar> alpha,
    std::optional<std::string_view> unary, c10::List<std::optional<Scalar>> scalars,
    std::optional<std::string_view> algorithm);
}  // namespace at::native

namespace grapeshot::onnx {
namespace {

// Whether the two calls above are there for `x`; elsewhere the steps are done one by one.
bool onednn_takes(const at::Tensor& x) {
  return at::native::mkldnn_convolution_pointwise != nullptr &&
         at::native::mkldnn_convolution_pointwise_binary != nullptr && x.dim() == 4 &&
         x.device().is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0 && x.size(0) > 1 &&
         x.size(1) > 1 &&  // torch does a row, and one channel, in better ways
         at::globalContext().userEnabledMkldnn() && at::hasMKLDNN();
}

// In place: what a layer has just computed belongs to nobody else. Through a view, history would
// have to be written anew, so that callers take care to pass the whole tensor.
void cut(at::Tensor& t) {
  t.relu_();
}

// y [rows, columns] += bias, and max(., 0): one pass over memory that has just been written.
void add_bias(at::Tensor& y, const at::Tensor& bias, bool relu) {
  if (!y.device().is_cpu() || y.scalar_type() != at::kFloat || !y.is_contiguous() ||
      !bias.is_contiguous()) {
    y.add_(bias);
    if (relu) y.relu_();
    return;
  }
  const int64_t rows = y.size(0), columns = y.size(1);
  auto* __restrict to = y.mutable_data_ptr<float>();
  const auto* __restrict b = bias.const_data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i, to += columns) {
    if (relu) {
      // As torch: NaN stays.
      for (int64_t k = 0; k < columns; ++k) {
        const float v = to[k] + b[k];
        to[k] = v < 0.f ? 0.f : v;
      }
    } else {
      for (int64_t k = 0; k < columns; ++k) to[k] += b[k];
    }
  }
}

// x W + b for a matrix x and the call's other inputs.
at::Tensor product(const at::Tensor& x, const Call& call) {
  const at::Tensor &weight = call.in[1].t, &bias = call.in[2].t;
  const bool relu = call.node.i("relu", 0) != 0;
  if (is_packed(call) && !records(x)) {
    return product_forward(call.in[3].t, call.in[5].t, x, weight.size(1), relu);
  }
  at::Tensor y;
  if (records(x)) {
    y = at::addmm(bias, x, weight);
    if (relu) y.relu_();
  } else {
    y = at::mm(x, weight);
    add_bias(y, bias, relu);
  }
  return y;
}

}  // namespace

bool is_packed(const Call& call) {
  return call.has(5) && call.in[0].t.scalar_type() == at::kFloat && call.in[0].t.device().is_cpu();
}

bool records(const at::Tensor& x) {
  return c10::GradMode::is_enabled() && x.requires_grad();
}

Values pointwise_conv(const Call& call) {
  at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor& weight = call.in[1].t;
  const std::vector<int64_t> strides = call.node.ints("strides", {});
  for (size_t i = 0; i < strides.size(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    if (strides[i] != 1) x = x.slice(axis, 0, x.size(axis), strides[i]);
  }
  x = x.movedim(1, -1);
  c10::SmallVector<int64_t, 5> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = weight.size(1);
  const at::Tensor y = product(x.reshape({-1, weight.size(0)}), call);
  return {unfold_rows(y.view(sizes).movedim(-1, 1), call.in[0])};
}

Values dense(const Call& call) {
  const Value& x = call.in[0];
  const at::Tensor& weight = call.in[1].t;
  const at::Tensor flat = x.t.dim() == 2 ? x.t : x.t.reshape({-1, weight.size(0)});
  at::Tensor y = product(flat, call);
  if (x.t.dim() == 2) return {Value{std::move(y), x.rows}};
  std::vector<int64_t> sizes = x.t.sizes().vec();
  sizes.back() = weight.size(1);
  return {Value{y.view(sizes), x.rows}};
}

Values fused_conv(const Call& call) {
  at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor& weight = call.in[1].t;
  const at::Tensor bias = call.has(2) ? call.in[2].t : at::Tensor();
  const at::Tensor other = call.has(3) ? fold_rows(call.in[3]) : at::Tensor();
  const bool relu = call.node.i("relu", 0) != 0;
  const int64_t groups = call.node.i("group", 1);
  Window w = read_window(call, x.sizes().slice(2), weight.sizes().slice(2).vec());
  w.ceil = false;
  if (!w.symmetric()) x = at::constant_pad_nd(x, w.take_padding(x.sizes().slice(2)));
  const auto recorded = [](const at::Tensor& t) { return t.defined() && records(t); };
  const bool plain = !recorded(x) && !recorded(weight) && !recorded(bias) && !recorded(other);
  at::Tensor y;
  if (plain && !other.defined() && is_one_channel(x, weight, groups, w)) {
    return {unfold_rows(conv_one_channel(x, weight, bias, w, relu), call.in[0])};
  }
  if (plain && onednn_takes(x)) {
    const std::optional<at::Tensor> b = bias.defined() ? std::optional(bias) : std::nullopt;
    const c10::List<std::optional<at::Scalar>> none;
    if (other.defined()) {
      const auto after = relu ? std::optional<std::string_view>("relu") : std::nullopt;
      y = at::native::mkldnn_convolution_pointwise_binary(x, other, weight, b, w.before, w.strides,
                                                          w.dilations, groups, "add", std::nullopt,
                                                          after, none, std::nullopt);
    } else {
      y = at::native::mkldnn_convolution_pointwise(x, weight, b, w.before, w.strides, w.dilations,
                                                   groups, relu ? "relu" : "none", none,
                                                   std::nullopt);
    }
    return {unfold_rows(std::move(y), call.in[0])};
  }
  const std::vector<int64_t> no_output_padding(w.kernel.size(), 0);
  y = at::convolution(x, weight, bias, w.strides, w.before, w.dilations, false, no_output_padding,
                      groups);
  if (other.defined()) y = y + other;
  if (relu) y.relu_();
  return {unfold_rows(std::move(y), call.in[0])};
}

Values add_relu(const Call& call) {
  const Aligned both = align(call, call.in[0], call.in[1]);
  at::Tensor y = at::add(both.a, both.b);
  cut(y);
  return {Value{std::move(y), both.rows}};
}

Values affine(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  c10::SmallVector<int64_t, 5> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  at::Tensor y = at::addcmul(call.in[2].t.view(shape), x, call.in[1].t.view(shape));
  if (call.node.i("relu", 0) != 0) cut(y);
  return {unfold_rows(std::move(y), call.in[0])};
}

Values flatten_last(const Call& call) {
  const at::Tensor& x = call.in[0].t;  // [N, 1, C, H, W]
  return {{x.permute({0, 1, 3, 4, 2}).flatten(2), true}};
}

}  // namespace grapeshot::onnx
