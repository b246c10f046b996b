#include "grapeshot/core/precision.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/deadline.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace grapeshot {
namespace {

constexpr double kWorthIt = 4. / 3.;
// Smaller passes spend their time on calls.
constexpr int64_t kLeastMacs = 50'000'000;

// AMX with bfloat16: leaf 7 of CPUID, EDX bits 22 and 24.
bool multiplies_tiles() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTiles = 1u << 22 | 1u << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) == kTiles;
#else
  return false;
#endif
}

double pass_s(const Model& model, const at::Tensor& x) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = Clock::now();
    (void)model.gradient(x, Head::kOutputs, Surrogate::kLoose,
                         [](const at::Tensor& y) { return at::ones_like(y); });
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

}  // namespace

bool proposes_in_bfloat16(const Model& model, const LoopOptions& options, int64_t rows) {
  if (options.precision != "auto") return options.precision == "bfloat16";
  if (options.candidates > 0 || options.device != "cpu" || options.mutations == "portfolio" ||
      !multiplies_tiles() || rows * model.macs() < kLeastMacs) {
    return false;
  }
  const at::Tensor x = at::zeros({rows, model.inputs()});
  try {
    return pass_s(model, x) > kWorthIt * pass_s(model, x.to(at::kBFloat16));
  } catch (const std::exception&) {
    return false;  // an operator does not know the type
  }
}

}  // namespace grapeshot
