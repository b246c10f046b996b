// grapeshot/io/onnx/ops_loss.cpp: losses of classifiers.
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

// Of log-probabilities [N, B, C, ...] and the classes [N, B, ...] of batch's second input, weighted
// by its third.
at::Tensor likelihood_loss(const Call& call, const Batch& batch, const at::Tensor& x) {
  const std::string_view reduction = call.node.s("reduction", "mean");
  GRAPESHOT_CHECK(reduction == "none" || reduction == "sum" || reduction == "mean", kUnsupported,
                  "reduction is '", reduction, "'");
  at::Tensor target = batch.in[1].to(at::kLong);
  GRAPESHOT_CHECK(x.dim() >= 3 && target.dim() == x.dim() - 1, kInvalidArgument,
                  "the classes have ", target.dim() - 1, " axes, the input ", x.dim() - 1);
  at::Tensor weight = at::ones(target.sizes(), x.options());
  if (const Attribute* ignored = call.node.find("ignore_index")) {
    const at::Tensor skip = target == ignored->i;
    weight = weight.masked_fill(skip, 0.);
    target = target.masked_fill(skip, 0);
  }
  if (batch.has(2)) {
    const at::Tensor& weights = call.in[2].t;
    GRAPESHOT_CHECK(weights.dim() == 1 && weights.size(0) == x.size(2), kInvalidArgument,
                    "weights of shape ", weights.sizes(), " for ", x.size(2), " classes");
    weight = weight * weights.take(target);
  }
  const at::Tensor picked = x.gather(2, target.unsqueeze(2)).squeeze(2);
  // What is ignored may be infinite.
  const at::Tensor loss = at::where(weight == 0, at::zeros({}, x.options()), -picked * weight);
  if (reduction == "none") return loss;
  const at::Tensor sum = loss.flatten(1).sum(1);
  return reduction == "sum" ? sum : sum / weight.flatten(1).sum(1);
}

Values negative_log_likelihood(const Call& call) {
  const Batch batch(call);
  return {batch.value(likelihood_loss(call, batch, batch.in[0]))};
}

Values softmax_cross_entropy(const Call& call) {
  const Batch batch(call);
  GRAPESHOT_CHECK(batch.in[0].dim() >= 3, kInvalidArgument, "the input has no axis of classes");
  const at::Tensor x = batch.in[0].log_softmax(2);
  return {batch.value(likelihood_loss(call, batch, x)), batch.value(x)};
}

constexpr Operator kTable[] = {
    {"NegativeLogLikelihoodLoss", 12, 2, 0b11, "Minus the log-probability of a class, weighted.",
     negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", 12, 2, 0b11, "The same of the logarithm of softmax.",
     softmax_cross_entropy},
};

}  // namespace

std::span<const Operator> loss_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
