// grapeshot/io/onnx/ops.h: ONNX operators on tensors that carry a row axis.
//
// A Value is an ONNX tensor of many rows at once: [N, shape...] when it depends on the input
// ("rows"), the bare shape when it is a constant. The model's own batch of 1 stays where it is, so
// no constant of the file (a baked Reshape, Gemm, Flatten) has to be rewritten: operators shift
// their axes by one, and convolutions fold the two leading axes.
//
// Where an operator needs a constant (the start of a Slice) and gets something that depends on the
// row, it runs row by row, each row as a constant; results of equal shapes are stacked again,
// others stay "ragged" until an operator makes them equal. Operators themselves never see ragged
// values.
//
// An operator is one function and one row of a table in ops_<group>.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "grapeshot/core/model.h"
#include "grapeshot/io/onnx/graph.h"

namespace grapeshot::onnx {

struct Value {
  at::Tensor t;       ///< undefined for an optional input that is left out, and for ragged values
  bool rows = false;  ///< t is [N, shape...]
  std::shared_ptr<const std::vector<at::Tensor>> ragged = nullptr;  ///< a tensor a row
  std::shared_ptr<const std::vector<Value>> sequence = nullptr;     ///< where it is one; t is not

  /// A sequence, which depends on the row where one of its values does.
  [[nodiscard]] static Value of_sequence(std::vector<Value> values);
  /// Whether there is a value: an optional input may be left out, an optional may be empty.
  [[nodiscard]] bool there() const { return t.defined() || ragged || sequence; }

  [[nodiscard]] int64_t rank() const { return t.dim() - rows; }
  /// Size of the ONNX axis `i` >= 0.
  [[nodiscard]] int64_t size(int64_t i) const { return t.size(i + rows); }
  [[nodiscard]] at::IntArrayRef shape() const { return t.sizes().slice(rows); }
};

using Values = c10::SmallVector<Value, 1>;

struct BoundBody;

struct Call {
  const Node& node;
  int64_t opset;
  std::span<const Value> in;
  Surrogate surrogate = Surrogate::kLoose;
  at::ScalarType real = at::kFloat;  ///< what the file calls float: float32, or float64 when asked
  bool planning = false;             ///< the first run of a network: sizes are checked
  std::span<const std::shared_ptr<const BoundBody>> bodies = {};  ///< subgraphs, see body.h
  at::ScalarType narrow = at::ScalarType::Undefined;  ///< of the first input before it was widened

  [[nodiscard]] bool has(size_t i) const { return i < in.size() && in[i].t.defined(); }
};

/// Returns the node's outputs. Throws Error{kUnsupported} without a place for attribute values it
/// cannot do, and lets c10::Error through for shapes that do not fit: the caller adds the node.
using OperatorFn = Values (*)(const Call& call);

/// Which inputs may depend on the network's input without the operator running row by row: bit i
/// for input i.
constexpr uint32_t kEveryInput = ~0u, kFirstInput = 1u, kNoInput = 0u;

/// What the operator's function sees of element types that torch hardly computes with (widen.h),
/// and which of its outputs are of them.
enum class Types {
  kLike,          ///< wider ones; outputs of the wider type become like the first input
  kOrdered,       ///< the same for an operator that compares numbers, or picks the largest
  kOrderedFirst,  ///< the same, but only the first output becomes like the input
  kOrderedNone,   ///< the same, but no output does
  kExact,         ///< all types as they are
};

struct Operator {
  std::string_view name;     ///< ONNX op_type, after its domain and a dot where it has one
  int64_t since;             ///< first opset whose definition is implemented
  int64_t inputs;            ///< how many inputs, from the first on, must be there
  uint32_t batched;          ///< kEveryInput, kFirstInput, ...
  std::string_view summary;  ///< what is limited, or what it does
  OperatorFn run;
  Types types = Types::kLike;
};

/// All operators, by group and then name.
[[nodiscard]] std::span<const Operator> operators();

/// The row for `node` at `opset`, or null.
[[nodiscard]] const Operator* find_operator(const Node& node, int64_t opset);

// Groups, one table each.
[[nodiscard]] std::span<const Operator> algebra_operators();
[[nodiscard]] std::span<const Operator> arithmetic_operators();
[[nodiscard]] std::span<const Operator> attention_operators();
[[nodiscard]] std::span<const Operator> control_operators();
[[nodiscard]] std::span<const Operator> domain_operators();
[[nodiscard]] std::span<const Operator> function_operators();
[[nodiscard]] std::span<const Operator> index_operators();
[[nodiscard]] std::span<const Operator> layer_operators();
[[nodiscard]] std::span<const Operator> loss_operators();
[[nodiscard]] std::span<const Operator> normalization_operators();
[[nodiscard]] std::span<const Operator> pool_operators();
[[nodiscard]] std::span<const Operator> quantized_operators();
[[nodiscard]] std::span<const Operator> recurrent_operators();
[[nodiscard]] std::span<const Operator> reduction_operators();
[[nodiscard]] std::span<const Operator> resize_operators();
[[nodiscard]] std::span<const Operator> sample_operators();
[[nodiscard]] std::span<const Operator> scatter_operators();
[[nodiscard]] std::span<const Operator> select_operators();
[[nodiscard]] std::span<const Operator> sequence_operators();
[[nodiscard]] std::span<const Operator> shape_operators();
[[nodiscard]] std::span<const Operator> signal_operators();
[[nodiscard]] std::span<const Operator> type_operators();

// Shared by the groups.

/// Values of a tensor with the shape `sizes`; throws kInvalidArgument when torch could not hold
/// them or when they are more than a network has in earnest (2^26).
int64_t checked_count(at::IntArrayRef sizes);

/// Both operands with equal ONNX rank, so that torch broadcasts them as ONNX would.
struct Aligned {
  at::Tensor a, b;
  bool rows;
};
[[nodiscard]] Aligned align(const Call& call, const Value& a, const Value& b);

/// `v` with 1s in front of its ONNX shape up to `rank` axes.
[[nodiscard]] at::Tensor with_rank(const Value& v, int64_t rank);

/// `v` as [N, shape...], `rows` rows of it when it is a constant.
[[nodiscard]] at::Tensor as_rows(const Value& v, int64_t rows);

/// N of the first of `in` that depends on the network's input, or -1.
[[nodiscard]] int64_t row_count(std::span<const Value> in);

/// The inputs of a call with a row axis in front, of size 1 where none depends on the row, so that
/// an operator may always shift its axes by one.
struct Batch {
  std::vector<at::Tensor> in;  ///< by input, undefined where it is left out
  bool rows = false;           ///< whether any depends on the row

  explicit Batch(const Call& call);

  [[nodiscard]] bool has(size_t i) const { return i < in.size() && in[i].defined(); }
  /// Size of the ONNX axis `i` >= 0 of an input.
  [[nodiscard]] int64_t size(size_t input, int64_t i) const { return in[input].size(i + 1); }
  /// A result with a row axis in front.
  [[nodiscard]] Value value(const at::Tensor& y) const;
};

/// [N, B, C, ...] -> [N * B, C, ...] and back; constants pass unchanged.
[[nodiscard]] at::Tensor fold_rows(const Value& v);
[[nodiscard]] Value unfold_rows(at::Tensor t, const Value& like);

/// `v` reshaped; `shape` is the ONNX shape.
[[nodiscard]] Value reshaped(const Value& v, std::vector<int64_t> shape);

/// The non-negative axis for `axis` in [-rank, rank); throws kInvalidArgument otherwise.
[[nodiscard]] int64_t normal_axis(int64_t axis, int64_t rank);

/// A x B as ONNX MatMul, operands of any rank >= 1.
[[nodiscard]] Value matmul(const Call& call, const Value& a, const Value& b);

/// Conv of `x` with weights and a bias that may be undefined, the node's attributes as Conv's.
[[nodiscard]] Value convolution(const Call& call, const Value& x, const at::Tensor& weight,
                                const at::Tensor& bias);

/// The entries of an integer tensor that does not depend on the input.
[[nodiscard]] std::vector<int64_t> constant_ints(const Call& call, size_t input);

/// The same for numbers, of one value.
[[nodiscard]] std::vector<double> constant_numbers(const Call& call, size_t input);
[[nodiscard]] double constant_number(const Call& call, size_t input);
/// A whole number within +-2^53, of any type.
[[nodiscard]] int64_t constant_integer(const Call& call, size_t input);

/// The torch type of the element type that an attribute names; what the file calls float is the
/// run's. Throws kUnsupported for strings and complex numbers.
[[nodiscard]] at::ScalarType type_of(const Call& call, std::string_view attribute,
                                     at::ScalarType otherwise);

/// `axes` as an attribute, or as input `input` where the opset has it there; empty when neither is
/// given. Not yet normalised.
[[nodiscard]] std::vector<int64_t> axes_of(const Call& call, size_t input);

/// dL/dx of MaxPool with output `out` for dL/dy, for the calls that it suits.
[[nodiscard]] bool max_pool_pulls(const Call& call);
[[nodiscard]] at::Tensor max_pool_gradient(const Call& call, const Value& out,
                                           const at::Tensor& gradient);

/// Kernel, stride, dilation and padding of a convolution or pooling over its spatial axes.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  bool ceil = false;

  [[nodiscard]] bool symmetric() const { return before == after; }

  /// torch's constant_pad_nd order: last axis first, before and after.
  [[nodiscard]] std::vector<int64_t> torch_padding() const;

  /// Takes torch's part of the padding out and, with ceil_mode, adds what the last windows reach
  /// beyond it; as in ONNX and torch no window starts after the input and the padding before it.
  /// Returns torch's order.
  std::vector<int64_t> take_padding(at::IntArrayRef spatial);
};

/// What the node's attributes say over `n` spatial axes, auto_pad and the input's size left out.
[[nodiscard]] Window plain_window(const Call& call, size_t n, std::vector<int64_t> kernel);

/// The window of a node over an input of size `spatial`, auto_pad worked out; `kernel` is used
/// where the node gives no kernel_shape.
[[nodiscard]] Window read_window(const Call& call, at::IntArrayRef spatial,
                                 std::vector<int64_t> kernel);

}  // namespace grapeshot::onnx
