#include "grapeshot/core/confirm.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "grapeshot/core/denormals.h"

namespace grapeshot {
namespace {

std::vector<double> outputs(const Model& model, const at::Tensor& x) {
  const at::Tensor y = model.evaluate(x).to(at::kDouble).contiguous();
  const auto* data = y.const_data_ptr<double>();
  return {data, data + y.numel()};
}

}  // namespace

Confirmation confirm(const Model& model, const Property& property, std::span<const float> x) {
  const FlushDenormals keep_denormals(false);
  const auto size = static_cast<int64_t>(x.size());
  const at::Tensor row = at::from_blob(const_cast<float*>(x.data()), {1, size}, at::kFloat).clone();
  Confirmation c;
  c.y32 = outputs(model, row);
  c.y64 = outputs(model, row.to(at::kDouble));
  c.verdict32 = judge(property, x, c.y32);
  c.verdict64 = judge(property, x, c.y64);
  double difference = 0., largest = 0.;
  for (size_t i = 0; i < c.y32.size(); ++i) {
    difference = std::max(difference, std::abs(c.y32[i] - c.y64[i]));
    largest = std::max(largest, std::abs(c.y64[i]));
  }
  // Equal outputs mean that nothing was rounded (integers, as binarized networks compute).
  if (difference > 0.) c.rounding = std::max(4. * difference, 2e-6 * largest);
  c.holds = c.verdict32.violates && c.verdict64.violates;
  c.clear = c.holds && std::max(c.verdict32.margin, c.verdict64.margin) <= -c.rounding;
  return c;
}

}  // namespace grapeshot
