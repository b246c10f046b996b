#include "grapeshot/core/scale.h"

#include <ATen/ATen.h>

#include "grapeshot/base/table.h"

namespace grapeshot {
namespace {

at::Tensor fixed(const at::Tensor& lo, const at::Tensor&, const ScaleOptions& options) {
  return at::full({1, 1}, options.eta, lo.options());
}

at::Tensor iso(const at::Tensor& lo, const at::Tensor& hi, const ScaleOptions& options) {
  return ((hi - lo).mean() * options.factor).view({1, 1});
}

at::Tensor ani(const at::Tensor& lo, const at::Tensor& hi, const ScaleOptions& options) {
  return (hi - lo) * options.factor;
}

constexpr Scale kTable[] = {
    {"fixed", "The same step everywhere, --eta.", fixed, false},
    {"iso", "One step for the batch: the mean range times --scale-factor (paper's Eq. 12).", iso,
     false},
    {"ani", "A step per row and coordinate: its range times --scale-factor (Eq. 13).", ani, true},
};

}  // namespace

std::span<const Scale> scales() {
  return kTable;
}

const Scale& find_scale(std::string_view name) {
  return find_row(scales(), name, "scale");
}

}  // namespace grapeshot
