// grapeshot/falsify/attack.cpp: the table of attacks.
#include "grapeshot/falsify/attack.h"

#include <algorithm>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"

namespace grapeshot::falsify {
namespace {

int64_t free_inputs(const Search& search, int64_t instance) {
  return std::ssize(search.features(instance).free);
}

// Share of the gradients so far that point somewhere; 1 before any is known.
double slope(const Search& search) {
  const double dead = search.dead_gradients();
  return dead < 0. ? 1. : std::max(1. - dead, 0.02);
}

double always(const Search&, int64_t) {
  return 1.;
}

double seldom(const Search&, int64_t) {
  return 0.3;
}

double with_slope(const Search& search, int64_t) {
  return 2. * slope(search);
}

double with_slope_seldom(const Search& search, int64_t) {
  return slope(search);
}

double with_cases(const Search& search, int64_t) {
  return search.specs().cases() > 1 ? 2. * slope(search) : 0.3 * slope(search);
}

double with_several_outputs(const Search& search, int64_t) {
  return search.model().outputs() > 1 ? 0.7 * slope(search) : 0.;
}

// Sobol points cover what has few dimensions; torch has them for up to 21,201.
double sobol_prior(const Search& search, int64_t instance) {
  const int64_t free = free_inputs(search, instance);
  return free == 0 || free > 1024 ? 0. : free <= 16 ? 1. : 0.2;
}

double grid_prior(const Search& search, int64_t instance) {
  const int64_t free = free_inputs(search, instance);
  return free == 0 || free > 8 ? 0. : free <= 3 ? 4. : 0.7;
}

double divide_prior(const Search& search, int64_t instance) {
  const int64_t free = free_inputs(search, instance);
  return free == 0 || free > 32 ? 0. : free <= 8 ? 1.5 : 0.5;
}

double split_prior(const Search& search, int64_t instance) {
  const double prior = divide_prior(search, instance);
  return prior > 0. && search.has_bounds() ? prior : 0.;
}

double cmaes_prior(const Search& search, int64_t instance) {
  const int64_t free = free_inputs(search, instance);
  return free == 0 || free > 64 ? 0. : free <= 16 ? 1.5 : 0.5;
}

// Steps without slopes: what gradients cannot see.
double without_slope(const Search& search, int64_t) {
  return search.model().has_surrogates() ? 2. : 0.4 + 1.6 * (1. - slope(search));
}

double near_border(const Search& search, int64_t instance) {
  // Worth nothing before something is near.
  const float margin = search.best_margin().const_data_ptr<float>()[instance];
  return margin < 1e-3f ? 2. : 0.1;
}

constexpr Attack kTable[] = {
    {"centre", "Box centres, extreme corners and originals of all regions.", centre, seldom},
    {"corners", "Random corners.", corners, seldom},
    {"uniform", "Uniform points.", uniform, seldom},
    {"sobol", "Sobol points over the free inputs.", sobol, sobol_prior},
    {"near", "Normal steps of all sizes around near misses.", near, always},
    {"sprint", "20 sign steps from the original and random starts.", sprint, with_slope},
    {"sign", "100 sign steps that shrink from half of the box (PGD).", sign_steps, with_slope},
    {"adam", "100 steps by the sign of Adam, an eighth of the box (AdamClipping).", adam_steps,
     with_slope_seldom},
    {"apgd", "Steps with momentum that halve on a stall and go back to the best (APGD).", apgd,
     with_slope_seldom},
    {"targeted", "Sign steps, every row for a case of its own, summed hinge.", targeted,
     with_cases},
    {"soft", "Sign steps on a soft minimum over all cases.", soft, with_cases},
    {"gama", "Sign steps on probabilities, driven away from the original's (GAMA).", gama,
     with_several_outputs},
    {"osi", "Sign steps along a random output first, then towards the property (OSI).", osi,
     with_several_outputs},
    {"square", "Random squares set to their bounds (Square Attack).", square, without_slope},
    {"discrete", "Flips of a few coordinates between bounds and original.", discrete,
     without_slope},
    {"cmaes", "Evolution with a learnt covariance, up to 64 free inputs (CMA-ES).", cmaes,
     cmaes_prior},
    {"grid", "Ever finer grids, up to 8 free inputs.", grid, grid_prior},
    {"bisect", "Halves the boxes that slopes promise most of.", bisect, divide_prior},
    {"split", "Halves boxes, those with the lowest interval bound first.", split, split_prior},
    {"polish", "Polyak steps to the border, from one activation pattern to the next.", polish,
     with_slope},
    {"ulp", "Steps of a few units in the last place.", ulp, near_border},
};

}  // namespace

std::span<const Attack> attacks() {
  return kTable;
}

std::vector<const Attack*> parse_attacks(std::string_view names) {
  std::vector<const Attack*> out;
  for (const std::string_view name : split_at(',', names)) {
    if (name == "all") {
      for (const Attack& each : kTable) out.push_back(&each);
    } else {
      out.push_back(&find_row(attacks(), name, "attack"));
    }
  }
  GRAPESHOT_CHECK(!out.empty(), kInvalidArgument, "--attacks names no attack");
  return out;
}

}  // namespace grapeshot::falsify
