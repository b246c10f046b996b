// grapeshot/io/onnx/bit_loops.h: layers of binarized networks, exactly, by counting bits.
//
// Where all inputs of a layer are 1 or -1 and the weights of each of its units are one number with
// either sign, a sum of products is that number times (terms - 2 * products that are negative): an
// exclusive or and a count for 64 terms. "XNOR-Net: ImageNet classification using binary
// convolutional neural networks", Rastegari et al., 2016.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/conv_loops.h"

namespace grapeshot::onnx {

/// The weights of a layer with `units` units of `terms` terms each.
struct BitWeights {
  at::Tensor
      bits;  ///< [words, units filled up to 8] int64: a bit is set where a weight is negative
  at::Tensor scale;  ///< [units] float32
};

/// `weight` [units, terms] float32 as bits; nothing when a unit's weights differ in size, or are 0.
[[nodiscard]] std::optional<BitWeights> pack_bits(const at::Tensor& weight);

/// x [M, K] of 1 and -1 to [M, units]: x W + b. `bias` [units].
[[nodiscard]] at::Tensor bit_product(const BitWeights& weights, const at::Tensor& bias,
                                     const at::Tensor& x);

/// Whether bit_convolution() does the plan: no padding, channels in whole bytes.
[[nodiscard]] bool suits_bits(const ConvPlan& plan);

/// x [M, C, H, W] of 1 and -1 to [M, O, H', W'] with channels last. The weights are those of
/// [O, A B C], the kernel [O, C, A, B] with its channels last.
[[nodiscard]] at::Tensor bit_convolution(const ConvPlan& plan, const BitWeights& weights,
                                         const at::Tensor& bias, const at::Tensor& x);

}  // namespace grapeshot::onnx
