// grapeshot/core/set_rows.h: core/input_set.h for a batch: projection, steps and draws that stay
// inside.
//
// Shapes: N rows, D inputs, G groups of at most W features. Nothing here waits for the device, and
// row i of a result depends on row i of the arguments only.
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/property.h"
#include "grapeshot/core/rng.h"

namespace grapeshot {

/// What N rows keep to besides their boxes. Grid and groups are the same for all of them.
struct SetRows {
  BallNorm norm = BallNorm::kNone;
  at::Tensor centre;        ///< [N, D]
  at::Tensor radius;        ///< [N, 1] float64
  at::Tensor origin, step;  ///< [D] float64 of the grid, undefined without one
  at::Tensor groups;        ///< [G, W] int64 features; the last ones of short groups come twice
  at::Tensor grouped;       ///< [D] bool: in a group

  [[nodiscard]] bool any() const {
    return norm != BallNorm::kNone || step.defined() || groups.defined();
  }
  [[nodiscard]] bool has_ball() const { return norm != BallNorm::kNone; }

  /// Rows [begin, end) as views; rows by index [M]; on another device.
  [[nodiscard]] SetRows slice(int64_t begin, int64_t end) const;
  [[nodiscard]] SetRows pick(const at::Tensor& rows) const;
  void move_to(at::Device device);
};

/// One row a region, in the order of `properties`. Throws Error{kUnsupported} where regions differ
/// in their norm, grid or groups.
[[nodiscard]] SetRows set_rows(std::span<const Property* const> properties);

/// x [N, D] float32 moved inside of its set and box lo, hi [N, D]: for a box and a ball the nearest
/// point of both together (exactly, rounded towards the centre; a row that is inside stays), then
/// the nearest values of the grid, those towards the centre where they would leave the ball, then
/// the largest of every group. Ball centres are in their boxes.
[[nodiscard]] at::Tensor project(const at::Tensor& x, const SetRows& set, const at::Tensor& lo,
                                 const at::Tensor& hi);

/// x moved by `size` (broadcasts to [N, D]; the length of the step for a ball, else of every
/// input's) in the steepest direction of the norm: signs, the normalised gradient (l2), or the
/// largest entries alone (l1; Tramer and Boneh, 2019). At least one value of the grid away. Of one
/// group, the one that gains most, the 1 moves where the gradient is largest (as HotFlip does,
/// Ebrahimi et al., 2018). Projected.
[[nodiscard]] at::Tensor steepest_step(const at::Tensor& x, const at::Tensor& gradient,
                                       const at::Tensor& size, const SetRows& set,
                                       const at::Tensor& lo, const at::Tensor& hi);

/// Points inside for u [N, D] in [0, 1]: of the box, or in the direction of 2 u - 1 from the centre
/// of the ball, a random part of the radius away; every group at random. Projected.
[[nodiscard]] at::Tensor draw_inside(const at::Tensor& u, const SetRows& set, const at::Tensor& lo,
                                     const at::Tensor& hi, Rng& rng);

/// `noise` [N, D] so that its length in the norm is about 1 per row, few entries large for l1; as
/// it is without a ball.
[[nodiscard]] at::Tensor noise_of_norm(const at::Tensor& noise, const SetRows& set);

/// `to` [N, D] with the groups of x [N, D], of which one or a random share have moved their 1.
[[nodiscard]] at::Tensor with_moved_ones(const at::Tensor& to, const at::Tensor& x,
                                         const SetRows& set, const at::Tensor& hi, Rng& rng);

/// The values of a grid (origin and step broadcast to x, float64) that are no farther from
/// `centre`, which is one of them, than x.
[[nodiscard]] at::Tensor grid_towards(const at::Tensor& x, const at::Tensor& centre,
                                      const at::Tensor& origin, const at::Tensor& step);

}  // namespace grapeshot
