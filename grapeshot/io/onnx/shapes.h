// grapeshot/io/onnx/shapes.h: arithmetic of shapes and indices that several files need.
#pragma once

#include <functional>
#include <numeric>

#include <ATen/ATen.h>

namespace grapeshot::onnx {

/// The number of values in a tensor of this shape.
[[nodiscard]] inline int64_t product(at::IntArrayRef shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// `index` as int64, where negative ones count from the end of an axis of `size`.
[[nodiscard]] inline at::Tensor wrapped(const at::Tensor& index, int64_t size) {
  const at::Tensor i = index.to(at::kLong);
  return at::where(i < 0, i + size, i);
}

}  // namespace grapeshot::onnx
