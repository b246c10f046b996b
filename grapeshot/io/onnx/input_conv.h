// grapeshot/io/onnx/input_conv.h: a convolution over few channels, such as a network's first, with
// a gradient that does not waste a processor's vectors.
//
// The gradient with respect to a 3-channel image is a convolution with 3 output channels, for which
// kernels fill 3 of 16 vector lanes (a third of the time of small networks). Computing 2 x 2 pixels
// at once makes it one with 12 output channels, stride 2 and a kernel larger by one.
#pragma once

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {

/// The weights [4 C, O, K + 1, K' + 1] of the gradient for the weights [O, C, K, K'] of a
/// convolution.
[[nodiscard]] at::Tensor blocked_gradient_weight(const at::Tensor& weight);

/// Whether the node can run as input_conv: two spatial axes, at most 4 channels, stride, dilation
/// and group 1, equal padding on both sides of an axis and less than its kernel.
[[nodiscard]] bool suits_input_conv(const Node& node, const at::Tensor& weight);

/// Conv with its bias, and the blocked weights as one more input.
[[nodiscard]] Values input_conv(const Call& call);

}  // namespace grapeshot::onnx
