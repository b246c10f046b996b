// grapeshot/io/onnx/widen.h: operators on element types that torch hardly computes with.
//
// uint16, uint32 and uint64, those of eight bits of floating point and those of fewer than eight
// bits go to an operator's function as a type that torch knows, and what comes back of that type
// becomes theirs again: sums and products wrap around as they should. uint64 becomes the int64 of
// the same bits; for operators that compare, after 2^63 was added, which keeps the order.
#pragma once

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

/// Whether the operator's function cannot be given these inputs as they are.
[[nodiscard]] bool needs_widening(const BoundNode& bound, const Call& call);

/// The node's outputs, its inputs widened.
[[nodiscard]] Values run_widened(const BoundNode& bound, const Call& call);

/// `t`, of any element type, with equal values in a type that torch computes with; uint64 from 2^63
/// on become negative.
[[nodiscard]] at::Tensor widened(const at::Tensor& t);

}  // namespace grapeshot::onnx
