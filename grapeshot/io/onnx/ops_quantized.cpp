// grapeshot/io/onnx/ops_quantized.cpp: numbers on a grid, and products of them.
//
// Sums of products of whole numbers are computed in floating point that holds them exactly. Where
// history is recorded, quantised numbers stay floating point, so that gradients pass straight
// through them as through Round.
#include <algorithm>
#include <tuple>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/element_type.h"
#include "grapeshot/io/onnx/low_float.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/surrogate.h"
#include "grapeshot/io/onnx/widen.h"

namespace grapeshot::onnx {
namespace {

// The smallest and the largest number of a whole type; throws for others.
std::tuple<double, double> limits(at::ScalarType type) {
  const ElementType* row = find_element_type(type);
  GRAPESHOT_CHECK(
      row && row->bits <= 16 && (row->name.starts_with("int") || row->name.starts_with("uint")),
      kUnsupported, "numbers cannot be quantised to ", row ? row->name : "this type");
  const double count = static_cast<double>(int64_t{1} << row->bits);
  return row->name.starts_with("u") ? std::tuple(0., count - 1)
                                    : std::tuple(-count / 2, count / 2 - 1);
}

bool is_recorded(const at::Tensor& t) {
  return c10::GradMode::is_enabled() && t.requires_grad();
}

// Floating point of more than 16 bits, to compute in.
at::Tensor real(const Call& call, const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? t : widened(t).to(call.real);
}

Value real(const Call& call, const Value& v) {
  return {real(call, v.t), v.rows};
}

// `scaled` and `zero`, of equal rank, as numbers of `type`.
at::Tensor quantized(const Call& call, const at::Tensor& scaled, const at::Tensor& zero,
                     at::ScalarType type) {
  if (c10::isFloat8Type(type) || type == at::ScalarType::Float4_e2m1fn_x2) {
    return converted(scaled, type, call.node.i("saturate", 1) != 0);
  }
  const auto [low, high] = limits(type);
  at::Tensor y = step_function(scaled, StepKind::kRound, call.surrogate);
  if (zero.defined()) y = y + zero;
  y = y.clamp(low, high);
  return is_recorded(y) ? y : converted(y, type);
}

// A scale or zero point against `x`: a single number, one a place of the axis `axis`, or one a
// block of `block` places of it.
Value against(const Value& p, const Value& x, int64_t axis, int64_t block) {
  if (p.rank() == 0 || (p.rank() == 1 && p.size(0) == 1 && block == 0)) return reshaped(p, {});
  const int64_t i = normal_axis(axis, x.rank());
  if (block == 0) {
    GRAPESHOT_CHECK(p.rank() == 1, kInvalidArgument, "a scale or zero point has ", p.rank(),
                    " axes and no block_size");
    std::vector<int64_t> sizes(static_cast<size_t>(x.rank()), 1);
    sizes[static_cast<size_t>(i)] = p.size(0);
    return reshaped(p, std::move(sizes));
  }
  GRAPESHOT_CHECK(p.rank() == x.rank() && block > 0 && p.size(i) > 0 &&
                      p.size(i) == (x.size(i) + block - 1) / block,
                  kInvalidArgument, "blocks of ", block, " do not fit scales of shape ", p.shape(),
                  " and an input of shape ", x.shape());
  const at::Tensor place = at::arange(x.size(i)).div(block, "floor");
  return {p.t.index_select(i + p.rows, place.to(p.t.device())), p.rows};
}

// Of input `input`, aligned with `x`.
Value parameter(const Call& call, size_t input, const Value& x, int64_t axis, int64_t block) {
  return against(real(call, call.in[input]), x, axis, block);
}

Values quantize_linear(const Call& call) {
  const Value x = real(call, call.in[0]);
  const int64_t axis = call.node.i("axis", 1), block = call.node.i("block_size", 0);
  const auto code = static_cast<int32_t>(call.node.i("output_dtype", 0));
  const ElementType* asked = find_element_type(code);
  GRAPESHOT_CHECK(code == 0 || asked, kUnsupported, "output_dtype ", code, " is not supported");
  at::ScalarType type = asked ? asked->type : at::kByte;
  const Aligned scaled = align(call, x, parameter(call, 1, x, axis, block));
  const Value y{scaled.a / scaled.b, scaled.rows};
  if (!call.has(2)) return {Value{quantized(call, y.t, {}, type), y.rows}};
  // Where history is recorded a zero point may be floating point, as what it belongs to.
  if (call.in[2].t.scalar_type() != call.real) type = call.in[2].t.scalar_type();
  const Aligned both = align(call, y, parameter(call, 2, x, axis, block));
  return {Value{quantized(call, both.a, both.b, type), both.rows}};
}

Values dequantize_linear(const Call& call) {
  Value x = real(call, call.in[0]);
  const int64_t axis = call.node.i("axis", 1), block = call.node.i("block_size", 0);
  if (call.has(2)) {
    const Aligned both = align(call, x, parameter(call, 2, x, axis, block));
    x = {both.a - both.b, both.rows};
  }
  const Aligned both = align(call, x, parameter(call, 1, x, axis, block));
  const ElementType* asked =
      find_element_type(static_cast<int32_t>(call.node.i("output_dtype", 0)));
  at::ScalarType type = asked ? asked->type : call.in[1].t.scalar_type();
  if (type == at::kFloat) type = call.real;
  return {Value{converted(both.a * both.b, type), both.rows}};
}

// To uint8 by the range of all values of a row's tensor, 0 included.
Values dynamic_quantize_linear(const Call& call) {
  const Value x = real(call, call.in[0]);
  std::vector<int64_t> axes;
  for (int64_t i = x.rows; i < x.t.dim(); ++i) axes.push_back(i);
  GRAPESHOT_CHECK(x.t.numel() > 0, kInvalidArgument, "the input has no values");
  const Value low{x.t.amin(axes).clamp_max(0), x.rows}, high{x.t.amax(axes).clamp_min(0), x.rows};
  at::Tensor scale = (high.t - low.t) / 255;
  scale = scale.masked_fill(scale == 0, 1);
  const at::Tensor zero = quantized(call, -low.t / scale, {}, at::kByte);
  const Aligned scaled = align(call, x, {scale, x.rows});
  const Aligned both =
      align(call, {scaled.a / scaled.b, x.rows}, {zero.to(x.t.scalar_type()), x.rows});
  return {Value{quantized(call, both.a, both.b, at::kByte), x.rows}, Value{scale, x.rows},
          Value{zero, x.rows}};
}

// Whole numbers less their zero point, in a type that holds `terms` products of two of them.
Value centred(const Call& call, size_t value, size_t zero, int64_t terms, bool by_row) {
  constexpr int64_t kMostInFloat = (int64_t{1} << 24) / (255 * 255);
  const Value& given = call.in[value];
  const at::ScalarType type = terms > kMostInFloat ? at::kDouble : call.real;
  const Value x{widened(given.t).to(type), given.rows};
  if (!call.has(zero)) return x;
  Value z{widened(call.in[zero].t).to(type), call.in[zero].rows};
  if (z.rank() == 1 && by_row && z.size(0) > 1) z = reshaped(z, {z.size(0), 1});
  const Aligned both = align(call, x, z);
  return {both.a - both.b, both.rows};
}

// A matrix product of inputs `a` and `b`, whose zero points are other inputs.
Value whole_matmul(const Call& call, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  GRAPESHOT_CHECK(call.in[a].rank() > 0, kInvalidArgument, "an operand has no axes");
  const int64_t terms = call.in[a].size(call.in[a].rank() - 1);
  return matmul(call, centred(call, a, a_zero, terms, true),
                centred(call, b, b_zero, terms, false));
}

// As int32; where history is recorded, as what it was recorded in.
Value as_int32(const Call& call, const Value& v) {
  return {v.t.to(is_recorded(v.t) ? call.real : at::kInt), v.rows};
}

Values matmul_integer(const Call& call) {
  return {as_int32(call, whole_matmul(call, 0, 2, 1, 3))};
}

// A convolution of inputs `x` and `w`, whose zero points are other inputs.
Value whole_convolution(const Call& call, size_t x, size_t x_zero, size_t w, size_t w_zero,
                        const at::Tensor& bias) {
  const at::Tensor& weight = call.in[w].t;
  const int64_t terms =
      weight.dim() > 0 ? weight.numel() / std::max<int64_t>(weight.size(0), 1) : 1;
  at::Tensor kernel = centred(call, w, call.in.size(), terms, false).t;
  if (call.has(w_zero)) {
    const Value zero{widened(call.in[w_zero].t).to(kernel.scalar_type()), false};
    kernel = kernel - against(zero, {kernel, false}, 0, 0).t;
  }
  const at::Tensor b = bias.defined() ? bias.to(kernel.scalar_type()) : bias;
  return convolution(call, centred(call, x, x_zero, terms, false), kernel, b);
}

Values conv_integer(const Call& call) {
  return {as_int32(call, whole_convolution(call, 0, 2, 1, 3, at::Tensor()))};
}

// A sum of products times `scale` as numbers of the type of input `zero`, its zero point.
Values requantized(const Call& call, const Value& sum, const Value& scale, size_t zero) {
  const Aligned scaled = align(call, sum, scale);
  const Aligned both = align(call, {(scaled.a * scaled.b).to(call.real), scaled.rows},
                             reshaped(real(call, call.in[zero]), {}));
  at::ScalarType type = call.in[zero].t.scalar_type();
  if (type == call.real) type = at::kByte;
  return {Value{quantized(call, both.a, both.b, type), both.rows}};
}

// scale_a scale_b / scale_y.
Value joint_scale(const Call& call, const Value& a, const Value& b, size_t y) {
  const Aligned product = align(call, a, b);
  const Aligned all = align(call, {product.a * product.b, product.rows}, real(call, call.in[y]));
  return {all.a / all.b, all.rows};
}

Values qlinear_matmul(const Call& call) {
  const Value sum = whole_matmul(call, 0, 2, 3, 5);
  Value a = real(call, call.in[1]);
  if (a.rank() == 1 && a.size(0) > 1) a = reshaped(a, {a.size(0), 1});
  return requantized(call, sum, joint_scale(call, a, real(call, call.in[4]), 6), 7);
}

Values qlinear_conv(const Call& call) {
  const at::Tensor bias = call.has(8) ? call.in[8].t : at::Tensor();
  const Value sum = whole_convolution(call, 0, 2, 3, 5, bias);
  const Value w = against(real(call, call.in[4]), sum, 1, 0);
  return requantized(call, sum, joint_scale(call, real(call, call.in[1]), w, 6), 7);
}

constexpr uint32_t kFirstAndThird = 5u;

constexpr Operator kTable[] = {
    {"ConvInteger", 10, 2, kFirstAndThird, "Convolution of whole numbers.", conv_integer,
     Types::kExact},
    {"DequantizeLinear", 10, 2, kEveryInput,
     "Numbers on a grid as floating point: by tensor, axis or block.", dequantize_linear,
     Types::kExact},
    {"DynamicQuantizeLinear", 11, 1, kEveryInput,
     "uint8 by the range of the values; straight-through gradient.", dynamic_quantize_linear,
     Types::kExact},
    {"MatMulInteger", 10, 2, kEveryInput, "Matrix product of whole numbers.", matmul_integer,
     Types::kExact},
    {"QLinearConv", 10, 8, kFirstInput,
     "Convolution of numbers on grids; straight-through gradient.", qlinear_conv, Types::kExact},
    {"QLinearMatMul", 10, 8, kEveryInput,
     "Matrix product of numbers on grids; straight-through gradient.", qlinear_matmul,
     Types::kExact},
    {"QuantizeLinear", 10, 2, kEveryInput,
     "Nearest number on a grid, half to even: by tensor, axis or block; straight-through gradient.",
     quantize_linear, Types::kExact},
};

}  // namespace

std::span<const Operator> quantized_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
