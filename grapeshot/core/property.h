// grapeshot/core/property.h: what makes an input a violation, exactly as a file says it.
//
// Plain data without Torch: a specification file becomes a Property, core/spec.h turns the
// properties of one model into tensors. A Property is a disjunction of regions; a region is an
// input box with a disjunction of cases; a case is a conjunction of linear rows over the outputs.
// An input violates the property (is a counterexample) when it lies in a region's box and all rows
// of one of the region's cases hold, ties included (VNN-LIB 1.0 writes <= and >=).
//
// Units: the model's own input and output units. Indices count flattened variables, X_i and Y_j.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "grapeshot/core/input_set.h"

namespace grapeshot {

struct Term {
  int32_t output = 0;       ///< j of Y_j
  double coefficient = 0.;  ///< +1 or -1 for everything VNN-LIB 1.0 can say in one atom
};

/// sum of coefficient * Y_output <= bound. For a row of one variable `bound` is the decimal of the
/// file rounded towards "does not hold", so that comparing a float32 or float64 output is exact.
struct LinearRow {
  std::vector<Term> terms;  ///< at least one, outputs ascending and distinct
  double bound = 0.;
};

struct Case {
  std::vector<LinearRow> rows;  ///< all must hold; at least one
};

/// Bounds in float32, rounded inwards from the file's decimals: every float32 between lo and hi
/// lies in the real box, and every float32 of the real box lies between them.
struct Box {
  std::vector<float> lo, hi;     ///< one per input
  std::vector<int32_t> nearest;  ///< inputs whose two bounds are one decimal that is no float32:
                                 ///< lo == hi == the nearest float32 there
  bool empty = false;            ///< some input has no float32 between two different bounds
  /// Bits of a token mask, ascending: lo == hi == 1 there, but exactly 0 is inside as well, for
  /// `most_dropped` of them at a time.
  std::vector<int32_t> droppable = {};
  int64_t most_dropped = 0;
  InputSet set = {};  ///< what an input keeps to besides
};

struct Region {
  Box box;
  std::vector<Case> cases;  ///< any may hold; at least one
};

struct Property {
  int64_t inputs = 0, outputs = 0;  ///< as declared
  std::vector<Region> regions;      ///< at least one
};

/// How one input fares.
struct Verdict {
  /// Min over the cases of the containing regions of case_margin; <= 0 violates, +inf when no
  /// region contains the input.
  double margin = 0.;
  int64_t region = -1;      ///< the region of that minimum, -1 when no region contains the input
  int64_t case_index = -1;  ///< the case of that minimum
  bool violates = false;    ///< margin <= 0 (never with a NaN output)
};

/// Largest (terms - bound) over the rows; NaN outputs give +inf.
[[nodiscard]] double case_margin(const Case& c, std::span<const double> y);

/// Exact for rows of at most two variables with coefficients of +-1 when `y` holds float32 values.
/// `x` has property.inputs entries, `y` property.outputs.
[[nodiscard]] Verdict judge(const Property& property, std::span<const float> x,
                            std::span<const double> y);

/// Whether every x[i] lies between lo[i] and hi[i], but for bits that are dropped, and x in the
/// box's set.
[[nodiscard]] bool contains(const Box& box, std::span<const float> x);

/// The part of `box` in which the bits of token masks are what they are in `x`, as a plain box.
[[nodiscard]] Box with_bits_of(Box box, std::span<const float> x);

/// The label y when the cases are exactly {Y_j >= Y_y : all j != y} (top-1 robustness), else -1.
[[nodiscard]] int64_t top1_label(const Region& region, int64_t outputs);

/// Whether every row compares two outputs (a difference against 0), so that a strictly monotone
/// function of all outputs together, such as softmax, does not change the verdict.
[[nodiscard]] bool compares_outputs_only(const Property& property);

}  // namespace grapeshot
