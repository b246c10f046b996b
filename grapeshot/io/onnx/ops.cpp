#include "grapeshot/io/onnx/ops.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot::onnx {

std::span<const Operator> operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> joined;
    for (const auto group : {math_operators(), layer_operators(), shape_operators()}) {
      joined.insert(joined.end(), group.begin(), group.end());
    }
    return joined;
  }();
  return all;
}

const Operator* find_operator(const Node& node, int64_t opset) {
  if (!node.domain.empty()) return nullptr;
  for (const Operator& each : operators()) {
    if (each.name == node.op && each.since <= opset) return &each;
  }
  return nullptr;
}

namespace {

// [N, shape...] -> [N, 1..., shape...] with `rank` ONNX axes.
at::Tensor with_rank(const Value& v, int64_t rank) {
  at::Tensor t = v.t;
  if (v.rows) {
    for (int64_t i = v.rank(); i < rank; ++i) t = t.unsqueeze(1);
  }
  return t;
}

}  // namespace

Aligned align(const Value& a, const Value& b) {
  const int64_t rank = std::max(a.rank(), b.rank());
  return {with_rank(a, rank), with_rank(b, rank), a.rows || b.rows};
}

at::Tensor fold_rows(const Value& v) {
  if (!v.rows) return v.t;
  GRAPESHOT_CHECK(v.rank() >= 2, kInvalidArgument, "the input has no batch and channel axes");
  // squeeze keeps a channels-last tensor a view; flatten may have to copy it.
  return v.t.size(1) == 1 ? v.t.squeeze(1) : v.t.flatten(0, 1);
}

Value unfold_rows(at::Tensor t, const Value& like) {
  if (!like.rows) return {std::move(t), false};
  if (like.t.size(1) == 1) return {t.unsqueeze(1), true};
  std::vector<int64_t> shape = {like.t.size(0), like.t.size(1)};
  shape.insert(shape.end(), t.sizes().begin() + 1, t.sizes().end());
  return {t.reshape(shape), true};
}

int64_t normal_axis(int64_t axis, int64_t rank) {
  GRAPESHOT_CHECK(-rank <= axis && axis < rank, kInvalidArgument, "axis ", axis,
                  " does not exist in a tensor of rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

Value matmul(const Value& a, const Value& b) {
  // The common case, rows times a weight matrix, is one sgemm.
  if (a.rows && !b.rows && a.rank() == 2 && b.rank() == 2) {
    return unfold_rows(at::mm(fold_rows(a), b.t), a);
  }
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  const Value left = vector_a ? Value{a.t.unsqueeze(-2), a.rows} : a;
  const Value right = vector_b ? Value{b.t.unsqueeze(-1), b.rows} : b;
  const Aligned both = align(left, right);
  at::Tensor out = at::matmul(both.a, both.b);
  if (vector_b) out = out.squeeze(-1);
  if (vector_a) out = out.squeeze(vector_b ? -1 : -2);
  return {out, both.rows};
}

std::vector<int64_t> constant_ints(const Call& call, size_t input) {
  const Value& v = call.in[input];
  GRAPESHOT_CHECK(!v.rows, kUnsupported, "input ", input, " depends on the network's input");
  GRAPESHOT_CHECK(v.t.scalar_type() == at::kLong || v.t.scalar_type() == at::kInt, kInvalidArgument,
                  "input ", input, " is not of an integer type");
  const at::Tensor flat = v.t.to(at::kLong).contiguous();
  const auto* data = flat.const_data_ptr<int64_t>();
  return {data, data + flat.numel()};
}

}  // namespace grapeshot::onnx
