// grapeshot/diff/reference.h: what the images of a run are taken for, before anything changes them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/diff/subject.h"

namespace grapeshot::diff {

/// What an image itself is taken for.
struct Reference {
  int64_t label = 0;
  std::vector<int64_t> rivals;  ///< the next classes, best first
  double norm = 0.;             ///< L2, of the image
  bool agreed = true;           ///< all models say `label`, with finite outputs
};

/// Of every image of `images` [N, D], by passes of `rows` rows of all subjects; `top_k` rivals at
/// most. Empty where the deadline was stopped before the end.
[[nodiscard]] std::vector<Reference> references_of(
    const std::vector<std::unique_ptr<Subject>>& subjects, const at::Tensor& images, int64_t rows,
    int64_t top_k, const Deadline& deadline);

}  // namespace grapeshot::diff
