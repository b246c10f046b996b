#include "grapeshot/io/onnx/low_float.h"

#include <ATen/ATen.h>

namespace grapeshot::onnx {

at::Tensor from_float4(const at::Tensor& t) {
  static const at::Tensor values = at::tensor(
      {0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f, -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f});
  return values.index_select(0, t.view(at::kByte).bitwise_and(15).to(at::kLong).flatten())
      .reshape(t.sizes());
}

at::Tensor to_float4(const at::Tensor& t) {
  const at::Tensor x = t.to(at::kFloat), size = x.abs();
  // Halfway between two values the one with an even code counts.
  at::Tensor code = (size > .25).to(at::kByte);
  for (const double even : {.75, 1.75, 3.5}) code += size >= even;
  for (const double odd : {1.25, 2.5, 5.}) code += size > odd;
  code.masked_fill_(size.isnan(), 7);
  return (code + at::signbit(x).to(at::kByte) * 8)
      .contiguous()
      .view(at::ScalarType::Float4_e2m1fn_x2);
}

at::Tensor to_few_bits(const at::Tensor& t, at::ScalarType type) {
  const bool four = type == at::ScalarType::Int4 || type == at::ScalarType::UInt4;
  const at::Tensor low = t.to(at::kLong).bitwise_and(four ? 15 : 3).to(at::kByte);
  if (!c10::isSignedType(type)) return low.contiguous().view(type);
  const int sign = four ? 8 : 2;
  return low.bitwise_xor(sign).sub(sign).contiguous().view(type);
}

}  // namespace grapeshot::onnx
