// grapeshot/io/onnx/ops_control.cpp: operators that run subgraphs.
//
// A subgraph runs on all rows at once where nothing that decides depends on the row: which branch,
// how often, and of which shape. Otherwise the importer runs the operator row by row.
#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/body.h"
#include "grapeshot/io/onnx/element_type.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

bool is_true(const Value& v) {
  GRAPESHOT_CHECK(!v.rows && v.t.defined() && v.t.numel() == 1, kUnsupported,
                  "a condition is no single value that no row changes");
  return v.t.is_nonzero();
}

Values branch(const Call& call) {
  return run_body(call, is_true(call.in[0]) ? "then_branch" : "else_branch", {});
}

// What a subgraph gives in every round: one tensor, with an axis of rounds at `axis`.
Value stacked(std::vector<Value> rounds, int64_t axis, const Port& port) {
  if (rounds.empty()) {
    std::vector<int64_t> sizes;
    for (const int64_t size : port.shape) sizes.push_back(std::max<int64_t>(size, 0));
    sizes.insert(sizes.begin() + normal_axis(axis, static_cast<int64_t>(sizes.size()) + 1), 0);
    const ElementType* type = find_element_type(port.element);
    return {at::zeros(sizes, at::TensorOptions(type ? type->type : at::kFloat)), false};
  }
  const int64_t n = row_count(rounds);
  std::vector<at::Tensor> parts;
  for (const Value& each : rounds) {
    GRAPESHOT_CHECK(each.t.defined(), kUnsupported, "an output of every round is no tensor");
    parts.push_back(n < 0 ? each.t : as_rows(each, n));
  }
  std::vector<int64_t> sizes = parts[0].sizes().vec();
  sizes.push_back(static_cast<int64_t>(parts.size()));
  checked_count(sizes);
  const int64_t rank = parts[0].dim() + 1 - (n >= 0);
  return {at::stack(parts, normal_axis(axis, rank) + (n >= 0)), n >= 0};
}

Values loop(const Call& call) {
  const auto own = call.in.first(own_inputs(call));
  GRAPESHOT_CHECK(own.size() >= 2, kInvalidArgument, "it has fewer than two inputs");
  const int64_t most =
      own[0].there() ? constant_integer(call, 0) : std::numeric_limits<int64_t>::max();
  bool goes_on = !own[1].there() || is_true(own[1]);
  std::vector<Value> state(own.begin() + 2, own.end());
  const BoundBody& body = find_body(call, "body");
  GRAPESHOT_CHECK(body.outputs.size() > state.size(), kInvalidArgument, "its body has ",
                  body.outputs.size(), " outputs for ", state.size(), " values that are carried");
  std::vector<std::vector<Value>> every(body.outputs.size() - 1 - state.size());
  for (int64_t i = 0; i < most && goes_on; ++i) {
    std::vector<Value> in = {{at::scalar_tensor(i, at::TensorOptions(at::kLong)), false},
                             {at::scalar_tensor(true, at::TensorOptions(at::kBool)), false}};
    in.insert(in.end(), state.begin(), state.end());
    const Values out = run_body(call, "body", in);
    goes_on = is_true(out[0]);
    for (size_t k = 0; k < state.size(); ++k) state[k] = out[1 + k];
    for (size_t k = 0; k < every.size(); ++k) every[k].push_back(out[1 + state.size() + k]);
  }
  Values out(state.begin(), state.end());
  for (size_t k = 0; k < every.size(); ++k) {
    out.push_back(stacked(std::move(every[k]), 0, body.outputs[1 + state.size() + k]));
  }
  return out;
}

int64_t entry(const std::vector<int64_t>& list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

// One pass over sequences along their axes; `values` are the states, then the sequences.
Values scan_once(const Call& call, std::span<const Value> values, size_t sequences,
                 const std::vector<int64_t>& in_axes, const std::vector<int64_t>& in_directions) {
  const BoundBody& body = find_body(call, "body");
  const size_t states = values.size() - sequences;
  GRAPESHOT_CHECK(body.outputs.size() >= states, kInvalidArgument, "its body has ",
                  body.outputs.size(), " outputs for ", states, " states");
  const std::vector<int64_t> out_axes = call.node.ints("scan_output_axes", {}),
                             out_directions = call.node.ints("scan_output_directions", {});
  std::vector<Value> state(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(states));
  int64_t steps = -1;
  for (size_t k = 0; k < sequences; ++k) {
    const Value& v = values[states + k];
    GRAPESHOT_CHECK(v.t.defined(), kInvalidArgument, "a sequence is no tensor");
    const int64_t size = v.size(normal_axis(entry(in_axes, k), v.rank()));
    GRAPESHOT_CHECK(steps < 0 || steps == size, kInvalidArgument,
                    "the sequences have different lengths");
    steps = size;
  }
  std::vector<std::vector<Value>> every(body.outputs.size() - states);
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<Value> in = state;
    for (size_t k = 0; k < sequences; ++k) {
      const Value& v = values[states + k];
      const int64_t axis = normal_axis(entry(in_axes, k), v.rank()) + v.rows;
      in.push_back({v.t.select(axis, entry(in_directions, k) != 0 ? steps - 1 - i : i), v.rows});
    }
    const Values out = run_body(call, "body", in);
    for (size_t k = 0; k < states; ++k) state[k] = out[k];
    for (size_t k = 0; k < every.size(); ++k) every[k].push_back(out[states + k]);
  }
  Values out(state.begin(), state.end());
  for (size_t k = 0; k < every.size(); ++k) {
    if (entry(out_directions, k) != 0) std::ranges::reverse(every[k]);
    out.push_back(stacked(std::move(every[k]), entry(out_axes, k), body.outputs[states + k]));
  }
  return out;
}

// At opset 8 all have a batch axis in front, and lengths of the sequences come first.
Values scan_of_batches(const Call& call, std::span<const Value> own, size_t sequences) {
  GRAPESHOT_CHECK(!own[0].there(), kUnsupported, "lengths of sequences are not supported");
  const std::span<const Value> values = own.subspan(1);
  GRAPESHOT_CHECK(values[0].t.defined() && values[0].rank() > 0, kInvalidArgument,
                  "the inputs have no batch axis");
  const int64_t batch = values[0].size(0);
  std::vector<std::vector<Value>> parts;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Value> in;
    for (const Value& v : values) {
      GRAPESHOT_CHECK(v.t.defined() && v.rank() > 0 && v.size(0) == batch, kInvalidArgument,
                      "the inputs have different batches");
      in.push_back({v.t.select(v.rows, b), v.rows});
    }
    Values out = scan_once(call, in, sequences, {}, call.node.ints("directions", {}));
    parts.resize(out.size());
    for (size_t k = 0; k < out.size(); ++k) parts[k].push_back(std::move(out[k]));
  }
  Values out;
  for (std::vector<Value>& each : parts) out.push_back(stacked(std::move(each), 0, Port{}));
  return out;
}

Values scan(const Call& call) {
  const auto own = call.in.first(own_inputs(call));
  const int64_t sequences = call.node.i("num_scan_inputs", 0);
  const int64_t most = std::ssize(own) - (call.opset < 9);
  GRAPESHOT_CHECK(sequences > 0 && sequences <= most, kInvalidArgument, "num_scan_inputs is ",
                  sequences, " of ", most, " inputs");
  const auto count = static_cast<size_t>(sequences);
  if (call.opset < 9) return scan_of_batches(call, own, count);
  return scan_once(call, own, count, call.node.ints("scan_input_axes", {}),
                   call.node.ints("scan_input_directions", {}));
}

constexpr uint32_t kAllButFirstTwo = ~3u;

constexpr Operator kTable[] = {
    {"If", 1, 1, kNoInput, "The branch that a condition takes.", branch, Types::kExact},
    {"Loop", 1, 0, kAllButFirstTwo,
     "A subgraph again and again, for a number of rounds or while a condition holds.", loop,
     Types::kExact},
    {"Scan", 8, 0, kEveryInput, "A subgraph on each slice of sequences.", scan, Types::kExact},
};

}  // namespace

std::span<const Operator> control_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
