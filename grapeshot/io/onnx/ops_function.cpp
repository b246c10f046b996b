// grapeshot/io/onnx/ops_function.cpp: functions of one tensor, element by element.
#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/surrogate.h"

namespace grapeshot::onnx {
namespace {

using Function = at::Tensor (*)(const at::Tensor& x);

template <Function kFunction>
Values each(const Call& call) {
  return {Value{kFunction(call.in[0].t), call.in[0].rows}};
}

template <class F>
Values unary(const Call& call, F function) {
  return {Value{function(call.in[0].t), call.in[0].rows}};
}

Values celu(const Call& call) {
  return unary(call, [&](const auto& x) { return at::celu(x, call.node.f("alpha", 1.f)); });
}

Values elu(const Call& call) {
  return unary(call, [&](const auto& x) { return at::elu(x, call.node.f("alpha", 1.f)); });
}

Values gelu(const Call& call) {
  const std::string_view how = call.node.s("approximate", "none");
  GRAPESHOT_CHECK(how == "none" || how == "tanh", kUnsupported, "approximate is '", how, "'");
  return unary(call, [&](const auto& x) { return at::gelu(x, how); });
}

Values hard_sigmoid(const Call& call) {
  const double alpha = call.node.f("alpha", 0.2f), beta = call.node.f("beta", 0.5f);
  return unary(call, [&](const auto& x) { return (x * alpha + beta).clamp(0., 1.); });
}

Values is_inf(const Call& call) {
  const bool negative = call.node.i("detect_negative", 1) != 0;
  const bool positive = call.node.i("detect_positive", 1) != 0;
  return unary(call, [&](const auto& x) {
    const at::Tensor out = at::zeros_like(x, at::TensorOptions(at::kBool));
    return at::logical_or(negative ? at::isneginf(x) : out, positive ? at::isposinf(x) : out);
  });
}

Values leaky_relu(const Call& call) {
  return unary(call, [&](const auto& x) { return at::leaky_relu(x, call.node.f("alpha", 0.01f)); });
}

// torch's own selu has the constants fixed.
Values selu(const Call& call) {
  const double alpha = call.node.f("alpha", 1.6732632423543772848170429916717f);
  const double gamma = call.node.f("gamma", 1.0507009873554804934193349852946f);
  return unary(call, [&](const auto& x) { return at::elu(x, alpha, gamma); });
}

Values thresholded_relu(const Call& call) {
  return unary(call,
               [&](const auto& x) { return at::threshold(x, call.node.f("alpha", 1.f), 0.); });
}

// x moved towards 0 by `bias` outside of [-lambd, lambd], 0 within.
Values shrink(const Call& call) {
  const double limit = call.node.f("lambd", 0.5f), bias = call.node.f("bias", 0.f);
  return unary(call, [&](const auto& x) {
    const at::Tensor moved = x - bias * x.sign();
    return at::where(x.abs() > limit, moved, at::zeros({}, x.options())).to(x.scalar_type());
  });
}

Values swish(const Call& call) {
  const double alpha = call.node.f("alpha", 1.f);
  return unary(call, [&](const auto& x) { return x * (x * alpha).sigmoid(); });
}

template <StepKind kKind>
Values step(const Call& call) {
  return unary(call, [&](const auto& x) { return step_function(x, kKind, call.surrogate); });
}

at::Tensor hard_swish(const at::Tensor& x) {
  return x * (x / 6. + 0.5).clamp(0., 1.);
}
at::Tensor softplus(const at::Tensor& x) {
  return at::logaddexp(x, at::zeros({}, x.options()));
}
at::Tensor softsign(const at::Tensor& x) {
  return x / (x.abs() + 1.);
}
// Of sequences, too.
Values identity(const Call& call) {
  return {call.in[0]};
}

constexpr Operator kTable[] = {
    {"Abs", 1, 1, kEveryInput, "|x|.", each<at::abs>},
    {"Acos", 7, 1, kEveryInput, "Inverse cosine.", each<at::acos>},
    {"Acosh", 9, 1, kEveryInput, "Inverse hyperbolic cosine.", each<at::acosh>},
    {"Asin", 7, 1, kEveryInput, "Inverse sine.", each<at::asin>},
    {"Asinh", 9, 1, kEveryInput, "Inverse hyperbolic sine.", each<at::asinh>},
    {"Atan", 7, 1, kEveryInput, "Inverse tangent.", each<at::atan>},
    {"Atanh", 9, 1, kEveryInput, "Inverse hyperbolic tangent.", each<at::atanh>},
    {"Ceil", 1, 1, kEveryInput, "Smallest integer not below; straight-through gradient.",
     step<StepKind::kCeil>},
    {"Celu", 12, 1, kEveryInput, "x, or alpha (exp(x / alpha) - 1) below 0.", celu},
    {"Cos", 7, 1, kEveryInput, "Cosine.", each<at::cos>},
    {"Cosh", 9, 1, kEveryInput, "Hyperbolic cosine.", each<at::cosh>},
    {"Elu", 1, 1, kEveryInput, "x, or alpha (exp(x) - 1) below 0.", elu},
    {"Erf", 9, 1, kEveryInput, "Error function.", each<at::erf>},
    {"Exp", 1, 1, kEveryInput, "Exponential.", each<at::exp>},
    {"Floor", 1, 1, kEveryInput, "Largest integer not above; straight-through gradient.",
     step<StepKind::kFloor>},
    {"Gelu", 20, 1, kEveryInput, "x Phi(x), exact or by tanh.", gelu},
    {"HardSigmoid", 1, 1, kEveryInput, "alpha x + beta, cut to [0, 1].", hard_sigmoid},
    {"HardSwish", 14, 1, kEveryInput, "x (x / 6 + 1 / 2), the factor cut to [0, 1].",
     each<hard_swish>},
    {"Identity", 1, 1, kEveryInput, "Passes its input on.", identity, Types::kExact},
    {"IsInf", 10, 1, kEveryInput, "Whether x is infinite.", is_inf},
    {"IsNaN", 9, 1, kEveryInput, "Whether x is NaN.", each<at::isnan>},
    {"LeakyRelu", 1, 1, kEveryInput, "x, or alpha x below 0.", leaky_relu},
    {"Log", 1, 1, kEveryInput, "Natural logarithm.", each<at::log>},
    {"Mish", 18, 1, kEveryInput, "x tanh(log(1 + exp(x))).", each<at::mish>},
    {"Neg", 1, 1, kEveryInput, "-x.", each<at::neg>},
    {"Not", 1, 1, kEveryInput, "Logical negation.", each<at::logical_not>},
    {"Reciprocal", 1, 1, kEveryInput, "1 / x.", each<at::reciprocal>},
    {"Relu", 1, 1, kEveryInput, "max(x, 0).", each<at::relu>},
    {"Round", 11, 1, kEveryInput, "Nearest integer, half to even; straight-through gradient.",
     step<StepKind::kRound>},
    {"Selu", 1, 1, kEveryInput, "gamma x, or gamma alpha (exp(x) - 1) below 0.", selu},
    {"Shrink", 9, 1, kEveryInput, "x moved towards 0, and 0 around it.", shrink},
    {"Sigmoid", 1, 1, kEveryInput, "1 / (1 + exp(-x)).", each<at::sigmoid>},
    {"Sign", 9, 1, kEveryInput, "-1, 0 or 1; straight-through gradient.", step<StepKind::kSign>},
    {"Sin", 7, 1, kEveryInput, "Sine.", each<at::sin>},
    {"Sinh", 9, 1, kEveryInput, "Hyperbolic sine.", each<at::sinh>},
    {"Softplus", 1, 1, kEveryInput, "log(1 + exp(x)).", each<softplus>},
    {"Softsign", 1, 1, kEveryInput, "x / (1 + |x|).", each<softsign>},
    {"Sqrt", 1, 1, kEveryInput, "Square root.", each<at::sqrt>},
    {"Swish", 24, 1, kEveryInput, "x / (1 + exp(-alpha x)).", swish},
    {"Tan", 7, 1, kEveryInput, "Tangent.", each<at::tan>},
    {"Tanh", 1, 1, kEveryInput, "Hyperbolic tangent.", each<at::tanh>},
    {"ThresholdedRelu", 10, 1, kEveryInput, "x where x > alpha, else 0.", thresholded_relu},
};

}  // namespace

std::span<const Operator> function_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
