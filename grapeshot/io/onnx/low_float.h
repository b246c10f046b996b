// grapeshot/io/onnx/low_float.h: conversions to and from the element types of eight bits and fewer.
#pragma once

#include <ATen/core/Tensor.h>

namespace grapeshot::onnx {

/// float32 of the bits of float4e2m1, one number a byte.
[[nodiscard]] at::Tensor from_float4(const at::Tensor& t);
/// The nearest float4e2m1, half to even; larger ones, infinities and NaN become +-6 as the onnx
/// package rounds them.
[[nodiscard]] at::Tensor to_float4(const at::Tensor& t);

/// The lowest bits of whole numbers as int2, uint2, int4 or uint4.
[[nodiscard]] at::Tensor to_few_bits(const at::Tensor& t, at::ScalarType type);

}  // namespace grapeshot::onnx
