#include "grapeshot/io/onnx/widen.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/io/onnx/low_float.h"

namespace grapeshot::onnx {
namespace {

constexpr int64_t kHighBit = std::numeric_limits<int64_t>::min();

// The type that takes its place, or itself.
at::ScalarType wide_type(at::ScalarType type) {
  switch (type) {
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
    case at::kUInt64:
      return at::kLong;
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2:
    case at::kFloat8_e5m2fnuz:
    case at::kFloat8_e8m0fnu:
    case at::ScalarType::Float4_e2m1fn_x2:
      return at::kFloat;
    case at::ScalarType::Int2:
    case at::ScalarType::Int4:
      return at::kChar;
    case at::ScalarType::UInt2:
    case at::ScalarType::UInt4:
      return at::kByte;
    default:
      return type;
  }
}

bool is_wide(at::ScalarType type) {
  return wide_type(type) == type;
}

at::Tensor narrowed(const at::Tensor& t, at::ScalarType type, bool ordered) {
  if (type != at::kUInt64) return converted(t, type);
  return (ordered ? t.bitwise_xor(kHighBit) : t).contiguous().view(type);
}

}  // namespace

at::Tensor widened(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kUInt64:
      return t.view(at::kLong);
    case at::ScalarType::Float4_e2m1fn_x2:
      return from_float4(t);
    case at::ScalarType::Int2:
    case at::ScalarType::Int4:
      return t.view(at::kChar);
    case at::ScalarType::UInt2:
    case at::ScalarType::UInt4:
      return t.view(at::kByte);
    default:
      return t.to(wide_type(t.scalar_type()));
  }
}

bool needs_widening(const BoundNode& bound, const Call& call) {
  if (bound.types == Types::kExact) return false;
  return std::ranges::any_of(
      call.in, [](const Value& v) { return v.t.defined() && !is_wide(v.t.scalar_type()); });
}

Values run_widened(const BoundNode& bound, const Call& call) {
  const bool ordered = bound.types == Types::kOrdered || bound.types == Types::kOrderedFirst ||
                       bound.types == Types::kOrderedNone;
  std::vector<Value> in(call.in.begin(), call.in.end());
  for (Value& v : in) {
    if (!v.t.defined()) continue;
    const bool flip = ordered && v.t.scalar_type() == at::kUInt64;
    v.t = widened(v.t);
    if (flip) v.t = v.t.bitwise_xor(kHighBit);
  }
  // What chooses between others is no number.
  const auto of = std::ranges::find_if(
      call.in, [](const Value& v) { return v.t.defined() && v.t.scalar_type() != at::kBool; });
  const at::ScalarType type = of->t.scalar_type();
  Call wide = call;
  wide.in = in;
  wide.narrow = type;
  Values out = bound.run(wide);
  size_t count = out.size();
  if (bound.types == Types::kOrderedFirst) count = std::min<size_t>(count, 1);
  if (bound.types == Types::kOrderedNone || is_wide(type)) count = 0;
  for (size_t i = 0; i < count; ++i) {
    at::Tensor& t = out[i].t;
    if (t.defined() && t.scalar_type() == wide_type(type)) t = narrowed(t, type, ordered);
  }
  return out;
}

}  // namespace grapeshot::onnx
