// grapeshot/core/input_set.h: what an input keeps to besides the bounds of its box: a ball, a grid,
// one-hot groups.
//
// Plain data without Torch, and membership exactly; core/set_rows.h has the same for a batch.
// Units: the model's own input units. Indices count flattened inputs, D in all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace grapeshot {

/// The norm of a ball; none: the bounds are all there is, a ball of the largest change.
enum class BallNorm : uint8_t { kNone, kL2, kL1 };

struct BallNormRow {
  std::string_view name;  ///< as typed after --norm
  std::string_view summary;
  BallNorm norm;
};

/// linf, l2, l1.
[[nodiscard]] std::span<const BallNormRow> ball_norms();
/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const BallNormRow& find_ball_norm(std::string_view name);
[[nodiscard]] std::string_view name_of(BallNorm norm);

/// Inputs whose change from `centre` is at most `radius` long. Features of one-hot groups do not
/// count.
struct Ball {
  BallNorm norm = BallNorm::kNone;
  std::vector<float> centre = {};  ///< [D], within the bounds
  double radius = 0.;
};

/// Every feature is origin + k * step for a whole k, as the nearest float32; any value where step
/// is 0, and where the two bounds are equal.
struct Grid {
  std::vector<double> origin, step;  ///< [D]
};

/// Of every group exactly one feature is 1, the others are 0; groups share no feature.
using OneHot = std::vector<std::vector<int32_t>>;

struct InputSet {
  Ball ball = {};
  std::shared_ptr<const Grid> grid = nullptr;       ///< shared by regions, null: none
  std::shared_ptr<const OneHot> one_hot = nullptr;  ///< the same

  [[nodiscard]] bool any() const { return ball.norm != BallNorm::kNone || grid || one_hot; }
};

/// How long a change is, of the features that are in no group of `one_hot`. Sums carry twice the
/// digits of float64, so that what lies exactly on a ball is told from what does not.
[[nodiscard]] double distance(BallNorm norm, std::span<const float> x,
                              std::span<const float> centre, const OneHot* one_hot);

/// Whether x [D] is in the set; lo and hi are its box's.
[[nodiscard]] bool contains(const InputSet& set, std::span<const float> lo,
                            std::span<const float> hi, std::span<const float> x);

/// Why it is not, "its l2 distance 0.6 is above 0.5"; "" where it is.
[[nodiscard]] std::string why_outside(const InputSet& set, std::span<const float> lo,
                                      std::span<const float> hi, std::span<const float> x);

/// The ball of radius `radius` around `centre` [D] as far as it lies in the bounds: around the
/// nearest float32 within them and on the grid (which what is beyond a bound is moved to first),
/// with a radius that is smaller by the distance to it. A radius of 0 or less: nothing is left.
[[nodiscard]] Ball inner_ball(BallNorm norm, std::span<const double> centre, double radius,
                              const InputSet& others, std::span<const float> lo,
                              std::span<const float> hi);

/// The value of the grid's feature i that is nearest to v; v itself where it has no step.
[[nodiscard]] float on_grid(const Grid& grid, size_t i, double v);

/// Bounds moved inwards to the grid; equal ones stay. False where a feature has no value left.
[[nodiscard]] bool snap_bounds(const Grid& grid, std::vector<float>& lo, std::vector<float>& hi);

/// "3-7,8-10" as groups of features, each a range or numbers joined by +, or names of `names`
/// (empty: there are none). Throws Error{kInvalidArgument} naming the part that is no group of at
/// least two of `inputs` features, or shares one with another.
[[nodiscard]] OneHot parse_one_hot(std::string_view text, int64_t inputs,
                                   std::span<const std::string> names = {});

}  // namespace grapeshot
