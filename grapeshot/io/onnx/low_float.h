// grapeshot/io/onnx/low_float.h: conversions between element types, those included that torch only
// has names for.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

namespace grapeshot::onnx {

/// float32 of float4e2m1.
[[nodiscard]] at::Tensor from_float4(const at::Tensor& t);

/// The lowest bits of whole numbers as int2, uint2, int4, uint4 or float4e2m1.
[[nodiscard]] at::Tensor to_few_bits(const at::Tensor& t, at::ScalarType type);

/// The bits of such a number as uint8.
[[nodiscard]] at::Tensor bits_of(const at::Tensor& t);

/// `t` as ONNX's Cast makes it `type`. Numbers become whole ones by rounding towards zero, as in C;
/// those that float8 cannot hold become its largest one where `saturate`, else infinity or NaN.
/// float4e2m1 saturates always. float8e8m0 is rounded "up", "down" or to the "nearest", and what is
/// not positive becomes its smallest one. Throws kInvalidArgument for other modes.
[[nodiscard]] at::Tensor converted(const at::Tensor& t, at::ScalarType type, bool saturate = true,
                                   std::string_view round_mode = "up");

}  // namespace grapeshot::onnx
