// grapeshot/io/onnx/pulls.h: gradients of the operators that networks are mostly made of, without
// autograd: an operator's own is one function and one row of the table in pulls.cpp. Program's
// gradient asks autograd for the others, one operator at a time.
#pragma once

#include <string_view>

#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {

/// What an operator with one output was called with, its output, and dL/d(output) of the output's
/// shape.
struct Pull {
  const Call& call;
  const Value& out;
  at::Tensor gradient;
};

/// dL/d(input) for the operator's inputs, in order; undefined, or left out at the end, where
/// nothing depends on them. Shapes are those of the inputs.
using Pulled = c10::SmallVector<at::Tensor, 2>;
using PullFn = Pulled (*)(const Pull& pull);

/// The function for a call of an ONNX operator or a lowered one, or null.
[[nodiscard]] PullFn find_pull(const Call& call);

}  // namespace grapeshot::onnx
