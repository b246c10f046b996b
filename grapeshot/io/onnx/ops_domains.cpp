// grapeshot/io/onnx/ops_domains.cpp: operators of ONNX's other domains; names begin with theirs.
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

// Of a vector ONNX makes a matrix of one row.
Values array_feature_extractor(const Call& call) {
  const Value& x = call.in[0];
  GRAPESHOT_CHECK(x.rank() >= 1, kInvalidArgument, "the input has no axis");
  const at::Tensor index = wrapped(call.in[1].t.flatten(), x.size(x.rank() - 1));
  const Value y{x.t.index_select(-1, index), x.rows};
  return {x.rank() > 1 ? y : reshaped(y, {1, index.numel()})};
}

Values binarizer(const Call& call) {
  const Value& x = call.in[0];
  return {Value{(x.t > call.node.f("threshold", 0.f)).to(x.t.scalar_type()), x.rows}};
}

// One tensor that an optimizer changes, with its gradient and what is remembered of it.
using Step = std::vector<at::Tensor> (*)(const Call& call, double rate, double step,
                                         const std::vector<at::Tensor>& in);

// The inputs are the rate, the number of steps so far, and then all tensors, all gradients, and so
// on, `kKinds` of them; the outputs are the tensors and what is remembered, in the same order.
template <size_t kKinds, Step kStep>
Values optimizer(const Call& call) {
  const double rate = constant_number(call, 0), step = constant_number(call, 1);
  const size_t count = (call.in.size() - 2) / kKinds;
  GRAPESHOT_CHECK(count * kKinds + 2 == call.in.size(), kInvalidArgument, "there are ",
                  call.in.size(), " inputs, not 2 and ", kKinds, " for each tensor");
  Values out((kKinds - 1) * count);
  for (size_t i = 0; i < count; ++i) {
    std::vector<at::Tensor> in;
    for (size_t k = 0; k < kKinds; ++k) in.push_back(call.in[2 + k * count + i].t);
    const std::vector<at::Tensor> changed = kStep(call, rate, step, in);
    for (size_t k = 0; k + 1 < kKinds; ++k) out[k * count + i] = {changed[k], false};
  }
  return out;
}

at::Tensor regularized(const Call& call, const std::vector<at::Tensor>& in) {
  return in[1] + in[0] * call.node.f("norm_coefficient", 0.f);
}

// Duchi et al., 2011.
std::vector<at::Tensor> adagrad(const Call& call, double rate, double step,
                                const std::vector<at::Tensor>& in) {
  const at::Tensor g = regularized(call, in), squares = in[2] + g * g;
  const double slower = rate / (1. + step * call.node.f("decay_factor", 0.f));
  return {in[0] - slower * g / (squares.sqrt() + call.node.f("epsilon", 1e-6f)), squares};
}

// Kingma and Ba, 2015.
std::vector<at::Tensor> adam(const Call& call, double rate, double step,
                             const std::vector<at::Tensor>& in) {
  const double alpha = call.node.f("alpha", 0.9f), beta = call.node.f("beta", 0.999f);
  const at::Tensor g = regularized(call, in);
  const at::Tensor mean = alpha * in[2] + (1. - alpha) * g;
  const at::Tensor square = beta * in[3] + (1. - beta) * g * g;
  if (step > 0) rate *= std::sqrt(1. - std::pow(beta, step)) / (1. - std::pow(alpha, step));
  const at::Tensor x = in[0] - rate * mean / (square.sqrt() + call.node.f("epsilon", 1e-6f));
  return {x * (1. - call.node.f("norm_coefficient_post", 0.f)), mean, square};
}

// Polyak, 1964, or as Nesterov, 1983.
std::vector<at::Tensor> momentum(const Call& call, double rate, double step,
                                 const std::vector<at::Tensor>& in) {
  const double alpha = call.node.f("alpha", 0.f), beta = call.node.f("beta", 0.f);
  const at::Tensor g = regularized(call, in);
  const at::Tensor speed = alpha * in[2] + (step > 0 ? beta : 1.) * g;
  const bool nesterov = call.node.s("mode", "standard") == "nesterov";
  return {in[0] - rate * (nesterov ? g + alpha * speed : speed), speed};
}

constexpr Operator kTable[] = {
    {"ai.onnx.ml.ArrayFeatureExtractor", 1, 2, kFirstInput, "Entries of the last axis by index.",
     array_feature_extractor},
    {"ai.onnx.ml.Binarizer", 1, 1, kEveryInput, "1 above a threshold, 0 elsewhere.", binarizer},
    {"ai.onnx.preview.training.Adagrad", 1, 5, kNoInput, "A step of Adagrad.",
     optimizer<3, adagrad>},
    {"ai.onnx.preview.training.Adam", 1, 6, kNoInput, "A step of Adam.", optimizer<4, adam>},
    {"ai.onnx.preview.training.Momentum", 1, 5, kNoInput,
     "A step of gradient descent with momentum.", optimizer<3, momentum>},
};

}  // namespace

std::span<const Operator> domain_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
