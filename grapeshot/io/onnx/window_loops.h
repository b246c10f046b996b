// grapeshot/io/onnx/window_loops.h: convolution of one channel and pooling, without history, with
// channels last in memory.
//
// oneDNN has no good kernel for a single channel, and torch's pooling keeps the place of every
// maximum for a backward pass that never comes. The loops are compiled for several processors, and
// the one at hand is chosen when the program starts.
#pragma once

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {

/// Whether conv_one_channel() does x [M, 1, H, W] with weight [O, 1, A, B].
[[nodiscard]] bool is_one_channel(const at::Tensor& x, const at::Tensor& weight, int64_t groups,
                                  const Window& window);

/// max(0, .) of it with `relu`. `bias` [O] may be undefined.
[[nodiscard]] at::Tensor conv_one_channel(const at::Tensor& x, const at::Tensor& weight,
                                          const at::Tensor& bias, const Window& window, bool relu);

/// Whether max_pool_last() and mean_pool_last() do x [M, C, H, W].
[[nodiscard]] bool is_pooled_last(const at::Tensor& x, const Window& window);

/// NaN wins over numbers, as in torch. Padding is symmetric and at most half a kernel.
[[nodiscard]] at::Tensor max_pool_last(const at::Tensor& x, const Window& window);

/// dL/dx for dL/dy of y = max_pool_last(x): to the first maximum of every window.
[[nodiscard]] at::Tensor max_pool_last_gradient(const at::Tensor& x, const at::Tensor& y,
                                                const at::Tensor& gradient, const Window& window);

/// The mean, of what is_pooled_last() says, without padding, dilation and ceil_mode.
[[nodiscard]] at::Tensor mean_pool_last(const at::Tensor& x, const Window& window);

/// The largest |x| of every channel of x [M, C, H, W]: [M, C], in any order of memory. NaN wins.
[[nodiscard]] at::Tensor largest_of_channels(const at::Tensor& x);

}  // namespace grapeshot::onnx
