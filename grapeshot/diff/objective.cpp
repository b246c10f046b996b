#include "grapeshot/diff/objective.h"

#include <ATen/ATen.h>

#include "grapeshot/base/table.h"

namespace grapeshot::diff {
namespace {

// Of sum_k of_class_k softmax(y)_k.
at::Tensor classes(const at::Tensor& y, const at::Tensor& of_class) {
  const at::Tensor p = at::softmax(y, 1);
  const at::Tensor mean = (p * of_class).sum(1, true);
  return p * (of_class - mean);
}

// Of the second largest output less the largest.
at::Tensor boundary(const at::Tensor& y, const at::Tensor&) {
  const at::Tensor best = std::get<1>(at::topk(y, 2, 1));
  const at::Tensor sign = at::tensor({-1.f, 1.f}).expand(best.sizes());
  return at::zeros_like(y).scatter(1, best, sign);
}

// Of the magnitude of the largest one.
at::Tensor magnitude(const at::Tensor& y, const at::Tensor&) {
  const at::Tensor largest = y.abs().argmax(1, /*keepdim=*/true);
  return at::zeros_like(y).scatter(1, largest, y.gather(1, largest).sign());
}

constexpr Objective kTable[] = {
    {"classes", "The runner-up classes up, the image's own down; of several models, in one alone.",
     classes, false},
    {"boundary", "The two largest outputs towards each other.", boundary, false},
    {"magnitude", "The output and the neuron of the largest magnitude away from 0.", magnitude,
     true},
};

}  // namespace

std::span<const Objective> objectives() {
  return kTable;
}

const Objective& find_objective(std::string_view name) {
  return find_row(objectives(), name, "objective");
}

}  // namespace grapeshot::diff
