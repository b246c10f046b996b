// grapeshot/falsify/attack.h: ways to look for a violation, one table row each.
//
// An attack's round works on the instances that the search says, with rows for all of them in one
// batch, and costs about as much as a round of any other attack. What it keeps from one round to
// the next lies in Search::memory(). The command line, the docs and the puzzles read the table.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "grapeshot/falsify/search.h"

namespace grapeshot::falsify {

struct Attack {
  std::string_view name;     ///< as typed after --attacks
  std::string_view summary;  ///< one sentence for `grapeshot list attacks` and the docs
  void (*round)(Search& search);
  /// How promising it is before anything is known, from what the instance and the model are like;
  /// 0 where it cannot work.
  double (*prior)(const Search& search, int64_t instance);
};

/// All attacks, in table order.
[[nodiscard]] std::span<const Attack> attacks();

/// "all" or names joined by commas. Throws Error{kNotFound}, listing the known names.
[[nodiscard]] std::vector<const Attack*> parse_attacks(std::string_view names);

// The rounds, by file.

// attacks_sample.cpp: inputs that are drawn, not improved.
void centre(Search& search);
void corners(Search& search);
void uniform(Search& search);
void sobol(Search& search);
void near(Search& search);

// attacks_gradient.cpp: steps along gradients.
void sprint(Search& search);
void sign_steps(Search& search);
void adam_steps(Search& search);
void apgd(Search& search);
void targeted(Search& search);
void soft(Search& search);
void gama(Search& search);
void osi(Search& search);

// attacks_local.cpp: proposals that are kept when they are no worse.
void square(Search& search);
void discrete(Search& search);
void ulp(Search& search);

// attacks_border.cpp
void polish(Search& search);

// attacks_divide.cpp: few free inputs, covered systematically.
void grid(Search& search);
void bisect(Search& search);
void split(Search& search);

// attacks_cmaes.cpp
void cmaes(Search& search);

// Shared by them.

/// Uniform in [0, 1), [n, D].
[[nodiscard]] at::Tensor uniform_like(const at::Tensor& x, Rng& rng);
/// [n] uniform in [0, 1).
[[nodiscard]] at::Tensor coins(int64_t n, Rng& rng);

/// Where a climb begins, row by row: the original, a random corner, a uniform point, a near miss of
/// the row's region.
[[nodiscard]] at::Tensor begin_at(Search& search, const Rows& rows);

/// Sign steps of `first` times the box's width, each `decay` of the one before, from x [n, D].
void climb_by_signs(Search& search, const Rows& rows, at::Tensor x, int64_t steps, double first,
                    double decay, const RowLoss& loss = hinge);

}  // namespace grapeshot::falsify
