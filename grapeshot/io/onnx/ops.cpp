#include "grapeshot/io/onnx/ops.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/element_type.h"

namespace grapeshot::onnx {

std::span<const Operator> operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> joined;
    for (const auto group :
         {algebra_operators(),       arithmetic_operators(), attention_operators(),
          control_operators(),       domain_operators(),     function_operators(),
          index_operators(),         layer_operators(),      loss_operators(),
          normalization_operators(), pool_operators(),       quantized_operators(),
          recurrent_operators(),     reduction_operators(),  resize_operators(),
          sample_operators(),        scatter_operators(),    select_operators(),
          sequence_operators(),      shape_operators(),      signal_operators(),
          type_operators()}) {
      joined.insert(joined.end(), group.begin(), group.end());
    }
    return joined;
  }();
  return all;
}

const Operator* find_operator(const Node& node, int64_t opset) {
  const std::string name = node.domain.empty() ? node.op : node.domain + "." + node.op;
  for (const Operator& each : operators()) {
    if (each.name == name && each.since <= opset) return &each;
  }
  return nullptr;
}

int64_t checked_count(at::IntArrayRef sizes) {
  constexpr int64_t kMost = int64_t{1} << 26;
  int64_t count = 1;
  for (const int64_t size : sizes) {
    GRAPESHOT_CHECK(size >= 0, kInvalidArgument, "a size of ", size, " is impossible");
    const bool fits = !__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count);
    GRAPESHOT_CHECK(fits && count <= kMost, kInvalidArgument, "a tensor of shape ", sizes,
                    " has more than ", kMost, " values");
  }
  return std::ranges::count(sizes, 0) > 0 ? 0 : count;
}

Value Value::of_sequence(std::vector<Value> values) {
  // Loops of a damaged file would fill memory, and copy what is there in every round.
  constexpr size_t kMost = size_t{1} << 12;
  GRAPESHOT_CHECK(values.size() <= kMost, kUnsupported, "a sequence has more than ", kMost,
                  " values");
  const bool rows = std::ranges::any_of(values, &Value::rows);
  return {at::Tensor(), rows, nullptr,
          std::make_shared<const std::vector<Value>>(std::move(values))};
}

at::Tensor with_rank(const Value& v, int64_t rank) {
  at::Tensor t = v.t;
  if (v.rows) {
    for (int64_t i = v.rank(); i < rank; ++i) t = t.unsqueeze(1);
  }
  return t;
}

at::Tensor as_rows(const Value& v, int64_t rows) {
  if (v.rows) return v.t;
  std::vector<int64_t> sizes = v.t.sizes().vec();
  sizes.insert(sizes.begin(), rows);
  return v.t.expand(sizes);
}

int64_t row_count(std::span<const Value> in) {
  const auto it = std::ranges::find(in, true, &Value::rows);
  return it == in.end() ? -1 : it->t.size(0);
}

Batch::Batch(const Call& call) {
  const int64_t n = row_count(call.in);
  rows = n >= 0;
  for (const Value& v : call.in) in.push_back(v.t.defined() ? as_rows(v, rows ? n : 1) : v.t);
}

Value Batch::value(const at::Tensor& y) const {
  return {rows ? y : y.squeeze(0), rows};
}

Aligned align(const Call& call, const Value& a, const Value& b) {
  const int64_t rank = std::max(a.rank(), b.rank());
  Aligned out{with_rank(a, rank), with_rank(b, rank), a.rows || b.rows};
  if (call.planning) {
    std::vector<int64_t> sizes(static_cast<size_t>(std::max(out.a.dim(), out.b.dim())), 1);
    for (const at::Tensor& t : {out.a, out.b}) {
      const size_t skipped = sizes.size() - static_cast<size_t>(t.dim());
      for (size_t i = skipped; i < sizes.size(); ++i) {
        sizes[i] = std::max(sizes[i], t.size(static_cast<int64_t>(i - skipped)));
      }
    }
    checked_count(sizes);
  }
  return out;
}

Value reshaped(const Value& v, std::vector<int64_t> shape) {
  if (v.rows) shape.insert(shape.begin(), v.t.size(0));
  return {v.t.reshape(shape), v.rows};
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

Value matmul(const Call& call, const Value& a, const Value& b) {
  if (call.planning && a.rank() >= 1 && b.rank() >= 2) {
    std::vector<int64_t> sizes = a.shape().vec();
    sizes.back() = b.size(b.rank() - 1);
    checked_count(sizes);
    sizes = b.shape().vec();
    sizes.end()[-2] = a.rank() > 1 ? a.size(a.rank() - 2) : 1;
    checked_count(sizes);
  }
  // The common case, rows times a weight matrix, is one sgemm.
  if (a.rows && !b.rows && a.rank() == 2 && b.rank() == 2) {
    return unfold_rows(at::mm(fold_rows(a), b.t), a);
  }
  // A constant matrix times rows, from the other side: one sgemm in place of one a row.
  if (!a.rows && b.rows && a.rank() == 2 && b.rank() >= 2) {
    return {at::matmul(b.t.transpose(-1, -2), a.t.t()).transpose(-1, -2), true};
  }
  const bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  const Value left = vector_a ? Value{a.t.unsqueeze(-2), a.rows} : a;
  const Value right = vector_b ? Value{b.t.unsqueeze(-1), b.rows} : b;
  const int64_t rank = std::max(left.rank(), right.rank());
  const Aligned both{with_rank(left, rank), with_rank(right, rank), left.rows || right.rows};
  if (call.planning) {
    std::vector<int64_t> sizes = (both.a.dim() >= both.b.dim() ? both.a : both.b).sizes().vec();
    GRAPESHOT_CHECK(sizes.size() >= 2, kInvalidArgument, "an operand has no axes");
    sizes.end()[-2] = both.a.size(-2);
    sizes.end()[-1] = both.b.size(-1);
    checked_count(sizes);
  }
  at::Tensor out = at::matmul(both.a, both.b);
  if (vector_b) out = out.squeeze(-1);
  if (vector_a) out = out.squeeze(vector_b ? -1 : -2);
  return {out, both.rows};
}

namespace {

const at::Tensor& constant_input(const Call& call, size_t input) {
  GRAPESHOT_CHECK(call.has(input), kInvalidArgument, "input ", input, " is missing");
  GRAPESHOT_CHECK(!call.in[input].rows, kUnsupported, "input ", input,
                  " depends on the network's input");
  return call.in[input].t;
}

}  // namespace

std::vector<int64_t> constant_ints(const Call& call, size_t input) {
  const at::Tensor& t = constant_input(call, input);
  GRAPESHOT_CHECK(t.scalar_type() == at::kLong || t.scalar_type() == at::kInt, kInvalidArgument,
                  "input ", input, " is not of an integer type");
  const at::Tensor flat = t.cpu().to(at::kLong).contiguous();
  const auto* data = flat.const_data_ptr<int64_t>();
  return {data, data + flat.numel()};
}

std::vector<double> constant_numbers(const Call& call, size_t input) {
  const at::Tensor flat = constant_input(call, input).cpu().to(at::kDouble).contiguous();
  const auto* data = flat.const_data_ptr<double>();
  return {data, data + flat.numel()};
}

double constant_number(const Call& call, size_t input) {
  const std::vector<double> values = constant_numbers(call, input);
  GRAPESHOT_CHECK(values.size() == 1, kInvalidArgument, "input ", input, " has ", values.size(),
                  " values, not one");
  return values[0];
}

int64_t constant_integer(const Call& call, size_t input) {
  const double value = constant_number(call, input);
  GRAPESHOT_CHECK(value >= -0x1p53 && value <= 0x1p53, kInvalidArgument, "input ", input, " is ",
                  value);
  return static_cast<int64_t>(value);
}

at::ScalarType type_of(const Call& call, std::string_view attribute, at::ScalarType otherwise) {
  if (!call.node.find(attribute)) return otherwise;
  const int64_t code = call.node.i(attribute, 0);
  const ElementType* type =
      code > 0 && code < (1 << 16) ? find_element_type(static_cast<int32_t>(code)) : nullptr;
  GRAPESHOT_CHECK(type, kUnsupported, "element type ", code, " is not supported");
  return type->type == at::kFloat ? call.real : type->type;
}

std::vector<int64_t> axes_of(const Call& call, size_t input) {
  if (call.node.find("axes")) return call.node.ints("axes", {});
  return call.has(input) ? constant_ints(call, input) : std::vector<int64_t>{};
}

}  // namespace grapeshot::onnx
