// grapeshot/diff/transform.h: images as they are after another look of the camera: moved, scaled,
// sheared, turned, lighter, blurred, noisy (DeepTest: Tian, Pei, Jana, Ray, 2018; DeepHunter: Xie,
// Ma, Juefei-Xu, Xue, Chen, Liu, Zhao, Li, Yin, See, 2019).
//
// A transformation is one function and one row of the table in transform.cpp. Every row of a batch
// has parameters of its own.
//
// Shapes: n rows, C planes (all axes but the last two), H, W, P parameters. All is float64.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/rng.h"

namespace grapeshot::diff {

/// What inputs may be. `low` is black: what is left free by moving an image, what contrast scales
/// from.
struct ValidRange {
  double low = 0., high = 1.;
  double grid = 0.;  ///< inputs are multiples of this; 0: any

  [[nodiscard]] double width() const { return high - low; }
};

struct Interval {
  double low = 0., high = 0.;
};

/// Drawn uniformly from the interval of the set in use.
struct Parameter {
  std::string_view name;
  Interval deephunter, deeptest;
  bool whole = false;   ///< whole numbers only
  bool pixels = false;  ///< a distance: half of the shorter side at most
};

struct Transformation {
  std::string_view name, summary;
  /// [n, C, H, W] of x [n, C, H, W] and parameters [n, P]; it may leave the range.
  at::Tensor (*apply)(const at::Tensor& x, const at::Tensor& parameters, const ValidRange& range,
                      Rng& rng) = nullptr;
  std::array<Parameter, 2> parameters = {};
  size_t count = 1;      ///< P
  bool affine = false;   ///< moves pixels
  bool deeptest = true;  ///< one of DeepTest's; DeepHunter has them all
};

[[nodiscard]] std::span<const Transformation> transformations();

/// Throws Error{kNotFound}, listing the known names.
[[nodiscard]] const Transformation& find_transformation(std::string_view name);

/// What --transform names: "deephunter", "deeptest", or rows with DeepHunter's ranges.
struct TransformationSet {
  std::vector<const Transformation*> rows;
  bool deeptest = false;  ///< with DeepTest's ranges
};

/// Of "rotate+blur"; throws Error{kNotFound, kInvalidArgument}.
[[nodiscard]] TransformationSet parse_transformations(std::string_view text);

/// Parameters [n, P] for images of h x w.
[[nodiscard]] at::Tensor draw_parameters(const Transformation& row, bool deeptest, int64_t n,
                                         int64_t h, int64_t w, Rng& rng);

/// `row` applied to x [n, C, H, W] (any floating type), brought into the range and on the grid;
/// float32.
[[nodiscard]] at::Tensor transform(const Transformation& row, const at::Tensor& x,
                                   const at::Tensor& parameters, const ValidRange& range, Rng& rng);

}  // namespace grapeshot::diff
