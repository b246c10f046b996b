#include "grapeshot/core/sign_step.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "grapeshot/base/clones.h"

namespace grapeshot {
namespace {

inline float moved(float x, float g, float step, float lo, float hi) {
  const float up = g > 0.f ? step : 0.f, down = g < 0.f ? step : 0.f;
  const float to = x + (up - down);
  // As at::clamp does: the upper bound wins, NaN stays.
  const float above = to < lo ? lo : to;
  return above > hi ? hi : above;
}

GRAPESHOT_CLONES void step_row(float* x, const float* g, const float* step, float scale,
                               const float* lo, const float* hi, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = moved(x[i], g[i], scale * step[i], lo[i], hi[i]);
}

GRAPESHOT_CLONES void range_step_row(float* x, const float* g, float range, float scale,
                                     const float* lo, const float* hi, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] = moved(x[i], g[i], scale * ((hi[i] - lo[i]) * range), lo[i], hi[i]);
  }
}

GRAPESHOT_CLONES void even_step_row(float* x, const float* g, float step, const float* lo,
                                    const float* hi, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = moved(x[i], g[i], step, lo[i], hi[i]);
}

bool simple(const at::Tensor& t) {
  return t.device().is_cpu() && t.scalar_type() == at::kFloat && t.is_contiguous();
}

}  // namespace

void sign_step(at::Tensor& x, const at::Tensor& gradient, const StepSize& size, double scale,
               const at::Tensor& lo, const at::Tensor& hi) {
  const int64_t n = x.size(0), d = x.size(1);
  const at::Tensor& step = size.eta;
  if (!simple(x) || !simple(gradient) || !simple(lo) || !simple(hi) || !simple(step) ||
      step.dim() != 2 || lo.sizes() != x.sizes() || hi.sizes() != x.sizes() ||
      (size.row.defined() && !simple(size.row))) {
    const at::Tensor reach = size.row.defined() ? step * size.row.unsqueeze(1) : step;
    at::clamp_out(x, at::addcmul(x, reach * scale, gradient.sign().nan_to_num(0.)), lo, hi);
    return;
  }
  auto* to = x.mutable_data_ptr<float>();
  const auto *g = gradient.const_data_ptr<float>(), *s = step.const_data_ptr<float>(),
             *least = lo.const_data_ptr<float>(), *most = hi.const_data_ptr<float>(),
             *of_row = size.row.defined() ? size.row.const_data_ptr<float>() : nullptr;
  const int64_t row = step.size(0) == 1 ? 0 : step.size(1);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = i * d;
    const float factor = static_cast<float>(scale) * (of_row ? of_row[i] : 1.f);
    if (step.size(1) == 1) {
      even_step_row(to + at, g + at, factor * s[i * row], least + at, most + at, d);
    } else if (size.range > 0.) {
      range_step_row(to + at, g + at, static_cast<float>(size.range), factor, least + at, most + at,
                     d);
    } else {
      step_row(to + at, g + at, s + i * row, factor, least + at, most + at, d);
    }
  }
}

void keep_better(at::Tensor best_x, at::Tensor best_margin, const at::Tensor& x,
                 const at::Tensor& margin) {
  if (!simple(best_x) || !simple(best_margin) || !simple(x) || !simple(margin)) {
    at::where_out(best_x, (margin < best_margin).unsqueeze(1), x, best_x);
    at::minimum_out(best_margin, best_margin, margin);
    return;
  }
  const int64_t d = x.size(1);
  auto *to = best_x.mutable_data_ptr<float>(), *best = best_margin.mutable_data_ptr<float>();
  const auto *from = x.const_data_ptr<float>(), *m = margin.const_data_ptr<float>();
  for (int64_t i = 0; i < x.size(0); ++i) {
    if (!(m[i] < best[i])) continue;
    best[i] = m[i];
    std::memcpy(to + i * d, from + i * d, static_cast<size_t>(d) * sizeof(float));
  }
}

}  // namespace grapeshot
