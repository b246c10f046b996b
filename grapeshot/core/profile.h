// grapeshot/core/profile.h: reference statistics of a network, from inputs that it was made for.
//
// Made by `grapeshot profile`, kept as .npz (cli/profile_file.h); criteria compare with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/core/model.h"

namespace grapeshot {

/// How the neurons of one tap respond, each [neurons] float32 (Trace::means).
struct TapProfile {
  std::string name;
  at::Tensor low, high;  ///< least and largest
  at::Tensor deviation;  ///< standard deviation, of the population
};

struct Profile {
  std::string model_sha256;
  int64_t rows = 0;  ///< inputs it was made of
  std::vector<TapProfile> taps;
  std::vector<TapProfile> states = {};  ///< of recurrent layers' units, over all steps
  // Of one layer: the traces that surprise is measured against.
  std::string layer;
  at::Tensor traces = {};     ///< [rows, neurons] float32
  at::Tensor predicted = {};  ///< [rows] int64: the class of every trace

  /// Null when there is no such tap.
  [[nodiscard]] const TapProfile* find(const std::string& tap) const;
  [[nodiscard]] const TapProfile* find_states(const std::string& of) const;
};

/// The statistics of `model` on x [N, D], N >= 1, in pieces of `rows`. `layer`: the tap whose
/// traces are kept, "" for the last one before the outputs. Rows with NaN among their activations
/// are left out. Throws Error{kNotFound} for an unknown layer, kInvalidArgument when nothing is
/// left.
[[nodiscard]] Profile make_profile(const Model& model, const at::Tensor& x,
                                   const std::string& layer, int64_t rows);

/// Indices of the taps that criteria look at: all, or without those whose activation function is a
/// tap as well.
[[nodiscard]] std::vector<int64_t> counted_taps(const Model& model, bool every_tap);

}  // namespace grapeshot
