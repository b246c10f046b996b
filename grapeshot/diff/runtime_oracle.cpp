#include "grapeshot/diff/runtime_oracle.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/core/denormals.h"
#include "grapeshot/core/rng.h"

namespace grapeshot::diff {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [n]: the largest |a - b| of a row, 0 where both are the same, be it infinite or NaN; infinite
// where one alone is.
at::Tensor apart(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor same = (a == b).logical_or(at::isnan(a).logical_and(at::isnan(b)));
  const at::Tensor off = (a - b).abs().nan_to_num(kInfinity, kInfinity);
  return at::where(same, at::zeros_like(off), off).amax(-1);
}

// [n]: of outputs [n, K]; what differences are measured in.
at::Tensor magnitude(const at::Tensor& y) {
  const at::Tensor largest = y.abs().amax(-1);
  return at::where(largest > 0, largest, at::ones_like(largest));
}

// Inputs [16, D] float64 that rounding could take for x [D]: every entry off by at most four units
// of float32's last place.
at::Tensor neighbours(const at::Tensor& x) {
  constexpr int64_t kProbes = 16;
  Rng rng(0);
  const at::Tensor exact = x.to(at::kDouble);
  const at::Tensor way = at::rand({kProbes, x.size(0)}, rng.generator(), exact.options()) * 2 - 1;
  return exact * (1 + way * (4 * 0x1p-23));
}

}  // namespace

at::Tensor RuntimeOracle::propose(const at::Tensor& x) const {
  const at::Tensor ours = model_.forward(x, Head::kOutputs).to(at::kDouble), theirs = theirs_(x);
  const at::Tensor agree = apart(ours, theirs) <= tolerance_ * magnitude(theirs);
  return agree.logical_and(ours.argmax(1) == theirs.argmax(1)).logical_not();
}

Comparison RuntimeOracle::compare(const at::Tensor& x) const {
  const FlushDenormals keep_denormals(false);
  const at::Tensor row = x.unsqueeze(0);
  Comparison out;
  out.ours = model_.forward(row, Head::kOutputs).to(at::kDouble)[0];
  out.theirs = theirs_(row)[0];
  out.exact = model_.evaluate(row.to(at::kDouble))[0];
  out.our_class = out.ours.argmax().item<int64_t>();
  out.their_class = out.theirs.argmax().item<int64_t>();
  out.exact_class = out.exact.argmax().item<int64_t>();
  if (!at::isfinite(out.exact).all().item<bool>()) return out;
  const double unit = magnitude(out.exact).item<double>();
  const auto off = [&](const at::Tensor& a, const at::Tensor& b) {
    return apart(a, b).max().item<double>() / unit;
  };
  out.difference = off(out.ours, out.theirs);
  out.our_error = off(out.ours, out.exact);
  out.their_error = off(out.theirs, out.exact);
  const at::Tensor best = std::get<0>(at::topk(out.exact, 2));
  out.gap = (best[0] - best[1]).item<double>() / unit;
  const at::Tensor as_read = model_.evaluate(row)[0].to(at::kDouble);
  const double rounding =
      std::max(4 * off(as_read, out.exact), off(model_.evaluate(neighbours(x)), out.exact));
  out.limit = std::max(tolerance_, rounding > kRounding ? rounding : 0.);
  out.values = out.difference > out.limit;
  out.classes = out.our_class != out.their_class &&
                std::max({out.gap, out.our_error, out.their_error}) > out.limit;
  return out;
}

}  // namespace grapeshot::diff
