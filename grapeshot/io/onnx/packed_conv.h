// grapeshot/io/onnx/packed_conv.h: Conv with constant weights by the loops of conv_loops.h.
#pragma once

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

/// Inputs x, W [O, C, A, B], b [O], a tensor to add or none, and W packed for both directions;
/// attribute relu as for dense. Other types than float32, and passes with history, are torch's.
[[nodiscard]] Values packed_conv(const Call& call);

/// dL/dx for dL/d(W x + b), both [N, B, C, H, W].
[[nodiscard]] at::Tensor packed_conv_gradient(const Call& call, const at::Tensor& gradient);

/// A lowering pass: gives the convolutions that the loops suit their packed weights.
void pack_convolutions(Network& network, const Recording& recording);

/// The same for products with constants: Dense and PointwiseConv.
void pack_products(Network& network, const Recording& recording);

}  // namespace grapeshot::onnx
