// grapeshot/cli/timing.cpp: see timing.h.
#include "grapeshot/cli/timing.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/core/loop.h"
#include "grapeshot/core/rng.h"

namespace grapeshot::cli {

double forward_seconds(const Model& model, int64_t rows, double budget) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  Rng rng(uint64_t{5});
  const at::Tensor x = at::rand({rows, model.inputs()}, rng.generator());
  const int64_t piece = even_pieces(rows, micro_batch(model));
  const Clock::time_point start = Clock::now();
  double best = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 4 || seconds_since(start) < budget; ++pass) {
    const Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < rows; i += piece) {
      (void)model.forward(x.slice(0, i, std::min(i + piece, rows)), Head::kOutputs);
    }
    if (pass > 0) best = std::min(best, seconds_since(begin));  // the first one warms up
  }
  return best;
}

}  // namespace grapeshot::cli
