#include "grapeshot/io/onnx/surrogate.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace grapeshot::onnx {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor value_of(const at::Tensor& x, StepKind kind) {
  switch (kind) {
    case StepKind::kSign: return at::sign(x);
    // (x >= 0) * 2 - 1, two cheap passes; NaN becomes -1.
    case StepKind::kStep: return at::ge(x, 0).to(x.scalar_type()).mul_(2).sub_(1);
    case StepKind::kRound: return at::round(x);
    case StepKind::kFloor: return at::floor(x);
  }
  return x;
}

class StraightThrough : public torch::autograd::Function<StraightThrough> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t kind,
                            bool bounded) {
    if (bounded) {
      const at::Tensor size = x.abs();
      context->save_for_backward({at::le(size, size.mean())});
    }
    return value_of(x, static_cast<StepKind>(kind));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {saved.empty() ? gradients[0] : gradients[0] * saved[0], at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor step_function(const at::Tensor& x, StepKind kind, Surrogate surrogate) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return value_of(x, kind);
  const bool boundable = kind == StepKind::kSign || kind == StepKind::kStep;
  return StraightThrough::apply(x, static_cast<int64_t>(kind),
                                boundable && surrogate == Surrogate::kBounded);
}

}  // namespace grapeshot::onnx
