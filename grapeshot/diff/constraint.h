// grapeshot/diff/constraint.h: how differential fuzzing may change an input: in which ways a step
// goes (DeepXplore: Pei, Cao, Yang, Jana, 2017, section 6.2), and what it is brought back to.
//
// A constraint is one row of the table in constraint.cpp. One that only shapes steps is named by
// --constraint; one with a limit is on where its option is given. All that are on hold together.
//
// Shapes: n rows, D inputs. The change of a row is x - original. Every limit that scales contains
// with a change all shorter ones of the same direction, so that shrinking keeps what holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/rng.h"

namespace grapeshot::diff {

/// What a change keeps to; 0 (undefined) means no such limit.
struct Limits {
  double l2 = 0.02;     ///< L2 norm of the change over that of the original
  double linf = 0.;     ///< largest change of one input, input units
  int64_t l0 = 0;       ///< inputs that differ
  bool pixels = false;  ///< l0 counts places of the last two axes, all channels of one together
  double snr = 0.;      ///< 10 log10(|original|^2 / |change|^2) at least, dB
  double smooth = 0.;   ///< largest |c[i-1] - 2 c[i] + c[i+1]| of the change c along the last axis
  at::Tensor frozen;    ///< [D] bool: inputs that never change
  double low = 0., high = 0.;  ///< of every input
  double grid = 0.;            ///< inputs are multiples of this
};

/// Rows with what they keep to.
struct Held {
  at::Tensor original;  ///< [n, D] float32
  const Limits& limits;
  const std::vector<int64_t>& shape;  ///< of an input; the last two axes are height and width
  double amplitude = 0.;              ///< root mean square of the longest changes, input units
};

struct Constraint {
  std::string_view name, summary;
  /// Whether its limit is given; none: it has no limit.
  bool (*on)(const Limits& limits) = nullptr;
  /// Directions [n, D] like the gradients `g` [n, D].
  at::Tensor (*shape)(const at::Tensor& g, const Held& held, Rng& rng) = nullptr;
  /// The change [n, D] as it may be, where shrinking is not the way.
  at::Tensor (*bring_back)(const at::Tensor& change, const Held& held) = nullptr;
  /// [n] float64, of float64 changes and originals, and what it may be at most.
  at::Tensor (*measure)(const at::Tensor& change, const Held& held) = nullptr;
  double (*limit)(const Limits& limits) = nullptr;
  /// [n] float64: how long a change may be by it (L2); none: it says nothing of that.
  at::Tensor (*reach)(const Held& held) = nullptr;
  std::string_view measured = {}, unit = {};  ///< what `measure` is, in words
  bool shrinks = false;                       ///< a change is mended by shrinking it
  bool decibel = false;                       ///< `measure` goes with 20 log10 of the size
  bool needs_image = false;                   ///< inputs of at least two axes
  bool draws = false;                         ///< `shape` draws a place of its own every time
};

[[nodiscard]] std::span<const Constraint> constraints();

/// Those of "light+smooth" and those whose limits are given, in the table's order. Throws
/// Error{kNotFound}, listing the known names; kInvalidArgument for one whose limit is missing.
[[nodiscard]] std::vector<const Constraint*> parse_constraints(std::string_view text,
                                                               const Limits& limits);

/// Throws Error{kInvalidArgument} naming the first limit that is out of range or that does not go
/// with another one.
void check_limits(const Limits& limits);

/// Throws Error{kInvalidArgument} for limits that do not fit inputs of `shape` in their range.
void check_fits(const std::vector<const Constraint*>& chosen, const Limits& limits,
                const std::vector<int64_t>& shape, std::string_view model);

/// [n, D]: as all of `chosen` have it.
[[nodiscard]] at::Tensor shape_direction(const std::vector<const Constraint*>& chosen, at::Tensor g,
                                         const Held& held, Rng& rng);

/// x [n, D] brought back into all limits, the range and the grid, towards the originals. Rounding
/// aside, for which a margin is kept: `broken_limit` has the last word.
[[nodiscard]] at::Tensor bring_back(const std::vector<const Constraint*>& chosen,
                                    const at::Tensor& x, const Held& held);

/// [n, 1] float32: the longest change (L2) that a row's limits allow, without those that say
/// nothing of length.
[[nodiscard]] at::Tensor reach(const std::vector<const Constraint*>& chosen, const Held& held);

/// The first limit that x [D] breaks, in float64: "its largest change is 0.3, more
/// than 0.2"; ""
/// where it keeps to all of them.
[[nodiscard]] std::string broken_limit(const Limits& limits, const std::vector<int64_t>& shape,
                                       const at::Tensor& x, const at::Tensor& original);

}  // namespace grapeshot::diff
