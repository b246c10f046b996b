// grapeshot/diff/lineage.h: transformations one after another, and how far they may go.
//
// With s0 the image, L0 the number of inputs that differ and Linf the largest difference, a
// transformed image is valid where L0 is less than a share of all inputs, or Linf less than a share
// of the valid range (Xie et al., 2019, Eq. 1). One transformation of a lineage at most is affine:
// s to t, say. What comes after is measured against t; L0(s0, s) is added to L0 and Linf is
// the larger of both (Eq. 2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/rng.h"
#include "grapeshot/diff/transform.h"

namespace grapeshot::diff {

struct ValidityBound {
  double free_share = 0.02;   ///< of the inputs: fewer may change by any amount
  double change_share = 0.2;  ///< of the valid range: otherwise all change by less
};

struct AppliedTransformation {
  const Transformation* row = nullptr;
  std::vector<double> parameters;
};

/// How one input [D] came to be.
struct Lineage {
  std::vector<AppliedTransformation> steps;
  int64_t affine = -1;           ///< which of them is affine
  at::Tensor before, reference;  ///< [D] float32, what it made of what; undefined where none is
  int64_t changed = 0;           ///< L0 from the image to `before`
  double largest = 0.;           ///< Linf of the same
};

struct Distance {
  int64_t changed = 0;
  double largest = 0.;
};

/// From x to the image `original` by way of the lineage, as Eq. 2 has it. All [D].
[[nodiscard]] Distance lineage_distance(const Lineage& lineage, const at::Tensor& original,
                                        const at::Tensor& x);

/// What is not as the lineage says: the affine step, computed again within 1e-5 of the range, or
/// the bound; "" where all is. `shape` is an input's. All tensors [D].
[[nodiscard]] std::string broken_lineage(const Lineage& lineage, const at::Tensor& original,
                                         const at::Tensor& x, const std::vector<int64_t>& shape,
                                         const ValidRange& range, const ValidityBound& bound);

/// Throws Error{kInvalidArgument} for a bound that is out of range.
void check_bound(const ValidityBound& bound);

/// Throws Error{kInvalidArgument} where inputs of `shape` are no images: the last two axes are
/// height and width, two pixels each at least, all others together planes.
void check_images(const std::vector<int64_t>& shape, std::string_view model);

class Transformer {
 public:
  Transformer(TransformationSet set, const ValidRange& range, const ValidityBound& bound,
              std::vector<int64_t> shape);

  struct Advance {
    at::Tensor x;               ///< [m, D], of the rows that went on
    std::vector<int64_t> rows;  ///< which they are; the others found no valid way
    int64_t broken = 0;         ///< transformed images that were dropped
  };
  /// Each row of x [n, D] by one more transformation, drawn until the result is valid and
  /// another, 50 times at most. The lineages of those that go on grow, the others are erased.
  Advance advance(const at::Tensor& x, const at::Tensor& originals, std::vector<Lineage>& lineages,
                  Rng& rng) const;

 private:
  struct Batch;
  std::vector<int64_t> attempt(Batch& batch, const std::vector<int64_t>& rows, Rng& rng) const;
  std::vector<int64_t> apply(Batch& batch, const Transformation& row,
                             const std::vector<int64_t>& rows, Rng& rng) const;

  TransformationSet set_;
  std::vector<const Transformation*> of_values_;  // those that are not affine
  ValidRange range_;
  ValidityBound bound_;
  std::vector<int64_t> shape_;
};

}  // namespace grapeshot::diff
