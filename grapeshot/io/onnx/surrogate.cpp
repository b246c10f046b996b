#include "grapeshot/io/onnx/surrogate.h"

#include <cmath>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "grapeshot/base/clones.h"

namespace grapeshot::onnx {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Binarized nets spend more time in comparisons that go through bool tensors than in their small
// convolutions, so the two steps that matter are single passes over memory. Both tensors of a pass
// have the same strides without gaps, so that the order of the elements does not matter.
bool is_plain(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.is_non_overlapping_and_dense();
}

GRAPESHOT_CLONES
void steps(const float* __restrict x, float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = x[i] >= 0.f ? 1.f : -1.f;  // NaN becomes -1
}

// g where |x| <= bound, 0 elsewhere.
GRAPESHOT_CLONES
void bounded(const float* __restrict g, const float* __restrict x, float bound,
             float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = std::fabs(x[i]) <= bound ? g[i] : 0.f;
}

GRAPESHOT_CLONES
double total_size(const float* x, int64_t n) {
  constexpr int64_t kWidth = 64;  // independent sums, so that the compiler may use vectors
  float sums[kWidth] = {};
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    for (int64_t k = 0; k < kWidth; ++k) sums[k] += std::fabs(x[i + k]);
  }
  double total = 0.;
  for (; i < n; ++i) total += std::fabs(x[i]);
  for (const float sum : sums) total += sum;
  return total;
}

at::Tensor step_of(const at::Tensor& x) {
  if (!is_plain(x)) return at::ge(x, 0).to(x.scalar_type()).mul_(2).sub_(1);
  at::Tensor out = at::empty_like(x);
  steps(x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.numel());
  return out;
}

// Whether row i is the i-th part of the memory.
bool rows_in_order(const at::Tensor& x) {
  return is_plain(x) && x.dim() > 0 && x.numel() > 0 && x.stride(0) * x.size(0) == x.numel();
}

// `gradient` where |x| is at most `windows` [N] of its row or, where that is empty, the mean of its
// row; 0 elsewhere.
at::Tensor where_bounded(const at::Tensor& gradient, const at::Tensor& x,
                         const at::Tensor& windows) {
  if (!rows_in_order(x) || !is_plain(gradient) || gradient.strides() != x.strides()) {
    if (x.numel() == 0) return gradient;
    const at::Tensor size = x.abs();
    at::Tensor bound = windows.numel() > 0 ? windows.to(x.scalar_type()) : size.flatten(1).mean(1);
    while (bound.dim() < x.dim()) bound = bound.unsqueeze(-1);
    return gradient.masked_fill(size > bound, 0);
  }
  at::Tensor out = at::empty_like(x);
  const auto* g = gradient.const_data_ptr<float>();
  const auto* in = x.const_data_ptr<float>();
  const auto* given = windows.numel() > 0 ? windows.const_data_ptr<float>() : nullptr;
  auto* to = out.mutable_data_ptr<float>();
  const int64_t per_row = x.stride(0);
  for (int64_t row = 0; row < x.numel(); row += per_row) {
    const double mean = given ? 0. : total_size(in + row, per_row) / static_cast<double>(per_row);
    const float bound = given ? given[row / per_row] : static_cast<float>(mean);
    bounded(g + row, in + row, bound, to + row, per_row);
  }
  return out;
}

at::Tensor value_of(const at::Tensor& x, StepKind kind) {
  switch (kind) {
    case StepKind::kSign:
      return at::sign(x);
    case StepKind::kStep:
      return step_of(x);
    case StepKind::kRound:
      return at::round(x);
    case StepKind::kFloor:
      return at::floor(x);
    case StepKind::kCeil:
      return at::ceil(x);
  }
  return x;
}

class StraightThrough : public torch::autograd::Function<StraightThrough> {
 public:
  // With neither bounds nor `windows` it lets everything through.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t kind,
                            bool bounded, const at::Tensor& windows) {
    if (bounded) context->save_for_backward({x, windows});
    return value_of(x, static_cast<StepKind>(kind));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor g = gradients[0];
    if (!saved.empty()) g = where_bounded(g, saved[0], saved[1]);
    return {g, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor step_gradient(const at::Tensor& x, StepKind kind, const Surrogate& surrogate,
                         const at::Tensor& gradient) {
  const bool boundable = kind == StepKind::kSign || kind == StepKind::kStep;
  if (!boundable || surrogate.kind == Surrogate::kLoose) return gradient;
  at::Tensor windows = at::empty({0});
  if (surrogate.kind == Surrogate::kWindowed) {
    windows = surrogate.windows.select(1, surrogate.sign).contiguous();
  }
  const bool alike = !rows_in_order(x) || gradient.strides() == x.strides();
  return where_bounded(alike ? gradient : at::empty_like(x).copy_(gradient), x, windows);
}

at::Tensor step_function(const at::Tensor& x, StepKind kind, const Surrogate& surrogate) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return value_of(x, kind);
  const bool boundable = kind == StepKind::kSign || kind == StepKind::kStep;
  at::Tensor windows = at::empty({0});  // autograd takes no undefined tensor
  if (boundable && surrogate.kind == Surrogate::kWindowed) {
    windows = surrogate.windows.select(1, surrogate.sign).contiguous();
  }
  return StraightThrough::apply(x, static_cast<int64_t>(kind),
                                boundable && surrogate.kind != Surrogate::kLoose, windows);
}

}  // namespace grapeshot::onnx
