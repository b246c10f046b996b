// grapeshot/io/onnx/ops.h: ONNX operators on tensors that carry a row axis.
//
// A Value is an ONNX tensor of many rows at once: [N, shape...] when it depends on the input
// ("rows"), the bare shape when it is a constant. The model's own batch of 1 stays where it is, so
// no constant of the file (a baked Reshape, Gemm, Flatten) has to be rewritten: operators shift
// their axes by one, and convolutions fold the two leading axes.
//
// An operator is one function and one row of a table in ops_<group>.cpp.
#pragma once

#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "grapeshot/core/model.h"
#include "grapeshot/io/onnx/graph.h"

namespace grapeshot::onnx {

struct Value {
  at::Tensor t;       ///< undefined for an optional input that is left out
  bool rows = false;  ///< t is [N, shape...]

  [[nodiscard]] int64_t rank() const { return t.dim() - rows; }
  /// Size of the ONNX axis `i` >= 0.
  [[nodiscard]] int64_t size(int64_t i) const { return t.size(i + rows); }
  [[nodiscard]] at::IntArrayRef shape() const { return t.sizes().slice(rows); }
};

using Values = c10::SmallVector<Value, 1>;

struct Call {
  const Node& node;
  int64_t opset;
  std::span<const Value> in;
  Surrogate surrogate = Surrogate::kLoose;

  [[nodiscard]] bool has(size_t i) const { return i < in.size() && in[i].t.defined(); }
};

/// Returns the node's outputs. Throws Error{kUnsupported} without a place for attribute values it
/// cannot do, and lets c10::Error through for shapes that do not fit: the caller adds the node.
using OperatorFn = Values (*)(const Call& call);

struct Operator {
  std::string_view name;     ///< ONNX op_type
  int64_t since;             ///< first opset whose definition is implemented
  int64_t inputs;            ///< how many inputs, from the first on, must be there
  std::string_view summary;  ///< what is limited, or what it does
  OperatorFn run;
};

/// All operators, by group and then name.
[[nodiscard]] std::span<const Operator> operators();

/// The row for `node` at `opset`, or null.
[[nodiscard]] const Operator* find_operator(const Node& node, int64_t opset);

// Groups, one table each.
[[nodiscard]] std::span<const Operator> math_operators();
[[nodiscard]] std::span<const Operator> layer_operators();
[[nodiscard]] std::span<const Operator> shape_operators();

// Shared by the groups.

/// Both operands with equal ONNX rank, so that torch broadcasts them as ONNX would.
struct Aligned {
  at::Tensor a, b;
  bool rows;
};
[[nodiscard]] Aligned align(const Value& a, const Value& b);

/// [N, B, C, ...] -> [N * B, C, ...] and back; constants pass unchanged.
[[nodiscard]] at::Tensor fold_rows(const Value& v);
[[nodiscard]] Value unfold_rows(at::Tensor t, const Value& like);

/// The non-negative axis for `axis` in [-rank, rank); throws kInvalidArgument otherwise.
[[nodiscard]] int64_t normal_axis(int64_t axis, int64_t rank);

/// A x B as ONNX MatMul, operands of any rank >= 1.
[[nodiscard]] Value matmul(const Value& a, const Value& b);

/// The entries of an integer tensor that does not depend on the input.
[[nodiscard]] std::vector<int64_t> constant_ints(const Call& call, size_t input);

}  // namespace grapeshot::onnx
