#include "grapeshot/io/onnx/low_float.h"

#include <tuple>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/widen.h"

namespace grapeshot::onnx {
namespace {

constexpr auto kFloat4 = at::ScalarType::Float4_e2m1fn_x2;

// Half to even; infinities become 6 and NaN -0, as the onnx package has it.
at::Tensor to_float4(const at::Tensor& t) {
  const at::Tensor x = t.to(at::kFloat), size = x.abs();
  // Halfway between two values the one with an even code counts.
  at::Tensor code = (size > .25).to(at::kByte);
  for (const double even : {.75, 1.75, 3.5}) code += size >= even;
  for (const double odd : {1.25, 2.5, 5.}) code += size > odd;
  code += at::signbit(x).to(at::kByte) * 8;
  return code.masked_fill(size.isnan(), 8).contiguous().view(kFloat4);
}

// Powers of two from 2^-127 to 2^127, kept as their exponents.
at::Tensor to_float8e8m0(const at::Tensor& t, bool saturate, std::string_view round_mode) {
  GRAPESHOT_CHECK(round_mode == "up" || round_mode == "down" || round_mode == "nearest",
                  kInvalidArgument, "round_mode is '", round_mode, "'");
  const at::Tensor x = t.to(at::kFloat);
  const auto [mantissa, exponent] = at::frexp(x);  // mantissa from 1/2 to 1
  at::Tensor above = mantissa > .5;
  if (round_mode == "down") above = at::zeros_like(above);
  if (round_mode == "nearest") above = mantissa >= .75;
  at::Tensor code = exponent.to(at::kInt) - 1 + above + 127;
  const at::Tensor too_large = code.gt(254).logical_or(x.isposinf());
  code = code.clamp(0, 254).masked_fill(x <= 0, 0).masked_fill(too_large, saturate ? 254 : 255);
  return code.masked_fill(x.isnan(), 255).to(at::kByte).view(at::kFloat8_e8m0fnu);
}

at::Tensor to_float8(const at::Tensor& t, at::ScalarType type, bool saturate) {
  // The largest number, and from where on rounding would reach the one after it.
  const auto [largest, beyond] = type == at::kFloat8_e4m3fn     ? std::tuple(448., 464.)
                                 : type == at::kFloat8_e4m3fnuz ? std::tuple(240., 248.)
                                                                : std::tuple(57344., 61440.);
  const at::Tensor x = t.to(at::kFloat);
  if (saturate) return x.clamp(-largest, largest).to(type);
  if (type != at::kFloat8_e4m3fn) return x.to(type);
  // torch's own conversion to this one saturates.
  return x.masked_fill(x.abs() > beyond, std::numeric_limits<double>::quiet_NaN()).to(type);
}

}  // namespace

at::Tensor from_float4(const at::Tensor& t) {
  static const at::Tensor values = at::tensor(
      {0.f, .5f, 1.f, 1.5f, 2.f, 3.f, 4.f, 6.f, -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f});
  return values.index_select(0, bits_of(t).to(at::kLong).flatten()).reshape(t.sizes());
}

at::Tensor to_few_bits(const at::Tensor& t, at::ScalarType type) {
  const bool two = type == at::ScalarType::Int2 || type == at::ScalarType::UInt2;
  const at::Tensor low = t.to(at::kLong).bitwise_and(two ? 3 : 15).to(at::kByte).contiguous();
  const bool is_signed = type == at::ScalarType::Int2 || type == at::ScalarType::Int4;
  if (!is_signed) return low.view(type);
  const int sign = two ? 2 : 8;
  return low.bitwise_xor(sign).sub(sign).view(type);
}

at::Tensor bits_of(const at::Tensor& t) {
  const bool two =
      t.scalar_type() == at::ScalarType::Int2 || t.scalar_type() == at::ScalarType::UInt2;
  return t.view(at::kByte).bitwise_and(two ? 3 : 15);
}

at::Tensor converted(const at::Tensor& t, at::ScalarType type, bool saturate,
                     std::string_view round_mode) {
  if (t.scalar_type() == type) return t;
  // torch converts from uint64 itself, whose widened numbers may be negative.
  const at::Tensor x = t.scalar_type() == at::kUInt64 ? t : widened(t);
  switch (type) {
    case kFloat4:
      return to_float4(x);
    case at::ScalarType::Int2:
    case at::ScalarType::Int4:
    case at::ScalarType::UInt2:
    case at::ScalarType::UInt4:
      return to_few_bits(x, type);
    case at::kFloat8_e8m0fnu:
      return to_float8e8m0(x, saturate, round_mode);
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2:
    case at::kFloat8_e5m2fnuz:
      return to_float8(x, type, saturate);
    default:
      return x.to(type);
  }
}

}  // namespace grapeshot::onnx
