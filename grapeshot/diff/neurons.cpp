#include "grapeshot/diff/neurons.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"

namespace grapeshot::diff {
namespace {

// 1 for the entries index [N, k] of every row where `keep`, 0 for all others.
at::Tensor marked(const at::Tensor& like, const at::Tensor& index, const at::Tensor& keep) {
  return at::zeros_like(like).scatter_reduce(1, index, keep.to(at::kFloat), "amax");
}

// `count` of every row in proportion to `weight` [T], without replacement. A neuron without weight
// is not drawn.
at::Tensor draw(const Neurons& neurons, const at::Tensor& weight, int64_t count, Rng& rng) {
  const at::Tensor& like = neurons.response;
  const int64_t n = like.size(0), all = like.size(1);
  // Random numbers for a few neurons, not for all of them: one after another, in proportion, and
  // who has been drawn is drawn again in vain. Where weights differ much a few may be missing.
  constexpr int64_t kVain = 2, kFew = 8;
  if (all > kFew * count) {
    const at::Tensor up_to = weight.clamp_min(0.).to(at::kDouble).cumsum(0);
    const at::Tensor total = up_to[-1];
    const at::Tensor at = at::rand({n, kVain * count}, rng.generator(), at::kDouble) * total;
    const at::Tensor index =
        at::searchsorted(up_to, at, /*out_int32=*/false, /*right=*/true).clamp_max(all - 1);
    const at::Tensor again =
        (index.unsqueeze(2) == index.unsqueeze(1)).tril(-1).any(2);  // [n, kVain * count]
    const at::Tensor fresh = again.logical_not();
    return marked(like, index, fresh.logical_and(fresh.cumsum(1) <= count).logical_and(total > 0));
  }
  // The k smallest exponential times, each with its weight as rate (Efraimidis, Spirakis, 2006).
  const at::Tensor time =
      at::empty_like(like).exponential_(1., rng.generator()) / weight.clamp_min(0.);
  const auto [first, index] = at::topk(time, std::min(count, all), 1, /*largest=*/false);
  return marked(like, index, at::isfinite(first));
}

at::Tensor often(const Neurons& neurons, int64_t count, Rng& rng) {
  return draw(neurons, neurons.hits, count, rng);
}

at::Tensor rarely(const Neurons& neurons, int64_t count, Rng& rng) {
  // All have a chance while all have been hit as often.
  return draw(neurons, neurons.hits.max() - neurons.hits + 1e-3, count, rng);
}

at::Tensor heavy(const Neurons& neurons, int64_t count, Rng& rng) {
  constexpr double kShare = 0.1;  // of the neurons with a positive mean
  const at::Tensor positive = neurons.weight.masked_select(neurons.weight > 0);
  if (positive.size(0) == 0) return at::zeros_like(neurons.response);
  const int64_t top = std::max<int64_t>(
      1, static_cast<int64_t>(kShare * static_cast<double>(positive.size(0)) + 0.5));
  const at::Tensor least = std::get<0>(at::topk(positive, top)).min();
  return draw(neurons, (neurons.weight >= least).to(at::kFloat), count, rng);
}

// Each towards the other side of the threshold, where it is new.
at::Tensor near_threshold(const Neurons& neurons, int64_t count, Rng&) {
  const at::Tensor off = (neurons.response - neurons.tau).abs().nan_to_num(1e30);
  const int64_t k = std::min(count, off.size(1));
  const at::Tensor index = std::get<1>(at::topk(off, k, 1, /*largest=*/false));
  const at::Tensor towards =
      at::where(neurons.response.gather(1, index) > neurons.tau, -1., 1.).to(at::kFloat);
  return at::zeros_like(neurons.response).scatter(1, index, towards);
}

at::Tensor uncovered(const Neurons& neurons, int64_t count, Rng& rng) {
  return draw(neurons, (neurons.hits == 0).to(at::kFloat), count, rng);
}

at::Tensor nothing(const Neurons& neurons, int64_t, Rng&) {
  return at::zeros_like(neurons.response);
}

constexpr Strategy kTable[] = {
    {"1", "Neurons that were covered often, in proportion.", often},
    {"2", "Neurons that were covered rarely.", rarely},
    {"3", "Neurons with the largest mean outgoing weights, of the top tenth.", heavy},
    {"4", "Neurons near the threshold, each towards its other side.", near_threshold},
    {"random", "Neurons that no input has covered.", uncovered},
    {"none", "No neurons: predictions alone.", nothing},
};

}  // namespace

std::span<const Strategy> strategies() {
  return kTable;
}

std::vector<const Strategy*> parse_strategies(std::string_view text) {
  std::vector<const Strategy*> out;
  for (const std::string_view name : split_at('+', text)) {
    out.push_back(&find_row(strategies(), name, "strategy"));
  }
  GRAPESHOT_CHECK(!out.empty(), kInvalidArgument, "--strategy names none");
  return out;
}

at::Tensor select_neurons(const std::vector<const Strategy*>& chosen, const Neurons& neurons,
                          int64_t count, Rng& rng) {
  at::Tensor out = at::zeros_like(neurons.response);
  if (out.size(1) == 0) return out;
  const auto parts = std::ssize(chosen);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t share = count / parts + (i < count % parts ? 1 : 0);
    if (share > 0) out += chosen[static_cast<size_t>(i)]->select(neurons, share, rng);
  }
  return out.clamp_(-1., 1.);
}

}  // namespace grapeshot::diff
