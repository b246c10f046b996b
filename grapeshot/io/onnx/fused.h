// grapeshot/io/onnx/fused.h: what lowering passes put in the place of several nodes.
#pragma once

#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {

/// Whether a Dense or PointwiseConv has packed weights, and they suit the type of x.
[[nodiscard]] bool is_packed(const Call& call);

/// Whether history is recorded for what is computed from `x`.
[[nodiscard]] bool records(const at::Tensor& x);

/// x W + b along the last axis, inputs x, W [K, M] and b [M], perhaps W packed for both directions
/// and b with zeros (conv_loops.h); attribute relu != 0 cuts at 0.
[[nodiscard]] Values dense(const Call& call);

/// Conv, plus a tensor of its output's shape where there is a fourth input; attribute relu as for
/// dense. Without history it is one call of oneDNN.
[[nodiscard]] Values fused_conv(const Call& call);

/// Add, then Relu, without a tensor between them.
[[nodiscard]] Values add_relu(const Call& call);

/// A convolution with a 1 x 1 kernel, groups and padding aside: one matrix product over all pixels
/// where channels come last in memory. Inputs x, W [C, O] and b [O]; attributes strides and relu.
[[nodiscard]] Values pointwise_conv(const Call& call);

/// [1, C, H, W] to [1, H W C]: nothing to do where channels come last in memory.
[[nodiscard]] Values flatten_last(const Call& call);

/// x * a + b per channel, inputs x, a [C] and b [C]: a BatchNormalization that no layer could take
/// in; attribute relu as for dense.
[[nodiscard]] Values affine(const Call& call);

}  // namespace grapeshot::onnx
