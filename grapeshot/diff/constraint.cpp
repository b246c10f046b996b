#include "grapeshot/diff/constraint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"
#include "grapeshot/core/set_rows.h"

namespace grapeshot::diff {
namespace {

// Limits are kept with so much to spare, for what float32 adds: relative, and of the largest input.
constexpr double kSpare = 1e-5, kUlp = 6e-8;

double largest_input(const Limits& limits) {
  return std::max(std::abs(limits.low), std::abs(limits.high));
}

// The whole image lighter or darker.
at::Tensor light(const at::Tensor& g, const Held&, Rng&) {
  return g.mean(1, true).sign().expand(g.sizes()).contiguous();
}

// 1 in a rectangle of `height` x `width` at a random place of every image, [n, H, W].
at::Tensor patches(int64_t n, int64_t h, int64_t w, int64_t height, int64_t width, Rng& rng) {
  const auto inside = [&](int64_t size, int64_t length) {
    const at::Tensor begin = at::randint(size - length + 1, {n, 1}, rng.generator(), at::kLong);
    const at::Tensor place = at::arange(size).unsqueeze(0);
    return (place >= begin).logical_and(place < begin + length);
  };
  return inside(h, height).unsqueeze(2).logical_and(inside(w, width).unsqueeze(1)).to(at::kFloat);
}

at::Tensor as_planes(const at::Tensor& g, const std::vector<int64_t>& shape) {
  return g.view({g.size(0), -1, shape[shape.size() - 2], shape.back()});
}

int64_t part(int64_t size, int64_t of) {
  return std::max<int64_t>(1, (size + of - 1) / of);
}

// One rectangle of a third of the sides, as by something in front of the lens.
at::Tensor occlusion(const at::Tensor& g, const Held& held, Rng& rng) {
  const at::Tensor planes = as_planes(g, held.shape);
  const int64_t h = planes.size(2), w = planes.size(3);
  const at::Tensor mask = patches(g.size(0), h, w, part(h, 3), part(w, 3), rng).unsqueeze(1);
  return (planes * mask).view(g.sizes());
}

// Several small rectangles darker, as by dirt on the lens, where that is the way to go.
at::Tensor blackout(const at::Tensor& g, const Held& held, Rng& rng) {
  constexpr int kPatches = 5;
  const at::Tensor planes = as_planes(g, held.shape);
  const int64_t h = planes.size(2), w = planes.size(3);
  at::Tensor out = at::zeros_like(planes);
  for (int i = 0; i < kPatches; ++i) {
    const at::Tensor mask = patches(g.size(0), h, w, part(h, 5), part(w, 5), rng).unsqueeze(1);
    const at::Tensor darker = ((planes * mask).sum({1, 2, 3}, true) < 0).to(at::kFloat);
    out = at::minimum(out, -mask * darker);
  }
  return out.view(g.sizes());
}

// --- limits
// ---------------------------------------------------------------------------------------

at::Tensor norms(const at::Tensor& x) {
  return x.to(at::kDouble).norm(2, {1});
}

at::Tensor l2_measure(const at::Tensor& change, const Held& held) {
  return norms(change) / norms(held.original);
}

at::Tensor l2_reach(const Held& held) {
  return norms(held.original) * held.limits.l2;
}

// Noise over signal: what is at least s dB the other way round is at most -s dB this way.
at::Tensor snr_measure(const at::Tensor& change, const Held& held) {
  const at::Tensor noise = change.square().sum(1);
  return -10. * (held.original.square().sum(1) / noise).log10();
}

at::Tensor snr_reach(const Held& held) {
  return norms(held.original) * std::pow(10., -held.limits.snr / 20.);
}

at::Tensor linf_back(const at::Tensor& change, const Held& held) {
  const double most =
      std::max(0., held.limits.linf * (1. - kSpare) - 2. * kUlp * largest_input(held.limits));
  return change.clamp(-most, most);
}

at::Tensor linf_measure(const at::Tensor& change, const Held&) {
  return change.abs().amax(1);
}

at::Tensor linf_reach(const Held& held) {
  const double width = std::sqrt(static_cast<double>(held.original.size(1)));
  return at::full({held.original.size(0)}, held.limits.linf * width, at::kDouble);
}

// How much of every place differs, [n, places].
at::Tensor by_place(const at::Tensor& change, const Held& held) {
  if (!held.limits.pixels) return change.abs();
  return as_planes(change, held.shape).abs().amax(1).flatten(1);
}

// The places that change most; what the range takes back is not counted.
at::Tensor l0_back(const at::Tensor& change, const Held& held) {
  const Limits& limits = held.limits;
  const at::Tensor inside =
      at::clamp(held.original + change, limits.low, limits.high) - held.original;
  const at::Tensor size = by_place(inside, held);
  if (limits.l0 >= size.size(1)) return inside;
  const at::Tensor place = std::get<1>(at::topk(size, limits.l0, 1));
  const at::Tensor mask = at::zeros_like(size).scatter(1, place, 1.);
  if (!limits.pixels) return inside * mask;
  const at::Tensor planes = as_planes(inside, held.shape);
  return (planes * mask.view({-1, 1, planes.size(2), planes.size(3)})).view(change.sizes());
}

at::Tensor l0_measure(const at::Tensor& change, const Held& held) {
  return (by_place(change, held) > 0).sum(1).to(at::kDouble);
}

// That many inputs from one end of the range to the other.
at::Tensor l0_reach(const Held& held) {
  const auto inputs = static_cast<double>(held.original.size(1));
  const double most = std::min(inputs, static_cast<double>(held.limits.l0));
  return at::full({held.original.size(0)}, (held.limits.high - held.limits.low) * std::sqrt(most),
                  at::kDouble);
}

at::Tensor as_lines(const at::Tensor& x, const Held& held) {
  return x.view({x.size(0), -1, held.shape.back()});
}

// From 0 where nothing may change to 1 at `length` inputs from there along the last axis, with no
// kink at either end; [1, lines, length of the axis].
at::Tensor taper(const Held& held, double length) {
  const int64_t across = held.shape.back();
  const at::Tensor frozen = held.limits.frozen.contiguous();
  const auto* is_frozen = frozen.const_data_ptr<bool>();
  at::Tensor distance = at::empty({frozen.numel()});
  auto* d = distance.mutable_data_ptr<float>();
  constexpr float kFar = 1e9f;
  for (int64_t i = 0; i < frozen.numel(); ++i) {
    const float before = i % across == 0 ? kFar : d[i - 1] + 1.f;
    d[i] = is_frozen[i] ? 0.f : before;
  }
  for (int64_t i = frozen.numel() - 2; i >= 0; --i) {
    if (i % across != across - 1) d[i] = std::min(d[i], d[i + 1] + 1.f);
  }
  const at::Tensor share = (distance / length).clamp_max(1.) * (0.5 * std::numbers::pi);
  return share.sin().square().view({1, -1, across});
}

// A Gaussian filter as wide as makes a change of the usual size bend no more than it may.
at::Tensor smooth_shape(const at::Tensor& g, const Held& held, Rng&) {
  const auto across = static_cast<double>(held.shape.back());
  const double sigma = std::clamp(std::sqrt(2. * held.amplitude / held.limits.smooth), 0.5,
                                  std::max(0.5, across / 8.));
  const auto half =
      std::min<int64_t>(static_cast<int64_t>(std::ceil(3. * sigma)), held.shape.back() - 1);
  const at::Tensor at = at::arange(-half, half + 1).to(at::kFloat);
  at::Tensor kernel = (-0.5 * (at / sigma).square()).exp();
  kernel = (kernel / kernel.sum()).view({1, 1, -1});
  at::Tensor lines = as_lines(g, held);
  const at::Tensor window =
      held.limits.frozen.defined() ? taper(held, 4. * sigma) : at::ones({1, 1, 1});
  lines = (lines * window).reshape({-1, 1, held.shape.back()});
  const at::Tensor filtered = at::conv1d(at::replication_pad1d(lines, {half, half}), kernel);
  return (filtered.view({g.size(0), -1, held.shape.back()}) * window).reshape(g.sizes());
}

at::Tensor smooth_measure(const at::Tensor& change, const Held& held) {
  return as_lines(change, held).diff(2, -1).abs().amax({1, 2});
}

// Four roundings of inputs are in one second difference.
double smooth_spare(const Limits& limits) {
  return 4. * kUlp * largest_input(limits);
}

at::Tensor frozen_shape(const at::Tensor& g, const Held& held, Rng&) {
  return g.masked_fill(held.limits.frozen, 0.);
}

at::Tensor frozen_back(const at::Tensor& change, const Held& held) {
  return change.masked_fill(held.limits.frozen, 0.);
}

at::Tensor frozen_measure(const at::Tensor& change, const Held& held) {
  return (change != 0).logical_and(held.limits.frozen).sum(1).to(at::kDouble);
}

constexpr Constraint kTable[] = {
    {.name = "none", .summary = "Any step."},
    {.name = "light", .summary = "Steps: the whole image lighter or darker.", .shape = light},
    {.name = "occlusion",
     .summary = "Steps: one rectangle, a third of the sides, at a random place in every step.",
     .shape = occlusion,
     .needs_image = true,
     .draws = true},
    {.name = "blackout",
     .summary = "Steps: five small rectangles darker.",
     .shape = blackout,
     .needs_image = true,
     .draws = true},
    {.name = "l2",
     .summary = "The L2 distance, as a share of the original's norm (--l2).",
     .on = [](const Limits& limits) { return limits.l2 > 0.; },
     .measure = l2_measure,
     .limit = [](const Limits& limits) { return limits.l2; },
     .reach = l2_reach,
     .measured = "its L2 distance",
     .unit = " of the original's norm",
     .shrinks = true},
    {.name = "snr",
     .summary = "The signal-to-noise ratio, in dB (--snr).",
     .on = [](const Limits& limits) { return limits.snr > 0.; },
     .measure = snr_measure,
     .limit = [](const Limits& limits) { return -limits.snr; },
     .reach = snr_reach,
     .measured = "its noise over the signal",
     .unit = " dB",
     .shrinks = true,
     .decibel = true},
    {.name = "linf",
     .summary = "The change of any one input (--linf).",
     .on = [](const Limits& limits) { return limits.linf > 0.; },
     .bring_back = linf_back,
     .measure = linf_measure,
     .limit = [](const Limits& limits) { return limits.linf; },
     .reach = linf_reach,
     .measured = "its largest change"},
    {.name = "smooth",
     .summary = "The second differences of the change along the last axis (--smooth).",
     .on = [](const Limits& limits) { return limits.smooth > 0.; },
     .shape = smooth_shape,
     .measure = smooth_measure,
     .limit = [](const Limits& limits) { return limits.smooth; },
     .measured = "the largest second difference of its change",
     .shrinks = true},
    {.name = "frozen",
     .summary = "Inputs that never change (--frozen).",
     .on = [](const Limits& limits) { return limits.frozen.defined(); },
     .shape = frozen_shape,
     .bring_back = frozen_back,
     .measure = frozen_measure,
     .limit = [](const Limits&) { return 0.; },
     .measured = "the number of frozen inputs that it changes"},
    {.name = "l0",
     .summary = "The number of inputs, or pixels, that differ (--l0, --pixels).",
     .on = [](const Limits& limits) { return limits.l0 > 0; },
     .bring_back = l0_back,
     .measure = l0_measure,
     .limit = [](const Limits& limits) { return static_cast<double>(limits.l0); },
     .reach = l0_reach,
     .measured = "the number of places that it changes"},
};

// Changes as long as all limits that scale allow.
at::Tensor shrink(const std::vector<const Constraint*>& chosen, const at::Tensor& change,
                  const Held& held) {
  const at::Tensor exact = change.to(at::kDouble);
  const Held twice{held.original.to(at::kDouble), held.limits, held.shape, held.amplitude};
  at::Tensor by = at::ones({change.size(0)}, at::kDouble);
  for (const Constraint* each : chosen) {
    if (!each->shrinks) continue;
    const at::Tensor size = each->measure(exact, twice);
    double limit = each->limit(held.limits);
    if (each->name == "smooth") limit = std::max(0., limit - smooth_spare(held.limits));
    const at::Tensor ratio = each->decibel ? at::pow(10., (limit - size) / 20.) : limit / size;
    by = at::minimum(by, (ratio * (1. - kSpare)).nan_to_num(0.));
  }
  return change * by.to(at::kFloat).unsqueeze(1);
}

void check(bool ok, std::string_view flag, std::string_view range) {
  GRAPESHOT_CHECK(ok, kInvalidArgument, "--", flag, " must be ", range);
}

}  // namespace

std::span<const Constraint> constraints() {
  return kTable;
}

std::vector<const Constraint*> parse_constraints(std::string_view text, const Limits& limits) {
  std::vector<const Constraint*> named;
  for (const std::string_view name : split_at('+', text)) {
    named.push_back(&find_row(constraints(), name, "constraint"));
    const Constraint& row = *named.back();
    GRAPESHOT_CHECK(row.on == nullptr || row.on(limits), kInvalidArgument, "--constraint ", name,
                    " needs --", name);
  }
  GRAPESHOT_CHECK(!named.empty(), kInvalidArgument, "--constraint names none");
  std::vector<const Constraint*> out;
  for (const Constraint& row : constraints()) {
    const bool on = row.on != nullptr && row.on(limits);
    if (on || std::ranges::find(named, &row) != named.end()) out.push_back(&row);
  }
  return out;
}

void check_limits(const Limits& o) {
  const bool others = o.linf > 0. || o.l0 > 0 || o.snr > 0.;
  check((others ? o.l2 >= 0. : o.l2 > 0.) && std::isfinite(o.l2), "l2",
        others ? "at least 0" : "above 0 without --linf, --l0 or --snr");
  check(o.linf >= 0. && std::isfinite(o.linf), "linf", "at least 0");
  check(o.l0 >= 0, "l0", "at least 0");
  check(!o.pixels || o.l0 > 0, "pixels", "with --l0");
  check(o.snr >= 0. && std::isfinite(o.snr), "snr", "at least 0");
  check(o.smooth >= 0. && std::isfinite(o.smooth), "smooth", "at least 0");
  check((o.low == 0. && o.high == 0.) || (o.low < o.high && std::isfinite(o.high - o.low)), "low",
        "below --high");
  check(o.grid >= 0. && std::isfinite(o.grid), "grid", "at least 0");
  GRAPESHOT_CHECK(!(o.smooth > 0. && o.grid > 0.), kInvalidArgument,
                  "--smooth does not go with --grid: steps of a grid bend");
  GRAPESHOT_CHECK(!(o.smooth > 0. && o.l0 > 0), kInvalidArgument,
                  "--smooth does not go with --l0: few inputs that change bend");
}

void check_fits(const std::vector<const Constraint*>& chosen, const Limits& limits,
                const std::vector<int64_t>& shape, std::string_view model) {
  for (const Constraint* each : chosen) {
    GRAPESHOT_CHECK(!each->needs_image || shape.size() >= 2, kInvalidArgument, model,
                    ": --constraint ", each->name, " is for images, its inputs have one axis");
  }
  GRAPESHOT_CHECK(!limits.pixels || shape.size() >= 2, kInvalidArgument, model,
                  ": --pixels is for images, its inputs have one axis");
  if (limits.frozen.defined()) {
    int64_t inputs = 1;
    for (const int64_t side : shape) inputs *= side;
    GRAPESHOT_CHECK(limits.frozen.numel() == inputs, kInvalidArgument, model, ": --frozen is of ",
                    limits.frozen.numel(), " inputs, the model has ", inputs);
    GRAPESHOT_CHECK(!limits.frozen.all().item<bool>(), kInvalidArgument,
                    "--frozen leaves no input that may change");
  }
  if (!(limits.smooth > 0.)) return;
  GRAPESHOT_CHECK(!shape.empty() && shape.back() >= 3, kInvalidArgument, model,
                  ": --smooth needs a last axis of three inputs at least");
  GRAPESHOT_CHECK(limits.smooth > smooth_spare(limits), kInvalidArgument, "--smooth ",
                  limits.smooth, " is less than float32 adds to inputs up to ",
                  largest_input(limits));
}

at::Tensor shape_direction(const std::vector<const Constraint*>& chosen, at::Tensor g,
                           const Held& held, Rng& rng) {
  for (const Constraint* each : chosen) {
    if (each->shape != nullptr) g = each->shape(g, held, rng);
  }
  return g;
}

at::Tensor bring_back(const std::vector<const Constraint*>& chosen, const at::Tensor& x,
                      const Held& held) {
  const Limits& limits = held.limits;
  at::Tensor change = x - held.original;
  for (const Constraint* each : chosen) {
    if (each->bring_back != nullptr) change = each->bring_back(change, held);
  }
  change = shrink(chosen, change, held);
  at::Tensor in = at::clamp(held.original + change, limits.low, limits.high);
  // Of all limits the range can break this one only.
  if (limits.smooth > 0.) {
    change = shrink(chosen, in - held.original, held);
    in = at::clamp(held.original + change, limits.low, limits.high);
  }
  if (!(limits.grid > 0.)) return in;
  // Cut towards the original: what is near enough stays so.
  const at::Tensor step = at::full({1}, limits.grid, at::kDouble);
  return grid_towards(in.to(at::kDouble), held.original.to(at::kDouble), at::zeros_like(step), step)
      .to(at::kFloat);
}

at::Tensor reach(const std::vector<const Constraint*>& chosen, const Held& held) {
  at::Tensor out =
      at::full({held.original.size(0)}, std::numeric_limits<double>::infinity(), at::kDouble);
  for (const Constraint* each : chosen) {
    if (each->reach != nullptr) out = at::minimum(out, each->reach(held));
  }
  return out.to(at::kFloat).unsqueeze(1);
}

std::string broken_limit(const Limits& limits, const std::vector<int64_t>& shape,
                         const at::Tensor& x, const at::Tensor& original) {
  const Held held{original.to(at::kDouble).unsqueeze(0), limits, shape};
  const at::Tensor change = x.to(at::kDouble).unsqueeze(0) - held.original;
  if (!change.any().item<bool>()) return {};
  for (const Constraint& each : constraints()) {
    if (each.on == nullptr || !each.on(limits)) continue;
    const auto size = each.measure(change, held).item<double>();
    const double limit = each.limit(limits);
    if (!(size <= limit)) return str(each.measured, " is ", size, each.unit, ", more than ", limit);
  }
  return {};
}

}  // namespace grapeshot::diff
