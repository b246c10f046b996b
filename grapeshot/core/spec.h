// grapeshot/core/spec.h: the properties of one model's instances as tensors, a row of a batch each.
//
// The input layer is project(): x to the box of its row. The output layer is margins(): y to the
// distance from a violation. Both read a RowSpec, in which every row's box, label and polytopes
// were gathered by the region that the row names, so that rows of different instances share a
// batch.
//
// Shapes: N rows, D inputs, K outputs, R regions, C cases of a region, M linear rows of a case.
#pragma once

#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/property.h"
#include "grapeshot/core/set_rows.h"

namespace grapeshot {

/// Bits of token masks: S inputs that are 0 or 1, never between. lo and hi of a box have their
/// values in the original; some that are 1 may be 0 instead.
struct TokenMasks {
  at::Tensor inputs;     ///< [S] int64, ascending; undefined where the model has no masks
  at::Tensor droppable;  ///< [N, S] bool: may be 0 instead
  at::Tensor most;       ///< [N] int64: of them at a time

  [[nodiscard]] bool any() const { return inputs.defined(); }
};

/// What N rows have to satisfy.
struct RowSpec {
  at::Tensor lo, hi;  ///< [N, D]
  at::Tensor label;   ///< [N] int64 when all regions are top-1, else undefined
  at::Tensor a, b;    ///< [N, C, M, K] and [N, C, M] otherwise: a case holds when a y <= b in all M
  TokenMasks masks = {};
  SetRows set = {};  ///< what rows keep to besides their boxes

  /// Rows [begin, end) as views.
  [[nodiscard]] RowSpec slice(int64_t begin, int64_t end) const;
};

/// All regions of the instances of one model.
class SpecTensors {
 public:
  /// `properties` share inputs and outputs, one per instance; float32 on the CPU. Throws
  /// kUnsupported where R x C x M x K, with the most cases and rows of any region, is more than
  /// kMostNumbers, or where they differ in what inputs keep to besides their boxes.
  explicit SpecTensors(std::span<const Property* const> properties);

  static constexpr int64_t kMostNumbers = int64_t{1} << 29;  ///< 2 GiB

  [[nodiscard]] int64_t regions() const { return lo_.size(0); }
  [[nodiscard]] int64_t instances() const { return first_region_.size(0) - 1; }
  [[nodiscard]] const at::Tensor& lo() const { return lo_; }                      ///< [R, D]
  [[nodiscard]] const at::Tensor& hi() const { return hi_; }                      ///< [R, D]
  [[nodiscard]] const at::Tensor& instance() const { return instance_; }          ///< [R] int64
  [[nodiscard]] const at::Tensor& first_region() const { return first_region_; }  ///< [I + 1] int64
  [[nodiscard]] bool top1() const { return label_.defined(); }
  [[nodiscard]] int64_t cases() const { return cases_; }  ///< of the region with most
  /// Of what gather() makes for one row.
  [[nodiscard]] int64_t bytes_per_row() const;

  [[nodiscard]] const TokenMasks& masks() const { return masks_; }  ///< by region
  [[nodiscard]] const SetRows& set() const { return set_; }         ///< the same

  /// Moves all but first_region() to `device`.
  void move_to(at::Device device);

  /// The rows' specification, for region [N] int64.
  [[nodiscard]] RowSpec gather(const at::Tensor& region) const;

 private:
  at::Tensor lo_, hi_, instance_, first_region_, label_, a_, b_;
  TokenMasks masks_;
  SetRows set_;
  int64_t cases_ = 1;
};

/// x [N, D] moved to the nearest point of its box, and into its set.
[[nodiscard]] at::Tensor project(const at::Tensor& x, const RowSpec& spec);

/// `spec` with boxes in which every bit of a token mask is what it is in x [N, D]: whatever else
/// moves, only a mutation of masks changes one.
[[nodiscard]] RowSpec with_bits_of(const RowSpec& spec, const at::Tensor& x);

/// The middle of boxes given by their bounds, of any shape; inside, whatever rounding does.
[[nodiscard]] at::Tensor box_centre(const at::Tensor& lo, const at::Tensor& hi);

/// Distance from a violation [N] for outputs y [N, K]: min over cases of max over rows of (a y -
/// b),
/// <= 0 violates; +inf where an output is NaN.
[[nodiscard]] at::Tensor margins(const at::Tensor& y, const RowSpec& spec);

/// What a gradient step increases.
enum class Loss {
  kHinge,         ///< minus the margin: of the nearest case, its farthest row
  kCrossEntropy,  ///< of the row's label, where all regions are top-1; the hinge otherwise
};

struct Judgement {
  at::Tensor margin;    ///< [N], as margins() says
  at::Tensor gradient;  ///< dL/dy [N, K]
};

/// Both in one walk over the rows.
[[nodiscard]] Judgement judge(const at::Tensor& y, const RowSpec& spec, Loss loss);

/// dL/dy [N, K].
[[nodiscard]] at::Tensor loss_gradient(const at::Tensor& y, const RowSpec& spec, Loss loss);

/// Kinds of output property: what `violated` means, compiled to cases.
struct OutputKind {
  std::string_view name, summary;
  /// Whether the region's cases are of this kind; the first row of the table that matches names it.
  bool (*matches)(const Region& region, int64_t outputs);
};

/// top1, margin, range, linear, dnf: all through margins().
[[nodiscard]] std::span<const OutputKind> output_kinds();

/// The first kind that matches.
[[nodiscard]] const OutputKind& output_kind(const Region& region, int64_t outputs);

}  // namespace grapeshot
