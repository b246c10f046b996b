#include "grapeshot/diff/reference.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

namespace grapeshot::diff {

std::vector<Reference> references_of(const std::vector<std::unique_ptr<Subject>>& subjects,
                                     const at::Tensor& images, int64_t rows, int64_t top_k,
                                     const Deadline& deadline) {
  std::vector<at::Tensor> order, same;
  for (const at::Tensor& part : images.split(rows)) {
    if (deadline.stopped()) return {};
    const at::Tensor y = subjects[0]->model().forward(part, Head::kLogits);
    order.push_back(y.argsort(/*stable=*/true, 1, /*descending=*/true));
    at::Tensor agreed = at::isfinite(y).all(1);
    for (size_t s = 1; s < subjects.size(); ++s) {
      const at::Tensor other = subjects[s]->model().forward(part, Head::kLogits);
      agreed = agreed.logical_and(at::isfinite(other).all(1))
                   .logical_and(other.argmax(1) == order.back().select(1, 0));
    }
    same.push_back(agreed);
  }
  if (deadline.stopped()) return {};
  const at::Tensor orders = at::cat(order).contiguous(), agreed = at::cat(same).contiguous();
  const at::Tensor norms = images.to(at::kDouble).norm(2, {1}).contiguous();
  const int64_t k = orders.size(1);
  std::vector<Reference> out;
  for (int64_t i = 0; i < images.size(0); ++i) {
    const auto* at = orders.const_data_ptr<int64_t>() + i * k;
    Reference reference;
    reference.label = at[0];
    reference.rivals.assign(at + 1, at + std::min(k, top_k + 1));
    reference.norm = norms.const_data_ptr<double>()[i];
    reference.agreed = agreed.const_data_ptr<bool>()[i];
    out.push_back(std::move(reference));
  }
  return out;
}

}  // namespace grapeshot::diff
