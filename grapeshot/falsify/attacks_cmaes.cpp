// grapeshot/falsify/attacks_cmaes.cpp: evolution with a covariance that learns the shape of a thin
// region.
//
// "The CMA evolution strategy: a tutorial", Hansen, 2016, with its default parameters and restarts.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

#include "grapeshot/falsify/attack.h"

namespace grapeshot::falsify {
namespace {

// One run in the unit cube of an instance's free inputs, in float64.
struct Run {
  at::Tensor mean, covariance, path_c, path_s, axes, scales;
  double sigma = 0., best = 0.;
  int64_t region = -1, generation = 0, stalled = 0;
};

void restart(Run& run, Search& search, int64_t instance, int64_t n) {
  const std::vector<int64_t>& free = search.features(instance).free;
  const Stand stand = search.near_of(instance, Search::kNear);
  const auto pick = search.memory<int64_t>("cmaes-turn", instance)++ % Search::kNear;
  const auto at = stand.rows.spec;
  const at::Tensor index = at::tensor(free, at::kLong);
  const at::Tensor width = (at.hi - at.lo).select(0, pick).index_select(0, index).to(at::kDouble);
  const at::Tensor x = (stand.x - at.lo).select(0, pick).index_select(0, index).to(at::kDouble);
  run.mean = at::where(width > 0, x / width.clamp_min(1e-300), 0.5);
  run.region = stand.rows.region.select(0, pick).item<int64_t>();
  run.covariance = at::eye(n, at::kDouble);
  run.axes = run.covariance;
  run.scales = at::ones({n}, at::kDouble);
  run.path_c = run.path_s = at::zeros({n}, at::kDouble);
  run.sigma = 0.3 * std::pow(10., -2. * coins(1, search.rng()).item<double>());
  run.generation = run.stalled = 0;
  run.best = std::numeric_limits<double>::infinity();
}

// One generation of `lambda` inputs.
void generation(Run& run, Search& search, int64_t instance, int64_t lambda) {
  const std::vector<int64_t>& free = search.features(instance).free;
  const auto n = static_cast<int64_t>(free.size());
  const auto d = static_cast<double>(n);
  const int64_t mu = lambda / 2;
  const at::Tensor raw =
      std::log(static_cast<double>(mu) + 0.5) - at::log(at::arange(1, mu + 1, at::kDouble));
  const at::Tensor weights = raw / raw.sum();
  const double mu_eff = 1. / weights.square().sum().item<double>();
  const double cs = (mu_eff + 2.) / (d + mu_eff + 5.);
  const double damping = 1. + 2. * std::max(0., std::sqrt((mu_eff - 1.) / (d + 1.)) - 1.) + cs;
  const double cc = (4. + mu_eff / d) / (d + 4. + 2. * mu_eff / d);
  const double c1 = 2. / (std::pow(d + 1.3, 2) + mu_eff);
  const double cm =
      std::min(1. - c1, 2. * (mu_eff - 2. + 1. / mu_eff) / (std::pow(d + 2., 2) + mu_eff));
  const double expected = std::sqrt(d) * (1. - 1. / (4. * d) + 1. / (21. * d * d));

  const at::Tensor z =
      at::randn({lambda, n}, search.rng().generator(), at::TensorOptions().dtype(at::kDouble));
  const at::Tensor step = (z * run.scales).mm(run.axes.t());
  const at::Tensor u = (run.mean + run.sigma * step).clamp(0., 1.);
  const Rows rows = search.rows_of(at::full({lambda}, run.region, at::kLong));
  at::Tensor share = at::full_like(rows.spec.lo, 0.5);
  share.index_copy_(1, at::tensor(free, at::kLong), u.to(at::kFloat));
  const at::Tensor margin =
      search.evaluate(project(at::lerp(rows.spec.lo, rows.spec.hi, share), rows.spec), rows);
  if (search.over()) return;
  // Outside of the cube a point counts as where it was moved to, and is a little worse for it.
  const at::Tensor outside = (run.mean + run.sigma * step - u).square().sum(1);
  const at::Tensor spread = margin.to(at::kDouble).std(0, true, false).nan_to_num(1., 1., 1.);
  const at::Tensor order =
      (margin.to(at::kDouble) + spread * outside).argsort(true, 0, false).slice(0, 0, mu);
  const at::Tensor y =
      weights.unsqueeze(0).mm(((u - run.mean) / run.sigma).index_select(0, order)).squeeze(0);
  run.mean = run.mean + run.sigma * y;
  const at::Tensor whitened = run.axes.mv((run.axes.t().mv(y)) / run.scales.clamp_min(1e-300));
  run.path_s = (1. - cs) * run.path_s + std::sqrt(cs * (2. - cs) * mu_eff) * whitened;
  const double length = run.path_s.norm().item<double>();
  ++run.generation;
  const double cap = (1.4 + 2. / (d + 1.)) * expected *
                     std::sqrt(1. - std::pow(1. - cs, 2. * static_cast<double>(run.generation)));
  const double on = length < cap ? 1. : 0.;
  run.path_c = (1. - cc) * run.path_c + on * std::sqrt(cc * (2. - cc) * mu_eff) * y;
  const at::Tensor chosen = ((u - run.mean + run.sigma * y) / run.sigma).index_select(0, order);
  run.covariance = (1. - c1 - cm) * run.covariance + c1 * at::outer(run.path_c, run.path_c) +
                   cm * (chosen * weights.unsqueeze(1)).t().mm(chosen);
  run.sigma = std::min(1., run.sigma * std::exp(cs / damping * (length / expected - 1.)));
  const auto eigen = at::linalg_eigh(0.5 * (run.covariance + run.covariance.t()));
  run.scales = std::get<0>(eigen).clamp_min(1e-20).sqrt();
  run.axes = std::get<1>(eigen);
  const double lowest = margin.min().item<double>();
  run.stalled = lowest < run.best ? 0 : run.stalled + 1;
  run.best = std::min(run.best, lowest);
}

}  // namespace

void cmaes(Search& search) {
  for (const int64_t instance : search.round()) {
    const auto n = static_cast<int64_t>(search.features(instance).free.size());
    Run& run = search.memory<Run>("cmaes", instance);
    const int64_t lambda =
        std::clamp<int64_t>(search.rows_for(40 * std::ssize(search.round())), 8, 64);
    for (int64_t g = 0; g < 40 && !search.over(); ++g) {
      const bool spent = run.stalled > 20 + n || run.sigma < 1e-9;
      if (run.region < 0 || spent) restart(run, search, instance, n);
      generation(run, search, instance, lambda);
    }
  }
}

}  // namespace grapeshot::falsify
