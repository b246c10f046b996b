// grapeshot/io/onnx/ops_normalization.cpp: normalizations and softmax.
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

// By the mean and variance of the batch of the file, which are given out mixed with those stored.
Values trained_batch_normalization(const Call& call) {
  const at::Tensor& x = call.in[0].t;
  // Rows of a campaign are not a batch of the file's.
  GRAPESHOT_CHECK(!call.in[0].rows, kUnsupported, "training_mode=1 is not supported");
  std::vector<int64_t> axes = {0};
  for (int64_t i = 2; i < x.dim(); ++i) axes.push_back(i);
  const at::Tensor mean = x.mean(axes), variance = x.var(axes, /*unbiased=*/false);
  const double momentum = call.node.f("momentum", 0.9f);
  const auto mixed = [&](const at::Tensor& stored, const at::Tensor& seen) {
    return Value{stored * momentum + seen * (1. - momentum), false};
  };
  const at::Tensor y = at::batch_norm(x, call.in[1].t, call.in[2].t, mean, variance, false, 0.,
                                      call.node.f("epsilon", 1e-5f), false);
  return {Value{y, false}, mixed(call.in[3].t, mean), mixed(call.in[4].t, variance)};
}

Values batch_normalization(const Call& call) {
  GRAPESHOT_CHECK(call.node.i("spatial", 1) == 1, kUnsupported, "spatial=0 is not supported");
  if (call.node.i("training_mode", 0) != 0) return trained_batch_normalization(call);
  const double epsilon = call.node.f("epsilon", 1e-5f);
  at::Tensor y = at::batch_norm(fold_rows(call.in[0]), call.in[1].t, call.in[2].t, call.in[3].t,
                                call.in[4].t, false, 0., epsilon, false);
  return {unfold_rows(y, call.in[0])};
}

// Up to opset 12 softmax works on the input flattened to two axes at `axis`.
template <at::Tensor (*kFunction)(const at::Tensor& x, int64_t axis)>
Values softmax_like(const Call& call) {
  const Value& x = call.in[0];
  const bool flattens = call.opset < 13;
  const int64_t axis = normal_axis(call.node.i("axis", flattens ? 1 : -1), x.rank()) + x.rows;
  if (!flattens) return {Value{kFunction(x.t, axis), x.rows}};
  return {Value{kFunction(x.t.flatten(axis), axis).reshape(x.t.sizes()), x.rows}};
}

at::Tensor softmax(const at::Tensor& x, int64_t axis) {
  return at::softmax(x, axis);
}
at::Tensor log_softmax(const at::Tensor& x, int64_t axis) {
  return at::log_softmax(x, axis);
}

// 1 at the first of the largest values, 0 elsewhere.
at::Tensor hardmax(const at::Tensor& x, int64_t axis) {
  const at::Tensor largest = x.argmax(axis, true);
  return at::zeros_like(x).scatter(axis, largest, 1.);
}

Values instance_normalization(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const double epsilon = call.node.f("epsilon", 1e-5f);
  const at::Tensor y =
      at::instance_norm(x, call.in[1].t, call.in[2].t, {}, {}, true, 0., epsilon, false);
  return {unfold_rows(y, call.in[0])};
}

// Scale and bias are per group up to opset 20, per channel from 21 on.
Values group_normalization(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const int64_t groups = call.node.i("num_groups", 0);
  GRAPESHOT_CHECK(x.dim() >= 2 && groups > 0 && x.size(1) % groups == 0, kInvalidArgument,
                  "num_groups is ", groups, " for an input of shape ", x.sizes());
  const auto per_channel = [&](const at::Tensor& t) {
    return call.opset >= 21 ? t : t.repeat_interleave(x.size(1) / groups);
  };
  const at::Tensor y = at::group_norm(x, groups, per_channel(call.in[1].t),
                                      per_channel(call.in[2].t), call.node.f("epsilon", 1e-5f));
  return {unfold_rows(y, call.in[0])};
}

// Over the axes from `axis` on; scale and bias broadcast to the input.
Values layer_normalization(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(call.node.i("axis", -1), x.rank());
  const double epsilon = call.node.f("epsilon", 1e-5f);
  const at::IntArrayRef shape = x.shape().slice(static_cast<size_t>(axis));
  const bool plain = call.node.outputs.size() == 1 && !call.in[1].rows &&
                     call.in[1].t.sizes() == shape &&
                     (!call.has(2) || (!call.in[2].rows && call.in[2].t.sizes() == shape));
  if (plain) {
    const at::Tensor bias = call.has(2) ? call.in[2].t : at::Tensor();
    return {Value{at::layer_norm(x.t, shape, call.in[1].t, bias, epsilon, false), x.rows}};
  }
  const Value normal{at::layer_norm(x.t, shape, {}, {}, epsilon, false), x.rows};
  const Aligned scaled = align(call, normal, call.in[1]);
  Value y{scaled.a * scaled.b, scaled.rows};
  if (call.has(2)) {
    const Aligned shifted = align(call, y, call.in[2]);
    y = {shifted.a + shifted.b, shifted.rows};
  }
  if (call.node.outputs.size() == 1) return {y};
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < x.rank(); ++i) axes.push_back(i + x.rows);
  const at::Tensor mean = x.t.mean(axes, true);
  const at::Tensor variance = (x.t - mean).square().mean(axes, true);
  return {y, Value{mean, x.rows}, Value{(variance + epsilon).rsqrt(), x.rows}};
}

// (x - mean) / deviation over axes.
Values mean_variance_normalization(const Call& call) {
  const Value& x = call.in[0];
  std::vector<int64_t> axes = call.node.ints("axes", {0, 2, 3});
  for (int64_t& axis : axes) axis = normal_axis(axis, x.rank()) + x.rows;
  const at::Tensor centered = x.t - x.t.mean(axes, true);
  return {Value{centered / (centered.square().mean(axes, true).sqrt() + 1e-9), x.rows}};
}

Values rms_normalization(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(call.node.i("axis", -1), x.rank());
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < x.rank(); ++i) axes.push_back(i + x.rows);
  const at::Tensor square = x.t.square().mean(axes, true);
  const Value normal{x.t * (square + call.node.f("epsilon", 1e-5f)).rsqrt(), x.rows};
  const Aligned scaled = align(call, normal, call.in[1]);
  return {Value{scaled.a * scaled.b, scaled.rows}};
}

Values lp_normalization(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(call.node.i("axis", -1), x.rank()) + x.rows;
  const int64_t p = call.node.i("p", 2);
  GRAPESHOT_CHECK(p == 1 || p == 2, kUnsupported, "p is ", p);
  const at::Tensor norm = p == 1 ? x.t.abs().sum(axis, true) : x.t.square().sum(axis, true).sqrt();
  return {Value{at::where(norm == 0, at::zeros({}, x.t.options()), x.t / norm), x.rows}};
}

Values local_response_normalization(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const int64_t size = call.node.i("size", 0);
  GRAPESHOT_CHECK(size > 0 && x.dim() >= 3 && size < (int64_t{1} << 20), kInvalidArgument,
                  "size is ", size, ", the input has ", x.dim(), " axes");
  if (call.planning) checked_count({x.size(0), x.size(1) + size, x.flatten(2).size(2)});
  const double alpha = call.node.f("alpha", 1e-4f), beta = call.node.f("beta", 0.75f);
  const at::Tensor square = x.square().flatten(2).unsqueeze(1);  // [N, 1, C, space]
  const int64_t before = (size - 1) / 2;
  const at::Tensor padded = at::constant_pad_nd(square, {0, 0, before, size - 1 - before});
  const at::Tensor sum = padded.unfold(2, size, 1).sum(-1).squeeze(1).reshape(x.sizes());
  const at::Tensor scale = sum * (alpha / static_cast<double>(size)) + call.node.f("bias", 1.f);
  return {unfold_rows(x / scale.pow(beta), call.in[0])};
}

constexpr Operator kTable[] = {
    {"BatchNormalization", 7, 5, kFirstInput, "With the stored statistics, as at inference.",
     batch_normalization},
    {"GroupNormalization", 18, 3, kFirstInput, "Per group of channels.", group_normalization},
    {"Hardmax", 1, 1, kEveryInput, "1 at the largest value along an axis, 0 elsewhere.",
     softmax_like<hardmax>},
    {"InstanceNormalization", 6, 3, kFirstInput, "Per channel of a row.", instance_normalization},
    {"LRN", 1, 1, kFirstInput, "Local response normalization across channels.",
     local_response_normalization},
    {"LayerNormalization", 17, 2, kEveryInput, "Over the last axes.", layer_normalization},
    {"LogSoftmax", 1, 1, kEveryInput, "Logarithm of Softmax.", softmax_like<log_softmax>},
    {"LpNormalization", 1, 1, kEveryInput, "x over its 1- or 2-norm along an axis.",
     lp_normalization},
    {"MeanVarianceNormalization", 9, 1, kFirstInput, "x less its mean, over its deviation.",
     mean_variance_normalization},
    {"RMSNormalization", 23, 2, kEveryInput, "x over its root mean square over the last axes.",
     rms_normalization},
    {"Softmax", 1, 1, kEveryInput, "Softmax along an axis (from opset 13) or of the rest (before).",
     softmax_like<softmax>},
};

}  // namespace

std::span<const Operator> normalization_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
