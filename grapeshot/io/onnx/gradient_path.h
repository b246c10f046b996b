// grapeshot/io/onnx/gradient_path.h: whether gradients get from the outputs to the input at all.
#pragma once

#include <string>
#include <vector>

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

struct GradientPath {
  bool reaches = false;          ///< some way from the output to the input has a gradient
  std::vector<std::string> cut;  ///< nodes where a way ends, "'name' (ArgMax)", nearest first
};

/// Follows `network` (constants folded) back from its output through everything that has a
/// gradient or a surrogate for one.
[[nodiscard]] GradientPath gradient_path(const Network& network);

}  // namespace grapeshot::onnx
