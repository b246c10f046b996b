// grapeshot/io/onnx/ops_shape.cpp: operators that move or name values without computing on them.
#include <numeric>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

Value reshaped(const Value& v, std::vector<int64_t> shape) {
  if (v.rows) shape.insert(shape.begin(), v.t.size(0));
  return {v.t.reshape(shape), v.rows};
}

int64_t product(at::IntArrayRef shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Values constant(const Call& call) {
  if (const Attribute* a = call.node.find("value"); a && a->tensor.defined()) {
    return {Value{a->tensor, false}};
  }
  if (const Attribute* a = call.node.find("value_float")) return {Value{at::tensor(a->f), false}};
  if (const Attribute* a = call.node.find("value_int")) return {Value{at::tensor(a->i), false}};
  if (const Attribute* a = call.node.find("value_floats")) {
    return {Value{at::tensor(a->floats), false}};
  }
  if (const Attribute* a = call.node.find("value_ints")) return {Value{at::tensor(a->ints), false}};
  throw Error(ErrorCode::kUnsupported, "only number and tensor constants are supported");
}

Values flatten(const Call& call) {
  const Value& x = call.in[0];
  int64_t axis = call.node.i("axis", 1);
  GRAPESHOT_CHECK(-x.rank() <= axis && axis <= x.rank(), kInvalidArgument, "axis ", axis,
                  " does not exist in a tensor of rank ", x.rank());
  if (axis < 0) axis += x.rank();
  const auto split = static_cast<size_t>(axis);
  return {reshaped(x, {product(x.shape().slice(0, split)), product(x.shape().slice(split))})};
}

Values identity(const Call& call) {
  return {call.in[0]};
}

Values dropout(const Call& call) {
  if (call.has(2)) {
    GRAPESHOT_CHECK(!call.in[2].rows && !call.in[2].t.is_nonzero(), kUnsupported,
                    "training_mode is not supported");
  }
  return identity(call);
}

Values reshape(const Call& call) {
  const Value& x = call.in[0];
  std::vector<int64_t> shape = constant_ints(call, 1);
  const bool copies_zero = call.node.i("allowzero", 0) == 0;
  int64_t inferred = -1, known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    if (shape[i] == 0 && copies_zero) {
      GRAPESHOT_CHECK(axis < x.rank(), kInvalidArgument, "shape entry ", i,
                      " is 0 (copy), the input has only ", x.rank(), " axes");
      shape[i] = x.size(axis);
    }
    GRAPESHOT_CHECK(shape[i] >= -1 && (shape[i] >= 0 || inferred < 0), kInvalidArgument,
                    "the shape has more than one -1 or a negative entry");
    if (shape[i] < 0) {
      inferred = axis;
    } else {
      GRAPESHOT_CHECK(!__builtin_mul_overflow(known, shape[i], &known), kInvalidArgument,
                      "the shape has an impossible entry ", shape[i]);
    }
  }
  const int64_t total = product(x.shape());
  if (inferred >= 0) {
    GRAPESHOT_CHECK(known > 0 && total % known == 0, kInvalidArgument, total,
                    " values do not fit the shape");
    shape[static_cast<size_t>(inferred)] = total / known;
  } else {
    GRAPESHOT_CHECK(known == total, kInvalidArgument, total, " values do not fit a shape of ",
                    known);
  }
  return {reshaped(x, std::move(shape))};
}

Values transpose(const Call& call) {
  const Value& x = call.in[0];
  std::vector<int64_t> perm = call.node.ints("perm", {});
  if (!call.node.find("perm")) {
    for (int64_t i = x.rank(); i-- > 0;) perm.push_back(i);
  }
  GRAPESHOT_CHECK(static_cast<int64_t>(perm.size()) == x.rank(), kInvalidArgument, "perm has ",
                  perm.size(), " entries, the input ", x.rank(), " axes");
  if (x.rows) {
    for (int64_t& axis : perm) ++axis;
    perm.insert(perm.begin(), 0);
  }
  return {Value{x.t.permute(perm), x.rows}};
}

constexpr Operator kTable[] = {
    {"Constant", 1, 0, "A number or a tensor.", constant},
    {"Dropout", 1, 1, "Passes its input on, as at inference; the mask is not computed.", dropout},
    {"Flatten", 1, 1, "Two axes: the product before `axis` and the rest.", flatten},
    {"Identity", 1, 1, "Passes its input on.", identity},
    {"Reshape", 5, 2, "The same values in a constant shape.", reshape},
    {"Transpose", 1, 1, "The axes in another order.", transpose},
};

}  // namespace

std::span<const Operator> shape_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
