// grapeshot/io/onnx/ops_arithmetic.cpp: operators on several tensors, broadcast element by element.
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

using Function = at::Tensor (*)(const at::Tensor& a, const at::Tensor& b);

Value combine(const Call& call, const Value& a, const Value& b, Function function) {
  const Aligned both = align(call, a, b);
  return {function(both.a, both.b), both.rows};
}

template <Function kFunction>
Values binary(const Call& call) {
  // Before opset 7 broadcasting had to be asked for and aligned by `axis`.
  GRAPESHOT_CHECK(!call.node.find("axis") && !call.node.find("broadcast"), kUnsupported,
                  "attributes 'axis' and 'broadcast' (opset 6) are not supported");
  return {combine(call, call.in[0], call.in[1], kFunction)};
}

// One tensor or more.
template <Function kFunction>
Values many(const Call& call) {
  Value out = call.in[0];
  for (size_t i = 1; i < call.in.size(); ++i) {
    GRAPESHOT_CHECK(call.has(i), kInvalidArgument, "input ", i, " is missing");
    out = combine(call, out, call.in[i], kFunction);
  }
  return {out};
}

at::Tensor add(const at::Tensor& a, const at::Tensor& b) {
  return at::add(a, b);
}
at::Tensor sub(const at::Tensor& a, const at::Tensor& b) {
  return at::sub(a, b);
}
at::Tensor mul(const at::Tensor& a, const at::Tensor& b) {
  return at::mul(a, b);
}
// The smallest integer over -1 is a signal from the processor.
at::Tensor divided(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor minus_one = b == -1;
  return at::where(minus_one, -a, at::div(a, b.masked_fill(minus_one, 1), "trunc"))
      .to(a.scalar_type());
}
// a / b of numbers from 0 to 2^64 - 1, kept as the int64 of the same bits: half of a is not
// negative, and its quotient is at most one too small (Warren, Hacker's Delight, 9-3).
at::Tensor divided_unsigned(const at::Tensor& a, const at::Tensor& b) {
  constexpr int64_t kHighBit = std::numeric_limits<int64_t>::min();
  const auto at_least = [](const at::Tensor& x, const at::Tensor& y) {
    return x.bitwise_xor(kHighBit) >= y.bitwise_xor(kHighBit);
  };
  const at::Tensor half = at::bitwise_right_shift(a, 1).bitwise_and(~kHighBit);
  const at::Tensor large = b < 0;
  const at::Tensor q = at::bitwise_left_shift(at::div(half, b.masked_fill(large, 1), "trunc"), 1);
  return at::where(large, at_least(a, b), q + at_least(a - q * b, b));
}
at::Tensor div(const at::Tensor& a, const at::Tensor& b) {
  return at::isIntegralType(a.scalar_type(), true) ? divided(a, b) : at::div(a, b);
}
at::Tensor pow(const at::Tensor& a, const at::Tensor& b) {
  // A square is what nearly all of them are, and torch's pow by a tensor is slow.
  if (b.numel() == 1 && !b.requires_grad() && b.dim() <= a.dim()) {
    return at::pow(a, b.item()).to(a.scalar_type());
  }
  return at::pow(a, b).to(a.scalar_type());
}
at::Tensor prelu(const at::Tensor& x, const at::Tensor& slope) {
  return at::where(x < 0, x * slope, x);
}
at::Tensor equal(const at::Tensor& a, const at::Tensor& b) {
  return at::eq(a, b);
}
at::Tensor greater(const at::Tensor& a, const at::Tensor& b) {
  return at::gt(a, b);
}
at::Tensor greater_or_equal(const at::Tensor& a, const at::Tensor& b) {
  return at::ge(a, b);
}
at::Tensor less(const at::Tensor& a, const at::Tensor& b) {
  return at::lt(a, b);
}
at::Tensor less_or_equal(const at::Tensor& a, const at::Tensor& b) {
  return at::le(a, b);
}

Values divide(const Call& call) {
  const bool is_unsigned = call.narrow == at::kUInt64;
  return {combine(call, call.in[0], call.in[1], is_unsigned ? divided_unsigned : div)};
}

Values mean(const Call& call) {
  Values out = many<add>(call);
  out[0].t = out[0].t / static_cast<double>(call.in.size());
  return out;
}

at::Tensor c_remainder(const at::Tensor& a, const at::Tensor& b) {
  if (!at::isIntegralType(a.scalar_type(), true)) return at::fmod(a, b);
  return a - divided(a, b) * b;
}
at::Tensor remainder(const at::Tensor& a, const at::Tensor& b) {
  if (!at::isIntegralType(a.scalar_type(), true)) return at::remainder(a, b);
  const at::Tensor r = c_remainder(a, b);
  return r + b * r.ne(0).logical_and((r < 0).ne(b < 0));
}
at::Tensor unsigned_remainder(const at::Tensor& a, const at::Tensor& b) {
  return a - divided_unsigned(a, b) * b;
}

Values mod(const Call& call) {
  Function function = call.node.i("fmod", 0) != 0 ? c_remainder : remainder;
  if (call.narrow == at::kUInt64) function = unsigned_remainder;
  return {combine(call, call.in[0], call.in[1], function)};
}

at::Tensor shifted_left(const at::Tensor& a, const at::Tensor& b) {
  return at::bitwise_left_shift(a, b);
}
at::Tensor shifted_right(const at::Tensor& a, const at::Tensor& b) {
  return at::bitwise_right_shift(a, b);
}
// Of uint64, kept as the int64 of the same bits: a first place of zero, the others by int64.
at::Tensor shifted_right_unsigned(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor half =
      at::bitwise_right_shift(a, 1).bitwise_and(std::numeric_limits<int64_t>::max());
  return at::where(b == 0, a, at::bitwise_right_shift(half, (b - 1).clamp_min(0)));
}

Values bit_shift(const Call& call) {
  const std::string_view direction = call.node.s("direction", "");
  GRAPESHOT_CHECK(direction == "LEFT" || direction == "RIGHT", kInvalidArgument, "direction is '",
                  direction, "'");
  Function function = direction == "LEFT" ? shifted_left : shifted_right;
  if (direction == "RIGHT" && call.narrow == at::kUInt64) function = shifted_right_unsigned;
  return {combine(call, call.in[0], call.in[1], function)};
}

Values bitwise_not(const Call& call) {
  return {Value{call.in[0].t.bitwise_not(), call.in[0].rows}};
}

// Up to opset 10 the limits are attributes, then inputs. Where the lower one is larger, the upper
// one wins.
Values clip(const Call& call) {
  Value x = call.in[0];
  if (call.opset < 11) {
    constexpr float kMost = std::numeric_limits<float>::max();
    const double low = call.node.f("min", -kMost), high = call.node.f("max", kMost);
    return {Value{at::clamp(x.t, low, high), x.rows}};
  }
  const bool plain = !(call.has(1) && (call.in[1].rows || call.in[1].t.numel() != 1)) &&
                     !(call.has(2) && (call.in[2].rows || call.in[2].t.numel() != 1));
  if (plain) {
    if (!call.has(1) && !call.has(2)) return {x};
    const auto limit = [&](size_t i) {
      return call.has(i) ? std::optional<at::Scalar>(call.in[i].t.item()) : std::nullopt;
    };
    return {Value{at::clamp(x.t, limit(1), limit(2)), x.rows}};
  }
  const auto maximum = [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); };
  const auto minimum = [](const at::Tensor& a, const at::Tensor& b) { return at::minimum(a, b); };
  if (call.has(1)) x = combine(call, x, call.in[1], maximum);
  if (call.has(2)) x = combine(call, x, call.in[2], minimum);
  return {x};
}

Values where(const Call& call) {
  int64_t rank = 0;
  bool rows = false;
  for (const Value& v : call.in) {
    rank = std::max(rank, v.rank());
    rows = rows || v.rows;
  }
  if (call.planning) {
    const Aligned sides = align(call, call.in[1], call.in[2]);
    (void)align(call, call.in[0], {sides.a.expand_as(sides.a + sides.b), sides.rows});
  }
  const at::Tensor condition = with_rank(call.in[0], rank).to(at::kBool);
  const at::Tensor yes = with_rank(call.in[1], rank), no = with_rank(call.in[2], rank);
  return {Value{at::where(condition, yes, no), rows}};
}

constexpr Operator kTable[] = {
    {"Add", 7, 2, kEveryInput, "Sum, broadcast.", binary<add>},
    {"And", 7, 2, kEveryInput, "Logical and, broadcast.", binary<at::logical_and>},
    {"BitShift", 11, 2, kEveryInput, "Bits moved to the left or right, broadcast.", bit_shift},
    {"BitwiseAnd", 18, 2, kEveryInput, "And of bits, broadcast.", binary<at::bitwise_and>},
    {"BitwiseNot", 18, 1, kEveryInput, "All bits inverted.", bitwise_not},
    {"BitwiseOr", 18, 2, kEveryInput, "Or of bits, broadcast.", binary<at::bitwise_or>},
    {"BitwiseXor", 18, 2, kEveryInput, "Exclusive or of bits, broadcast.", binary<at::bitwise_xor>},
    {"Clip", 1, 1, kEveryInput, "Cut to [min, max].", clip, Types::kOrdered},
    {"Div", 7, 2, kEveryInput, "Quotient, broadcast; integers round towards zero.", divide},
    {"Equal", 7, 2, kEveryInput, "a = b, broadcast.", binary<equal>, Types::kOrdered},
    {"Greater", 7, 2, kEveryInput, "a > b, broadcast.", binary<greater>, Types::kOrdered},
    {"GreaterOrEqual", 12, 2, kEveryInput, "a >= b, broadcast.", binary<greater_or_equal>,
     Types::kOrdered},
    {"Less", 7, 2, kEveryInput, "a < b, broadcast.", binary<less>, Types::kOrdered},
    {"LessOrEqual", 12, 2, kEveryInput, "a <= b, broadcast.", binary<less_or_equal>,
     Types::kOrdered},
    {"Max", 6, 1, kEveryInput, "Largest of the inputs, broadcast.", many<at::maximum>,
     Types::kOrdered},
    {"Mean", 6, 1, kEveryInput, "Mean of the inputs, broadcast.", mean},
    {"Min", 6, 1, kEveryInput, "Smallest of the inputs, broadcast.", many<at::minimum>,
     Types::kOrdered},
    {"Mod", 10, 2, kEveryInput, "Remainder with the sign of the divisor, or of C's fmod.", mod},
    {"Mul", 7, 2, kEveryInput, "Product, broadcast.", binary<mul>},
    {"Or", 7, 2, kEveryInput, "Logical or, broadcast.", binary<at::logical_or>},
    {"PRelu", 7, 2, kEveryInput, "x, or slope x below 0.", binary<prelu>},
    {"Pow", 7, 2, kEveryInput, "a to the power b, broadcast.", binary<pow>},
    {"Sub", 7, 2, kEveryInput, "Difference, broadcast.", binary<sub>},
    {"Sum", 6, 1, kEveryInput, "Sum of the inputs, broadcast.", many<add>},
    {"Where", 9, 3, kEveryInput, "One or the other by a condition, broadcast.", where},
    {"Xor", 7, 2, kEveryInput, "Exclusive or, broadcast.", binary<at::logical_xor>},
};

}  // namespace

std::span<const Operator> arithmetic_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
