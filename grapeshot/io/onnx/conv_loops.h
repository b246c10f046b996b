// grapeshot/io/onnx/conv_loops.h: convolutions over two axes with constant weights, channels last
// in memory, and their gradients with respect to the input.
//
// Both directions are products of a tile of pixels and a few vectors of channels that stay in
// registers: forward over all that a window covers, which is one piece of memory for every row of
// the kernel; backward over the output channels, each result being added to such a piece. Weights
// are packed once for both.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace grapeshot::onnx {

/// A kernel [O, C, A, B] and how it moves. No dilation, no groups.
struct ConvPlan {
  int64_t channels = 0, filters = 0;  ///< C, O
  int64_t rows = 0, columns = 0;      ///< A, B
  int64_t down = 1, right = 1;        ///< strides
  int64_t top = 0, left = 0;          ///< padding before
  int64_t bottom = 0, last = 0;       ///< and after

  [[nodiscard]] int64_t out_height(int64_t height) const {
    return (height + top + bottom - rows) / down + 1;
  }
  [[nodiscard]] int64_t out_width(int64_t width) const {
    return (width + left + last - columns) / right + 1;
  }
};

/// The plan of a kernel [O, C, A, B] that moves by one and is not padded.
[[nodiscard]] ConvPlan kernel_plan(const at::Tensor& weight);

/// What the loops are compiled for and this processor runs: 0 any, 1 AVX2, 2 AVX-512 as well.
[[nodiscard]] int best_conv_level();

/// Whether the loops below do at least about as well as oneDNN for it.
[[nodiscard]] bool suits_loops(const ConvPlan& plan);

/// `weight` [O, C, A, B] float32 as the loops read it, one dimension.
[[nodiscard]] at::Tensor pack_forward(const ConvPlan& plan, const at::Tensor& weight);
[[nodiscard]] at::Tensor pack_backward(const ConvPlan& plan, const at::Tensor& weight);

/// x [M, C, H, W] float32, of any order in memory, to [M, O, H', W'] with channels last; `bias`
/// [O]. NaN stays through `relu`, as in torch.
[[nodiscard]] at::Tensor conv_forward(const ConvPlan& plan, const at::Tensor& packed,
                                      const at::Tensor& bias, const at::Tensor& x, bool relu,
                                      int level = best_conv_level());

/// dL/dx [M, C, height, width] of dL/dy [M, O, H', W'], channels last in memory, or first where
/// that is asked and C is at most 4.
[[nodiscard]] at::Tensor conv_backward(const ConvPlan& plan, const at::Tensor& packed,
                                       const at::Tensor& gradient, int64_t height, int64_t width,
                                       bool channels_first = false, int level = best_conv_level());

// The same loops for matrices: x W + b.

/// Whether they do at least about as well as a matrix product of torch, for W [K, N].
[[nodiscard]] bool suits_product(int64_t k, int64_t n);

/// W [K, N] float32 as the loops read it.
[[nodiscard]] at::Tensor pack_product(const at::Tensor& weight);
[[nodiscard]] at::Tensor pack_product_back(const at::Tensor& weight);

/// x [M, K] to [M, N]; `bias` [N], perhaps followed by zeros up to a multiple of 16.
[[nodiscard]] at::Tensor product_forward(const at::Tensor& packed, const at::Tensor& bias,
                                         const at::Tensor& x, int64_t n, bool relu);

/// dL/dx [M, K] of dL/dy [M, N].
[[nodiscard]] at::Tensor product_backward(const at::Tensor& packed, const at::Tensor& gradient,
                                          int64_t k);

}  // namespace grapeshot::onnx
