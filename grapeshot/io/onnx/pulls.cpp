#include "grapeshot/io/onnx/pulls.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>

#include "grapeshot/io/onnx/bit_layers.h"
#include "grapeshot/io/onnx/conv_loops.h"
#include "grapeshot/io/onnx/fused.h"
#include "grapeshot/io/onnx/packed_conv.h"
#include "grapeshot/io/onnx/surrogate.h"
#include "grapeshot/io/onnx/window_loops.h"

namespace grapeshot::onnx {
namespace {

// Through the Relu that a lowered operator ends with, if it does.
at::Tensor before_relu(const Pull& p) {
  if (p.call.node.i("relu", 0) == 0) return p.gradient;
  return at::threshold_backward(p.gradient, p.out.t, 0);
}

// Takes broadcasting back.
at::Tensor as_input(const at::Tensor& gradient, const Value& in) {
  if (gradient.sizes() == in.t.sizes()) return gradient.to(in.t.scalar_type());
  std::vector<int64_t> sizes = in.t.sizes().vec();
  const auto missing = static_cast<size_t>(gradient.dim() - in.t.dim());
  sizes.insert(sizes.begin() + (in.rows ? 1 : 0), missing, 1);
  return at::sum_to(gradient, sizes).reshape(in.t.sizes()).to(in.t.scalar_type());
}

Pulled relu(const Pull& p) {
  return {at::threshold_backward(p.gradient, p.out.t, 0)};
}

Pulled identity(const Pull& p) {
  return {p.gradient};
}

Pulled reshape(const Pull& p) {
  return {p.gradient.reshape(p.call.in[0].t.sizes())};
}

Pulled transpose(const Pull& p) {
  const Value& x = p.call.in[0];
  std::vector<int64_t> perm = p.call.node.ints("perm", {});
  if (!p.call.node.find("perm")) {
    for (int64_t i = x.rank(); i-- > 0;) perm.push_back(i);
  }
  std::vector<int64_t> back(perm.size() + 1, 0);
  for (size_t i = 0; i < perm.size(); ++i) {
    back[static_cast<size_t>(normal_axis(perm[i], x.rank()) + 1)] = static_cast<int64_t>(i) + 1;
  }
  return {p.gradient.permute(back)};
}

Pulled add(const Pull& p) {
  const at::Tensor g = before_relu(p);
  Pulled out(2);
  for (size_t i = 0; i < 2; ++i) {
    if (p.call.in[i].rows) out[i] = as_input(g, p.call.in[i]);
  }
  return out;
}

Pulled sub(const Pull& p) {
  Pulled out(2);
  if (p.call.in[0].rows) out[0] = as_input(p.gradient, p.call.in[0]);
  if (p.call.in[1].rows) out[1] = as_input(p.gradient.neg(), p.call.in[1]);
  return out;
}

Pulled mul(const Pull& p) {
  const Aligned both = align(p.call, p.call.in[0], p.call.in[1]);
  Pulled out(2);
  if (p.call.in[0].rows) out[0] = as_input(p.gradient * both.b, p.call.in[0]);
  if (p.call.in[1].rows) out[1] = as_input(p.gradient * both.a, p.call.in[1]);
  return out;
}

Pulled sign(const Pull& p) {
  return {step_gradient(p.call.in[0].t, StepKind::kSign, p.call.surrogate, p.gradient)};
}

Pulled step(const Pull& p) {
  return {step_gradient(p.call.in[0].t, StepKind::kStep, p.call.surrogate, p.gradient)};
}

// Of a matrix x W for its gradient.
at::Tensor through_product(const Call& call, const at::Tensor& gradient) {
  const at::Tensor& weight = call.in[1].t;
  if (is_packed(call)) return product_backward(call.in[4].t, gradient, weight.size(0));
  return gradient.mm(weight.t());
}

Pulled dense(const Pull& p) {
  const at::Tensor& weight = p.call.in[1].t;
  const at::Tensor g = before_relu(p).reshape({-1, weight.size(1)});
  return {through_product(p.call, g).view(p.call.in[0].t.sizes())};
}

Pulled affine(const Pull& p) {
  const at::Tensor g = before_relu(p);
  std::vector<int64_t> shape(static_cast<size_t>(g.dim()), 1);
  shape[2] = g.size(2);  // [N, B, C, ...]
  return {g * p.call.in[1].t.view(shape)};
}

Window conv_window(const Call& call, const at::Tensor& x) {
  return read_window(call, x.sizes().slice(2), call.in[1].t.sizes().slice(2).vec());
}

bool conv_pulls(const Call& call) {
  const bool blocked = call.has(3) && !call.in[3].rows;  // input_conv has a gradient of its own
  return call.in[0].rows && !call.in[1].rows && !blocked && call.in[0].t.dim() == 5 &&
         conv_window(call, fold_rows(call.in[0])).symmetric();
}

Pulled conv(const Pull& p) {
  const at::Tensor g = before_relu(p), x = fold_rows(p.call.in[0]);
  const Window w = conv_window(p.call, x);
  const std::vector<int64_t> none(w.kernel.size(), 0);
  const at::Tensor pulled = std::get<0>(at::convolution_backward(
      g.flatten(0, 1), x, p.call.in[1].t, std::nullopt, w.strides, w.before, w.dilations, false,
      none, p.call.node.i("group", 1), {true, false, false}));
  Pulled out = {pulled.view(p.call.in[0].t.sizes())};
  if (p.call.has(3)) out = {out[0], {}, {}, g};
  return out;
}

Pulled bit_conv(const Pull& p) {
  const at::Tensor g = p.gradient;
  if (!p.call.has(3) || g.scalar_type() != at::kFloat || !g.device().is_cpu()) return conv(p);
  return {bit_conv_gradient(p.call, g)};
}

Pulled bit_dense(const Pull& p) {
  const at::Tensor& weight = p.call.in[1].t;
  const at::Tensor g = p.gradient.reshape({-1, weight.size(1)});
  const bool packed = p.call.has(4) && g.scalar_type() == at::kFloat && g.device().is_cpu();
  const at::Tensor x =
      packed ? product_backward(p.call.in[4].t, g, weight.size(0)) : g.mm(weight.t());
  return {x.view(p.call.in[0].t.sizes())};
}

// A product over all pixels that the strides do not skip.
Pulled pointwise_conv(const Pull& p) {
  const at::Tensor &x = p.call.in[0].t, &weight = p.call.in[1].t;  // [N, B, C, ...], [C, O]
  const at::Tensor g = before_relu(p).movedim(2, -1);
  c10::SmallVector<int64_t, 5> sizes(g.sizes().begin(), g.sizes().end());
  sizes.back() = weight.size(0);
  const at::Tensor small =
      through_product(p.call, g.reshape({-1, weight.size(1)})).view(sizes).movedim(-1, 2);
  if (small.sizes() == x.sizes()) return {small};
  at::Tensor whole = at::zeros_like(x), seen = whole;
  const std::vector<int64_t> strides = p.call.node.ints("strides", {});
  for (size_t i = 0; i < strides.size(); ++i) {
    const auto axis = static_cast<int64_t>(i) + 3;
    seen = seen.slice(axis, 0, seen.size(axis), strides[i]);
  }
  seen.copy_(small);
  return {whole};
}

Pulled packed_conv(const Pull& p) {
  const at::Tensor g = before_relu(p);
  Pulled out = {packed_conv_gradient(p.call, g)};
  if (p.call.has(3)) out = {out[0], {}, {}, g};
  return out;
}

Pulled max_pool(const Pull& p) {
  return {max_pool_gradient(p.call, p.out, p.gradient)};
}

Pulled flatten_last(const Pull& p) {
  const at::IntArrayRef in = p.call.in[0].t.sizes();
  return {p.gradient.reshape({in[0], in[1], in[3], in[4], in[2]}).permute({0, 1, 4, 2, 3})};
}

struct Row {
  std::string_view op;
  PullFn pull;
  bool (*suits)(const Call& call) = nullptr;  ///< of the operator's calls, if not all
};

constexpr Row kTable[] = {
    {"Add", add},
    {"Affine", affine},
    {"BitConv", bit_conv},
    {"BitDense", bit_dense},
    {"Conv", conv, conv_pulls},
    {"PointwiseConv", pointwise_conv},
    {"Dense", dense},
    {"Dropout", identity},
    {"Flatten", reshape},
    {"FlattenLast", flatten_last},
    {"Identity", identity},
    {"MaxPool", max_pool, max_pool_pulls},
    {"Mul", mul},
    {"PackedConv", packed_conv},
    {"Relu", relu},
    {"Reshape", reshape},
    {"Sign", sign},
    {"Squeeze", reshape},
    {"Step", step},
    {"Sub", sub},
    {"Transpose", transpose},
    {"Unsqueeze", reshape},
};

}  // namespace

PullFn find_pull(const Call& call) {
  const auto* row = std::ranges::find(kTable, call.node.op, &Row::op);
  if (row == std::end(kTable) || (row->suits && !row->suits(call))) return nullptr;
  return row->pull;
}

}  // namespace grapeshot::onnx
