// grapeshot/io/onnx/bit_layers.h: convolutions and products of binarized networks by bit_loops.h.
#pragma once

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

/// Inputs x of 1 and -1, W [O, C, A, B], b [O], W packed for the way back or nothing, the bits of W
/// and the size of each filter's weights. Other types than float32, and passes with history, are
/// torch's.
[[nodiscard]] Values bit_conv(const Call& call);

/// dL/dx for dL/dy, both [N, B, C, H, W], where W is packed for the way back.
[[nodiscard]] at::Tensor bit_conv_gradient(const Call& call, const at::Tensor& gradient);

/// The same for x W + b along the last axis: inputs x, W [K, M], b [M], bits, W packed for the way
/// back or nothing, and sizes.
[[nodiscard]] Values bit_dense(const Call& call);

/// A lowering pass: what reads nothing but the results of Step, and has weights of one size for
/// each unit.
void count_bits(Network& network, const Recording& recording);

}  // namespace grapeshot::onnx
