#include "grapeshot/core/mutate.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"
#include "grapeshot/core/set_rows_internal.h"
#include "grapeshot/core/sign_step.h"

namespace grapeshot {
namespace {

at::Tensor uniform(const at::Tensor& like, Rng& rng) {
  return at::rand(like.sizes(), rng.generator(), like.options());
}

at::Tensor normal(const at::Tensor& like, Rng& rng) {
  return at::randn(like.sizes(), rng.generator(), like.options());
}

at::Tensor in_box(at::Tensor x, const MutationContext& context) {
  if (context.set.any()) return project(x, context.set, context.lo, context.hi);
  return x.clamp_(context.lo, context.hi);
}

// Half a step of `noise` from x; one-hot groups move their 1.
at::Tensor moved_by(const at::Tensor& noise, const at::Tensor& x, MutationContext& context) {
  const SetRows& set = context.set;
  if (!set.any()) return in_box(at::addcmul(x, context.eta, noise, 0.5), context);
  const at::Tensor move = 0.5 * context.eta * noise_of_norm(noise, set);
  const at::Tensor to = x + reaching_grid(move, set);
  return in_box(with_moved_ones(to, x, set, context.hi, context.rng), context);
}

void gradient_step(at::Tensor& x, const StepSize& size, double scale, MutationContext& context) {
  const at::Tensor gradient = (*context.objective)(x);
  if (!context.set.any()) {
    sign_step(x, gradient, size, scale, context.lo, context.hi);
    return;
  }
  const at::Tensor step = size.row.defined() ? size.eta * size.row.unsqueeze(1) : size.eta;
  x = steepest_step(x, gradient, step * scale, context.set, context.lo, context.hi);
}

// Eq. 10: x <- project(x + (2 / T) eta sign(gradient)), T times; T = 1 is FGSM (Eq. 11).
at::Tensor gradient(const at::Tensor& x, MutationContext& context) {
  const double scale = 2. / static_cast<double>(context.steps);
  const StepSize size{context.eta, context.range, {}};
  at::Tensor at = x.clone();
  for (int64_t t = 0; t < context.steps && !context.deadline.expired(); ++t) {
    gradient_step(at, size, scale, context);
  }
  return at;
}

at::Tensor boundary(const at::Tensor& x, MutationContext& context) {
  return moved_by(normal(x, context.rng).sign_(), x, context);
}

at::Tensor random(const at::Tensor& x, MutationContext& context) {
  return moved_by(normal(x, context.rng), x, context);
}

// The first step of a descent is this share of the reach, and every later one this much of the step
// before: 0.5 ... 0.004 over ten generations of ten steps.
constexpr double kFirstStep = 0.5, kStepDecay = 0.953;

// Sign steps that begin at a corner, a uniform point or the parent and shrink from generation to
// generation, so that a lineage first crosses the box and then settles.
at::Tensor descent(const at::Tensor& x, MutationContext& context) {
  at::Tensor at;
  if (context.fresh) {
    const at::Tensor fresh = (context.stage == 0).unsqueeze(1);
    const at::Tensor style = at::rand({x.size(0), 1}, context.rng.generator(), x.options());
    const at::Tensor u = uniform(x, context.rng);
    const at::Tensor corner = at::where(style < 0.35, (u < 0.5).to(x.scalar_type()), u);
    const at::Tensor begin =
        context.set.any() ? draw_inside(corner, context.set, context.lo, context.hi, context.rng)
                          : at::lerp(context.lo, context.hi, corner);
    at = in_box(at::where(fresh.logical_and(style < 0.8), begin, x), context);
  } else {
    at = x.clone();
  }
  const double per_generation = std::pow(kStepDecay, context.steps);
  const StepSize first{context.eta, context.range,
                       kFirstStep / context.share * at::pow(per_generation, context.stage)};
  double decay = 1.;
  for (int64_t t = 0; t < context.steps && !context.deadline.expired(); ++t, decay *= kStepDecay) {
    gradient_step(at, first, decay, context);
  }
  return at;
}

// Sets a few coordinates, or half of them, to one of their bounds.
at::Tensor flip(const at::Tensor& x, MutationContext& context) {
  const at::Tensor share = at::rand({x.size(0), 1}, context.rng.generator(), x.options()).pow(4);
  const at::Tensor u = uniform(x, context.rng);
  const at::Tensor side = at::where(u < 0.5 * share, context.lo, context.hi);
  const at::Tensor to = at::where(u < share, side, x);
  return in_box(with_moved_ones(to, x, context.set, context.hi, context.rng), context);
}

// Drops tokens and takes others back: one at least, and a random share of them.
at::Tensor mask(const at::Tensor& x, const TokenMasks& masks, Rng& rng) {
  at::Tensor out = x.clone();
  if (!masks.any() || x.size(0) == 0) return out;
  constexpr double kNever = 2.;
  const at::Tensor bits = x.index_select(1, masks.inputs);
  const at::Tensor fixed = masks.droppable.logical_not();
  const at::Tensor share = at::rand({x.size(0), 1}, rng.generator(), x.options()).pow(4);
  const at::Tensor u = uniform(bits, rng).masked_fill_(fixed, kNever);
  const at::Tensor flips = (u < share).logical_or_(u == u.amin(1, /*keepdim=*/true));
  const at::Tensor dropped = (bits == 0).logical_xor(flips).logical_and_(masks.droppable);
  // Of more than may be at a time some, at random.
  const at::Tensor order = uniform(bits, rng)
                               .masked_fill_(dropped.logical_not(), kNever)
                               .argsort(1, false)
                               .argsort(1, false);
  const at::Tensor kept = dropped.logical_and(order < masks.most.unsqueeze(1));
  const at::Tensor fresh = at::where(masks.droppable, kept.logical_not().to(x.scalar_type()), bits);
  return out.index_copy_(1, masks.inputs, fresh);
}

constexpr Mutation kTable[] = {
    {"gradient", "T projected sign-gradient steps of 2 eta / T (paper's Eq. 10; T = 1 is FGSM).",
     gradient, true, 0.5, 0.},
    {"boundary", "Half a step up or down in every coordinate at random.", boundary, false, 0.2,
     0.05},
    {"random", "Normal noise of half a step per coordinate.", random, false, 0.3, 0.05},
    {"descent",
     "T sign-gradient steps across the box that shrink over a lineage, from a fresh start.",
     descent, true, 0., 0.8},
    {"flip", "Sets a random share of the coordinates to one of their bounds.", flip, false, 0.,
     0.1},
    {"mask", "Drops tokens by the bits of their mask, and takes others back.",
     [](const at::Tensor& x, MutationContext& context) {
       return mask(x, context.masks, context.rng);
     },
     false, 0., 0.1, true},
};

}  // namespace

at::Tensor drop_tokens(const at::Tensor& x, const TokenMasks& masks, double share, Rng& rng) {
  const at::Tensor some = at::rand({x.size(0), 1}, rng.generator(), x.options()) < share;
  return at::where(some, mask(x, masks, rng), x);
}

std::span<const Mutation> mutations() {
  return kTable;
}

const Mutation& find_mutation(std::string_view name) {
  return find_row(mutations(), name, "mutation");
}

std::vector<WeightedMutation> parse_mutations(std::string_view set, std::string_view weights,
                                              bool masks) {
  std::vector<double> weight(std::size(kTable), 0.);
  const auto index = [](std::string_view name) {
    return static_cast<size_t>(&find_mutation(name) - kTable);
  };
  for (size_t i = 0; i < weight.size(); ++i) {
    if (set == "paper") weight[i] = kTable[i].paper_weight;
    if (set == "default") weight[i] = kTable[i].default_weight;
  }
  if (set != "paper" && set != "default") {
    for (const std::string_view name : split_at(',', set)) weight[index(name)] = 1.;
  }
  for (const std::string_view pair : split_at(',', weights)) {
    const size_t equals = pair.find('=');
    const std::string_view number = equals == pair.npos ? "" : pair.substr(equals + 1);
    double value = -1.;
    const auto [end, failure] =
        std::from_chars(number.data(), number.data() + number.size(), value);
    GRAPESHOT_CHECK(failure == std::errc() && end == number.data() + number.size() && value >= 0. &&
                        std::isfinite(value),
                    kInvalidArgument, "--weights: '", pair,
                    "' is not of the form name=number with a number >= 0");
    weight[index(pair.substr(0, equals))] = value;
  }
  std::vector<WeightedMutation> out;
  for (size_t i = 0; i < weight.size(); ++i) {
    if (weight[i] > 0. && (masks || !kTable[i].masks)) out.push_back({&kTable[i], weight[i]});
  }
  GRAPESHOT_CHECK(!out.empty(), kInvalidArgument, "no mutation has a weight above 0");
  return out;
}

}  // namespace grapeshot
