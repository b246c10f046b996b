#include "grapeshot/falsify/minimize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "grapeshot/base/table.h"
#include "grapeshot/core/campaign.h"
#include "grapeshot/falsify/portfolio.h"

namespace grapeshot::falsify {
namespace {

// Of the distance: closer is not searched for.
constexpr double kEnough = 1e-3;

double largest_change(const at::Tensor& x, const at::Tensor& original) {
  return (x - original).abs().max().item<double>();
}

double length_of(BallNorm norm, const at::Tensor& x, const at::Tensor& original) {
  const at::Tensor a = x.to(at::kFloat).contiguous(), b = original.to(at::kFloat).contiguous();
  const auto size = static_cast<size_t>(a.numel());
  return distance(norm, {a.const_data_ptr<float>(), size}, {b.const_data_ptr<float>(), size},
                  nullptr);
}

double changed_features(const at::Tensor& x, const at::Tensor& original) {
  return static_cast<double>((x != original).sum().item<int64_t>());
}

Confirmation judge_input(const Oversized& f, const at::Tensor& x) {
  const at::Tensor row = x.contiguous();
  return confirm(f.model, f.property,
                 {row.const_data_ptr<float>(), static_cast<size_t>(row.numel())});
}

Smaller begin(const Oversized& f, const Norm& norm) {
  Smaller out{f.x, judge_input(f, f.x), norm.distance(f.x, f.original), 0., 0};
  out.before = out.distance;
  return out;
}

// Takes x when it is as good a counterexample and closer.
bool improve(Smaller& best, const Oversized& f, const Norm& norm, const at::Tensor& x) {
  const double distance = norm.distance(x, f.original);
  if (!(distance < best.distance)) return false;
  Confirmation c = judge_input(f, x);
  if (!c.holds || (best.confirmation.clear && !c.clear)) return false;
  best.x = x;
  best.confirmation = std::move(c);
  best.distance = distance;
  return true;
}

// The property in the ball of radius `eps` around the original; what inputs keep to besides is
// kept, but for a ball of another norm, which only the judgement of what is found knows.
Property nearby(const Oversized& f, BallNorm norm, double eps) {
  Property out = f.property;
  const at::Tensor original = f.original.contiguous();
  const auto* o = original.const_data_ptr<float>();
  const std::vector<double> home(o, o + original.numel());
  for (Region& region : out.regions) {
    for (size_t i = 0; i < region.box.lo.size(); ++i) {
      const double centre = static_cast<double>(o[i]);
      region.box.lo[i] = std::max(region.box.lo[i], static_cast<float>(centre - eps));
      region.box.hi[i] = std::min(region.box.hi[i], static_cast<float>(centre + eps));
      region.box.empty = region.box.empty || region.box.lo[i] > region.box.hi[i];
    }
    Box& box = region.box;
    if (box.set.grid && !box.empty) box.empty = !snap_bounds(*box.set.grid, box.lo, box.hi);
    const Ball ball = std::exchange(box.set.ball, {});
    const std::vector<double> centre(ball.centre.begin(), ball.centre.end());
    if (norm != BallNorm::kNone) {
      box.set.ball = inner_ball(norm, home, eps, box.set, box.lo, box.hi);
    } else if (ball.norm != BallNorm::kNone) {
      box.set.ball = inner_ball(ball.norm, centre, ball.radius, box.set, box.lo, box.hi);
    }
    box.empty = box.empty || (box.set.ball.norm != BallNorm::kNone && !(box.set.ball.radius > 0.));
  }
  std::erase_if(out.regions, [](const Region& region) { return region.box.empty; });
  return out;
}

class FirstFinding final : public CampaignObserver {
 public:
  void on_finding(const Finding& finding) override { x = finding.x; }
  void on_progress(const Progress&) override {}
  at::Tensor x;
};

// A search of the smaller ball.
at::Tensor search_nearby(const Oversized& f, BallNorm norm, double eps, double seconds) {
  const Property smaller = nearby(f, norm, eps);
  if (smaller.regions.empty()) return {};
  LoopOptions options;
  options.mutations = "portfolio";
  options.criterion = "none";
  options.seconds = seconds;
  options.seed = f.seed;
  CampaignParts parts;
  parts.make = make_portfolio;
  FirstFinding found;
  const std::atomic<bool> never = false;
  (void)run_campaign({{&f.model, {{&smaller, {}}}}}, options, found, f.stop ? *f.stop : never,
                     parts);
  return found.x;
}

Smaller minimize_radius(const Oversized& f, BallNorm by) {
  const Norm& norm = find_norm(name_of(by));
  const Deadline deadline(f.seconds, f.stop);
  const Clock::time_point start = Clock::now();
  Smaller best = begin(f, norm);
  double far = 0.;  // nothing was found that close
  while (!deadline.expired() && best.distance > far + kEnough * best.distance) {
    const double eps = 0.5 * (far + best.distance);
    ++best.tries;
    // Perhaps it is on the way to the original already.
    const at::Tensor change = best.x - f.original;
    const at::Tensor moved = f.original + (by == BallNorm::kNone ? change.clamp(-eps, eps)
                                                                 : change * (eps / best.distance));
    if (improve(best, f, norm, moved)) continue;
    const double left = f.seconds - seconds_since(start);
    if (left <= 0.) break;  // no limit is what a search would take that for
    const at::Tensor x = search_nearby(f, by, eps, std::min(left, std::max(0.3, 0.1 * f.seconds)));
    if (!x.defined() || !improve(best, f, norm, x)) far = eps;
  }
  return best;
}

// Features go back to the original in groups that halve when no group can, those first whose
// change matters least (ddmin: Zeller and Hildebrandt, 2002).
Smaller minimize_l0(const Oversized& f) {
  const Norm& norm = find_norm("l0");
  const Deadline deadline(f.seconds, f.stop);
  const at::NoGradGuard no_grad;
  Smaller best = begin(f, norm);
  const Property* properties[] = {&f.property};
  const SpecTensors specs(properties);
  const auto changed_of = [&](const at::Tensor& x) {
    const at::Tensor index = (x != f.original).nonzero().squeeze(1).contiguous();
    const auto* data = index.const_data_ptr<int64_t>();
    return std::vector<int64_t>(data, data + index.numel());
  };
  int64_t size = std::max<int64_t>(1, static_cast<int64_t>(best.distance) / 2);
  while (size >= 1 && !deadline.expired()) {
    const std::vector<int64_t> changed = changed_of(best.x);
    if (changed.empty()) break;
    // All groups side by side, then as many of the good ones together as hold.
    std::vector<std::vector<int64_t>> groups;
    for (size_t at = 0; at < changed.size(); at += static_cast<size_t>(size)) {
      const size_t end = std::min(changed.size(), at + static_cast<size_t>(size));
      groups.emplace_back(changed.begin() + static_cast<std::ptrdiff_t>(at),
                          changed.begin() + static_cast<std::ptrdiff_t>(end));
    }
    const auto without = [&](const std::vector<int64_t>& group) {
      const at::Tensor index = at::tensor(group, at::kLong);
      return best.x.index_copy(0, index, f.original.index_select(0, index));
    };
    at::Tensor margin = at::empty({0});
    const int64_t piece = micro_batch(f.model);
    const auto region = std::max<int64_t>(best.confirmation.verdict32.region, 0);
    for (size_t at = 0; at < groups.size() && !deadline.expired();
         at += static_cast<size_t>(piece)) {
      const size_t end = std::min(groups.size(), at + static_cast<size_t>(piece));
      std::vector<at::Tensor> rows;
      for (size_t k = at; k < end; ++k) rows.push_back(without(groups[k]));
      const at::Tensor x = at::stack(rows);
      const RowSpec spec = specs.gather(at::full({x.size(0)}, region, at::kLong));
      margin = at::cat({margin, margins(f.model.forward(x, Head::kOutputs), spec)});
      best.tries += x.size(0);
    }
    const at::Tensor order = margin.argsort(/*stable=*/true, 0, false).contiguous();
    const auto* by_margin = order.const_data_ptr<int64_t>();
    bool any = false;
    for (int64_t k = 0; k < order.numel() && !deadline.expired(); ++k) {
      if (margin.select(0, by_margin[k]).item<float>() > 0.f) break;
      ++best.tries;
      any |= improve(best, f, norm, without(groups[static_cast<size_t>(by_margin[k])]));
    }
    size = any ? std::clamp<int64_t>(static_cast<int64_t>(best.distance), 1, size) : size / 2;
  }
  return best;
}

constexpr Norm kTable[] = {
    {"linf", "The largest change of an input.", largest_change,
     [](const Oversized& f) { return minimize_radius(f, BallNorm::kNone); }},
    {"l2", "The length of the change.",
     [](const at::Tensor& x, const at::Tensor& original) {
       return length_of(BallNorm::kL2, x, original);
     },
     [](const Oversized& f) { return minimize_radius(f, BallNorm::kL2); }},
    {"l1", "The sum of the changes of all inputs.",
     [](const at::Tensor& x, const at::Tensor& original) {
       return length_of(BallNorm::kL1, x, original);
     },
     [](const Oversized& f) { return minimize_radius(f, BallNorm::kL1); }},
    {"l0", "The number of inputs that differ.", changed_features, minimize_l0},
};

}  // namespace

std::span<const Norm> norms() {
  return kTable;
}

const Norm& find_norm(std::string_view name) {
  return find_row(norms(), name, "norm");
}

}  // namespace grapeshot::falsify
