// grapeshot/io/onnx/ops_math.cpp: arithmetic and activation functions, element by element.
#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/surrogate.h"

namespace grapeshot::onnx {
namespace {

template <class F>
Values binary(const Call& call, F function) {
  // Before opset 7 broadcasting had to be asked for and aligned by `axis`.
  GRAPESHOT_CHECK(!call.node.find("axis") && !call.node.find("broadcast"), kUnsupported,
                  "attributes 'axis' and 'broadcast' (opset 6) are not supported");
  const Aligned both = align(call.in[0], call.in[1]);
  return {Value{function(both.a, both.b), both.rows}};
}

template <class F>
Values unary(const Call& call, F function) {
  return {Value{function(call.in[0].t), call.in[0].rows}};
}

Values add(const Call& call) {
  return binary(call, [](const auto& a, const auto& b) { return at::add(a, b); });
}

Values sub(const Call& call) {
  return binary(call, [](const auto& a, const auto& b) { return at::sub(a, b); });
}

Values mul(const Call& call) {
  return binary(call, [](const auto& a, const auto& b) { return at::mul(a, b); });
}

Values div(const Call& call) {
  return binary(call, [](const auto& a, const auto& b) {
    return at::isIntegralType(a.scalar_type(), true) ? at::div(a, b, "trunc") : at::div(a, b);
  });
}

Values relu(const Call& call) {
  return unary(call, [](const auto& x) { return at::relu(x); });
}

Values leaky_relu(const Call& call) {
  const double slope = call.node.f("alpha", 0.01f);
  return unary(call, [&](const auto& x) { return at::leaky_relu(x, slope); });
}

Values sigmoid(const Call& call) {
  return unary(call, [](const auto& x) { return at::sigmoid(x); });
}

Values tanh(const Call& call) {
  return unary(call, [](const auto& x) { return at::tanh(x); });
}

template <StepKind kKind>
Values step(const Call& call) {
  return unary(call, [&](const auto& x) { return step_function(x, kKind, call.surrogate); });
}

// Up to opset 12 softmax works on the input flattened to two axes at `axis`.
Values softmax(const Call& call) {
  const Value& x = call.in[0];
  const bool flattens = call.opset < 13;
  const int64_t axis = normal_axis(call.node.i("axis", flattens ? 1 : -1), x.rank()) + x.rows;
  if (!flattens) return {Value{at::softmax(x.t, axis), x.rows}};
  return {Value{at::softmax(x.t.flatten(axis), axis).reshape(x.t.sizes()), x.rows}};
}

constexpr Operator kTable[] = {
    {"Add", 7, 2, "Sum, broadcast.", add},
    {"Div", 7, 2, "Quotient, broadcast; integers round towards zero.", div},
    {"Floor", 1, 1, "Largest integer not above; straight-through gradient.",
     step<StepKind::kFloor>},
    {"LeakyRelu", 1, 1, "x, or alpha x below 0.", leaky_relu},
    {"Mul", 7, 2, "Product, broadcast.", mul},
    {"Relu", 1, 1, "max(x, 0).", relu},
    {"Round", 11, 1, "Nearest integer, half to even; straight-through gradient.",
     step<StepKind::kRound>},
    {"Sigmoid", 1, 1, "1 / (1 + exp(-x)).", sigmoid},
    {"Sign", 9, 1, "-1, 0 or 1; straight-through gradient.", step<StepKind::kSign>},
    {"Softmax", 1, 1, "Softmax along an axis (from opset 13) or of the rest (before).", softmax},
    {"Sub", 7, 2, "Difference, broadcast.", sub},
    {"Tanh", 1, 1, "Hyperbolic tangent.", tanh},
};

}  // namespace

std::span<const Operator> math_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
