// grapeshot/io/onnx/ops_reduction.cpp: sums, extremes and orders along axes.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

using Reduction = at::Tensor (*)(const at::Tensor& x, at::IntArrayRef axes, bool keep);

// Axes are an attribute up to opset 17 (ReduceSum: 12), then an input.
template <Reduction kReduction>
Values reduce(const Call& call) {
  const Value& x = call.in[0];
  const bool keep = call.node.i("keepdims", 1) != 0;
  std::vector<int64_t> axes = axes_of(call, 1);
  if (axes.empty()) {
    // Nothing is summed up, but a square or a logarithm is still taken.
    if (call.node.i("noop_with_empty_axes", 0) != 0 || x.rank() == 0) {
      return {Value{kReduction(x.t.unsqueeze(-1), {x.t.dim()}, false), x.rows}};
    }
    axes.resize(static_cast<size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = normal_axis(axis, x.rank()) + x.rows;
  return {Value{kReduction(x.t, axes, keep), x.rows}};
}

at::Tensor sum(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return x.sum(axes, keep, x.scalar_type());
}
at::Tensor mean(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  if (x.is_floating_point()) return x.mean(axes, keep);
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x.size(axis);
  return at::div(sum(x, axes, keep), std::max<int64_t>(count, 1), "trunc");
}
// Of no values at all the extreme is the type's own, -infinity for the largest.
at::Tensor extreme(const at::Tensor& x, at::IntArrayRef axes, bool keep, bool largest) {
  const bool none = std::ranges::any_of(axes, [&](int64_t axis) { return x.size(axis) == 0; });
  if (!none) return largest ? x.amax(axes, keep) : x.amin(axes, keep);
  const at::Tensor like = sum(x, axes, keep);
  if (x.scalar_type() == at::kBool) return at::full_like(like, !largest, x.options());
  const double infinity = std::numeric_limits<double>::infinity();
  if (x.is_floating_point()) return at::full_like(like, largest ? -infinity : infinity);
  const int64_t bits = 8 * x.element_size();
  const bool is_signed = x.scalar_type() != at::kByte;
  const int64_t most = is_signed ? std::numeric_limits<int64_t>::max() >> (64 - bits) : 255;
  return at::full_like(like, largest ? (is_signed ? -most - 1 : 0) : most);
}
at::Tensor maximum(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return extreme(x, axes, keep, true);
}
at::Tensor minimum(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return extreme(x, axes, keep, false);
}
at::Tensor product(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  at::Tensor out = x;
  std::vector<int64_t> left = axes.vec();
  std::ranges::sort(left, std::greater<>());
  for (const int64_t axis : left) out = out.prod(axis, keep, x.scalar_type());
  return out;
}
at::Tensor sum_of_sizes(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return sum(x.abs(), axes, keep);
}
at::Tensor sum_of_squares(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return sum(x * x, axes, keep);
}
at::Tensor norm(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return sum_of_squares(x, axes, keep).sqrt().to(x.scalar_type());
}
at::Tensor log_sum(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return sum(x, axes, keep).log().to(x.scalar_type());
}
at::Tensor log_sum_exp(const at::Tensor& x, at::IntArrayRef axes, bool keep) {
  return x.is_floating_point() ? at::logsumexp(x, axes, keep)
                               : at::logsumexp(x.to(at::kDouble), axes, keep).to(x.scalar_type());
}

template <bool kLargest>
Values arg_extreme(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(call.node.i("axis", 0), x.rank()) + x.rows;
  const bool keep = call.node.i("keepdims", 1) != 0;
  const bool last = call.node.i("select_last_index", 0) != 0;
  const at::Tensor from = last ? x.t.flip(axis) : x.t;
  at::Tensor index = kLargest ? from.argmax(axis, keep) : from.argmin(axis, keep);
  if (last) index = x.t.size(axis) - 1 - index;
  return {Value{index, x.rows}};
}

Values cumulative_sum(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(constant_integer(call, 1), x.rank()) + x.rows;
  const bool reverse = call.node.i("reverse", 0) != 0;
  const at::Tensor from = reverse ? x.t.flip(axis) : x.t;
  at::Tensor y = from.cumsum(axis, x.t.scalar_type());
  if (call.node.i("exclusive", 0) != 0) y = y - from;
  return {Value{reverse ? y.flip(axis) : y, x.rows}};
}

Values top_k(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(call.node.i("axis", -1), x.rank()) + x.rows;
  const int64_t k = call.opset < 10 ? call.node.i("k", -1) : constant_integer(call, 1);
  GRAPESHOT_CHECK(k >= 0 && k <= x.t.size(axis), kInvalidArgument, "k is ", k, " along an axis of ",
                  x.t.size(axis));
  // Of equal values ONNX takes the one with the smaller index, which is what a stable sort gives.
  const bool largest = call.node.i("largest", 1) != 0;
  const auto [values, indices] = at::sort(x.t, /*stable=*/true, axis, largest);
  return {Value{values.slice(axis, 0, k), x.rows}, Value{indices.slice(axis, 0, k), x.rows}};
}

constexpr Operator kTable[] = {
    {"ArgMax", 1, 1, kEveryInput, "Index of the largest value along an axis.", arg_extreme<true>,
     Types::kOrderedNone},
    {"ArgMin", 1, 1, kEveryInput, "Index of the smallest value along an axis.", arg_extreme<false>,
     Types::kOrderedNone},
    {"CumSum", 11, 2, kFirstInput, "Running sum along an axis.", cumulative_sum},
    {"ReduceL1", 1, 1, kFirstInput, "Sum of |x| along axes.", reduce<sum_of_sizes>},
    {"ReduceL2", 1, 1, kFirstInput, "Euclidean norm along axes.", reduce<norm>},
    {"ReduceLogSum", 1, 1, kFirstInput, "Logarithm of the sum along axes.", reduce<log_sum>},
    {"ReduceLogSumExp", 1, 1, kFirstInput, "Logarithm of the sum of exponentials along axes.",
     reduce<log_sum_exp>},
    {"ReduceMax", 1, 1, kFirstInput, "Largest value along axes.", reduce<maximum>, Types::kOrdered},
    {"ReduceMean", 1, 1, kFirstInput, "Mean along axes.", reduce<mean>},
    {"ReduceMin", 1, 1, kFirstInput, "Smallest value along axes.", reduce<minimum>,
     Types::kOrdered},
    {"ReduceProd", 1, 1, kFirstInput, "Product along axes.", reduce<product>},
    {"ReduceSum", 1, 1, kFirstInput, "Sum along axes.", reduce<sum>},
    {"ReduceSumSquare", 1, 1, kFirstInput, "Sum of squares along axes.", reduce<sum_of_squares>},
    {"TopK", 1, 1, kFirstInput, "The k largest or smallest values along an axis, in order.", top_k,
     Types::kOrderedFirst},
};

}  // namespace

std::span<const Operator> reduction_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
