// grapeshot/io/onnx/ops_shape.cpp: constants, types and shapes.
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

// The tensor with the file's float as the run's.
at::Tensor in_real(const Call& call, const at::Tensor& t) {
  return t.scalar_type() == at::kFloat ? t.to(call.real) : t;
}

Values constant(const Call& call) {
  if (const Attribute* a = call.node.find("value"); a && a->tensor.defined()) {
    return {Value{a->tensor, false}};
  }
  if (const Attribute* a = call.node.find("value_float"))
    return {Value{at::scalar_tensor(a->f), false}};
  if (const Attribute* a = call.node.find("value_int"))
    return {Value{at::scalar_tensor(a->i, at::TensorOptions(at::kLong)), false}};
  if (const Attribute* a = call.node.find("value_floats")) {
    return {Value{at::tensor(a->floats), false}};
  }
  if (const Attribute* a = call.node.find("value_ints")) return {Value{at::tensor(a->ints), false}};
  throw Error(ErrorCode::kUnsupported, "only number and tensor constants are supported");
}

Values constant_of_shape(const Call& call) {
  const std::vector<int64_t> shape = constant_ints(call, 0);
  checked_count(shape);
  const Attribute* value = call.node.find("value");
  if (!value || !value->tensor.defined()) {
    return {Value{at::zeros(shape, at::TensorOptions(call.real)), false}};
  }
  GRAPESHOT_CHECK(value->tensor.numel() == 1, kInvalidArgument, "value has ", value->tensor.numel(),
                  " entries, not one");
  return {Value{in_real(call, value->tensor).reshape({}).expand(shape).contiguous(), false}};
}

Values range(const Call& call) {
  const double start = constant_number(call, 0), limit = constant_number(call, 1),
               step = constant_number(call, 2);
  GRAPESHOT_CHECK(step != 0. && std::isfinite(start) && std::isfinite(limit) && !std::isnan(step),
                  kInvalidArgument, "a range from ", start, " to ", limit, " by ", step,
                  " has no length");
  const double count = std::max(0., std::ceil((limit - start) / step));
  checked_count({count < 1e18 ? static_cast<int64_t>(count) : std::numeric_limits<int64_t>::max()});
  const at::Tensor steps = at::arange(static_cast<int64_t>(count), at::TensorOptions(at::kLong));
  const at::Tensor& first = call.in[0].t;
  return {
      Value{steps.to(first.scalar_type()) * call.in[2].t.reshape({}) + first.reshape({}), false}};
}

Values dropout(const Call& call) {
  // A ratio of 0 in training drops nothing.
  if (call.has(2) && call.in[2].t.is_nonzero()) {
    const double ratio = call.has(1) ? constant_number(call, 1) : 0.5;
    GRAPESHOT_CHECK(ratio == 0., kUnsupported, "training_mode drops values by chance");
  }
  const Value& x = call.in[0];
  if (call.node.outputs.size() < 2) return {x};
  const at::ScalarType mask = call.opset < 10 ? x.t.scalar_type() : at::kBool;
  return {x, Value{at::ones_like(x.t, at::TensorOptions(mask)), x.rows}};
}

Values expand(const Call& call) {
  const Value& x = call.in[0];
  const std::vector<int64_t> asked = constant_ints(call, 1);
  const int64_t rank = std::max(x.rank(), static_cast<int64_t>(asked.size()));
  const Value y{with_rank(x, rank), x.rows};
  std::vector<int64_t> sizes(static_cast<size_t>(rank), 1);
  std::ranges::copy_backward(x.shape(), sizes.end());
  for (size_t i = 0; i < asked.size(); ++i) {
    int64_t& size = sizes[sizes.size() - asked.size() + i];
    GRAPESHOT_CHECK(asked[i] == size || asked[i] == 1 || size == 1, kInvalidArgument, "a size of ",
                    size, " cannot be expanded to ", asked[i]);
    if (asked[i] != 1) size = asked[i];
  }
  checked_count(sizes);
  if (x.rows) sizes.insert(sizes.begin(), x.t.size(0));
  return {Value{y.t.expand(sizes), x.rows}};
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

Values shape(const Call& call) {
  const auto sizes = call.in[0].shape();
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto clamped = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  const int64_t start = clamped(call.node.i("start", 0)), end = clamped(call.node.i("end", rank));
  const auto first = static_cast<size_t>(start);
  const auto count = static_cast<size_t>(std::max<int64_t>(end - start, 0));
  return {Value{at::tensor(sizes.slice(first, count), at::TensorOptions(at::kLong)), false}};
}

Values size(const Call& call) {
  return {
      Value{at::scalar_tensor(product(call.in[0].shape()), at::TensorOptions(at::kLong)), false}};
}

// Without axes all of size 1 go.
Values squeeze(const Call& call) {
  const Value& x = call.in[0];
  const std::vector<int64_t> axes = axes_of(call, 1);
  std::vector<bool> gone(static_cast<size_t>(x.rank()), false);
  for (const int64_t axis : axes) {
    const int64_t i = normal_axis(axis, x.rank());
    GRAPESHOT_CHECK(x.size(i) == 1, kInvalidArgument, "axis ", axis, " has size ", x.size(i),
                    ", not 1");
    gone[static_cast<size_t>(i)] = true;
  }
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool goes = axes.empty() ? x.size(i) == 1 : gone[static_cast<size_t>(i)];
    if (!goes) sizes.push_back(x.size(i));
  }
  return {reshaped(x, std::move(sizes))};
}

Values unsqueeze(const Call& call) {
  const Value& x = call.in[0];
  std::vector<int64_t> axes = axes_of(call, 1);
  const int64_t rank = x.rank() + static_cast<int64_t>(axes.size());
  for (int64_t& axis : axes) axis = normal_axis(axis, rank);
  std::ranges::sort(axes);
  GRAPESHOT_CHECK(std::ranges::adjacent_find(axes) == axes.end(), kInvalidArgument,
                  "an axis is named twice");
  std::vector<int64_t> sizes = x.shape().vec();
  for (const int64_t axis : axes) sizes.insert(sizes.begin() + axis, 1);
  return {reshaped(x, std::move(sizes))};
}

Values transpose(const Call& call) {
  const Value& x = call.in[0];
  std::vector<int64_t> perm = call.node.ints("perm", {});
  if (!call.node.find("perm")) {
    for (int64_t i = x.rank(); i-- > 0;) perm.push_back(i);
  }
  GRAPESHOT_CHECK(static_cast<int64_t>(perm.size()) == x.rank(), kInvalidArgument, "perm has ",
                  perm.size(), " entries, the input ", x.rank(), " axes");
  GRAPESHOT_CHECK(std::ranges::none_of(perm, [](int64_t axis) { return axis < 0; }),
                  kInvalidArgument, "perm has a negative entry");
  if (x.rows) {
    for (int64_t& axis : perm) axis = normal_axis(axis, x.rank()) + 1;
    perm.insert(perm.begin(), 0);
  }
  return {Value{x.t.permute(perm), x.rows}};
}

constexpr Operator kTable[] = {
    {"Constant", 1, 0, kEveryInput, "A number or a tensor.", constant, Types::kExact},
    {"ConstantOfShape", 9, 1, kNoInput, "One value in a given shape.", constant_of_shape},
    {"Dropout", 1, 1, kFirstInput, "Passes its input on, as at inference.", dropout},
    {"Expand", 8, 2, kFirstInput, "Repeated along axes of size 1.", expand},
    {"Flatten", 1, 1, kFirstInput, "Two axes: the product before `axis` and the rest.", flatten},
    {"Range", 11, 3, kNoInput, "Numbers from start to limit.", range},
    {"Reshape", 5, 2, kFirstInput, "The same values in another shape.", reshape},
    {"Shape", 1, 1, kFirstInput, "The sizes of a tensor.", shape, Types::kExact},
    {"Size", 1, 1, kFirstInput, "The number of values in a tensor.", size, Types::kExact},
    {"Squeeze", 1, 1, kFirstInput, "Without axes of size 1.", squeeze},
    {"Transpose", 1, 1, kFirstInput, "The axes in another order.", transpose},
    {"Unsqueeze", 1, 1, kFirstInput, "With axes of size 1 added.", unsqueeze},
};

}  // namespace

std::span<const Operator> shape_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
