#include "grapeshot/io/onnx/interval.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/table.h"

namespace grapeshot::onnx {
namespace {

struct Range {
  Value lo, hi;
  bool constant = false;
};

using Ranges = std::vector<Range>;

Value run_one(const BoundNode& bound, int64_t opset, const std::vector<Value>& in) {
  return bound.run({bound.node, opset, in})[0];
}

std::vector<Value> ends(const Ranges& in, bool upper) {
  std::vector<Value> out;
  for (const Range& r : in) out.push_back(upper ? r.hi : r.lo);
  return out;
}

using Rule = std::optional<Range> (*)(const BoundNode& bound, int64_t opset, const Ranges& in);

// Grows with every input.
std::optional<Range> growing(const BoundNode& bound, int64_t opset, const Ranges& in) {
  return Range{run_one(bound, opset, ends(in, false)), run_one(bound, opset, ends(in, true))};
}

// Falls with its only input.
std::optional<Range> falling(const BoundNode& bound, int64_t opset, const Ranges& in) {
  return Range{run_one(bound, opset, ends(in, true)), run_one(bound, opset, ends(in, false))};
}

// Grows with the first input, falls with the second.
std::optional<Range> difference(const BoundNode& bound, int64_t opset, const Ranges& in) {
  return Range{run_one(bound, opset, {in[0].lo, in[1].hi}),
               run_one(bound, opset, {in[0].hi, in[1].lo})};
}

// Monotone in each of two inputs, one way or the other: the extremes are at the four ends.
std::optional<Range> of_ends(const BoundNode& bound, int64_t opset, const Ranges& in) {
  Range out;
  for (int i = 0; i < 4; ++i) {
    const Value v =
        run_one(bound, opset, {i % 2 == 0 ? in[0].lo : in[0].hi, i < 2 ? in[1].lo : in[1].hi});
    out.lo = {out.lo.t.defined() ? at::minimum(out.lo.t, v.t) : v.t, v.rows};
    out.hi = {out.hi.t.defined() ? at::maximum(out.hi.t, v.t) : v.t, v.rows};
  }
  return out;
}

std::optional<Range> product(const BoundNode& bound, int64_t opset, const Ranges& in) {
  // x * x is no product of two intervals.
  if (bound.node.inputs[0] == bound.node.inputs[1]) return std::nullopt;
  return of_ends(bound, opset, in);
}

std::optional<Range> quotient(const BoundNode& bound, int64_t opset, const Ranges& in) {
  if (!in[1].constant) return std::nullopt;
  return of_ends(bound, opset, in);
}

// Linear in one input with constant others: the centre goes through the layer, the radius through
// the layer with |weights| and without a bias.
std::optional<Range> linear(const BoundNode& bound, int64_t opset, const Ranges& in) {
  const bool first = !in[0].constant;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].lo.t.defined() && in[i].constant == ((i == 0) == first)) return std::nullopt;
  }
  const size_t mine = first ? 0 : 1;
  std::vector<Value> centre, radius;
  for (size_t i = 0; i < in.size(); ++i) {
    const Value &lo = in[i].lo, &hi = in[i].hi;
    if (i == mine) {
      centre.push_back({0.5 * (lo.t + hi.t), lo.rows});
      radius.push_back({0.5 * (hi.t - lo.t), lo.rows});
    } else {
      centre.push_back(lo);
      const bool weight = i < 2;
      radius.push_back(weight           ? Value{lo.t.abs(), lo.rows}
                       : lo.t.defined() ? Value{at::zeros_like(lo.t), lo.rows}
                                        : Value{});
    }
  }
  const Value c = run_one(bound, opset, centre), r = run_one(bound, opset, radius);
  const at::Tensor radius_of = r.t.abs();  // a negative factor of the layer turns it around
  return Range{{c.t - radius_of, c.rows}, {c.t + radius_of, c.rows}};
}

struct Form {
  std::string_view name;
  Rule rule;
};

constexpr Form kTable[] = {
    {"Add", growing},
    {"AveragePool", growing},
    {"Ceil", growing},
    {"Clip", growing},
    {"Concat", growing},
    {"Conv", linear},
    {"ConvTranspose", linear},
    {"Div", quotient},
    {"Dropout", growing},
    {"Elu", growing},
    {"Expand", growing},
    {"Exp", growing},
    {"Flatten", growing},
    {"Floor", growing},
    {"Gather", growing},
    {"Gemm", linear},
    {"GlobalAveragePool", growing},
    {"GlobalMaxPool", growing},
    {"Identity", growing},
    {"Input", growing},
    {"Log", growing},
    {"MatMul", linear},
    {"Max", growing},
    {"MaxPool", growing},
    {"Min", growing},
    {"Mul", product},
    {"Neg", falling},
    {"Outputs", growing},
    {"Pad", growing},
    {"ReduceMax", growing},
    {"ReduceMean", growing},
    {"ReduceMin", growing},
    {"ReduceSum", growing},
    {"Relu", growing},
    {"Reshape", growing},
    {"Round", growing},
    {"Sigmoid", growing},
    {"Sign", growing},
    {"Slice", growing},
    {"Softplus", growing},
    {"Sqrt", growing},
    {"Squeeze", growing},
    {"Sub", difference},
    {"Sum", growing},
    {"Tanh", growing},
    {"Transpose", growing},
    {"Unsqueeze", growing},
};

// y = a x + b per channel: growing or falling by the sign of a.
std::optional<Range> affine(const BoundNode& bound, int64_t opset, const Ranges& in) {
  std::vector<Value> low = ends(in, false), high = ends(in, true);
  const Value a = run_one(bound, opset, low), b = run_one(bound, opset, high);
  return Range{{at::minimum(a.t, b.t), a.rows}, {at::maximum(a.t, b.t), a.rows}};
}

Rule rule_of(const Node& node) {
  if (node.outputs.size() != 1) return nullptr;
  if (node.op == "BatchNormalization") return affine;
  if (node.op == "LeakyRelu") return node.f("alpha", 0.01F) >= 0 ? growing : nullptr;
  const auto* form = std::ranges::find(kTable, std::string_view(node.op), &Form::name);
  return form == std::end(kTable) ? nullptr : form->rule;
}

}  // namespace

std::optional<std::pair<at::Tensor, at::Tensor>> interval(const Network& network,
                                                          const std::string& wanted,
                                                          const at::Tensor& lo,
                                                          const at::Tensor& hi) {
  std::unordered_map<std::string, Range> known;
  known[network.input] = {{lo, true}, {hi, true}};
  for (const BoundNode& bound : network.nodes) {
    const Rule rule = rule_of(bound.node);
    if (!rule) return std::nullopt;
    Ranges in;
    for (const std::string& name : bound.node.inputs) {
      const auto constant = network.constants.find(name);
      if (name.empty()) {
        in.push_back({{}, {}, true});
      } else if (constant != network.constants.end()) {
        in.push_back({{constant->second}, {constant->second}, true});
      } else {
        const auto it = known.find(name);
        if (it == known.end()) return std::nullopt;
        in.push_back(it->second);
      }
    }
    // Which inputs of a node are numbers is not told apart: sizes and indices have to be constant.
    for (size_t i = 0; i < in.size(); ++i) {
      const bool batched = (bound.batched >> std::min<size_t>(i, 31) & 1U) != 0;
      if (!in[i].constant && !batched) return std::nullopt;
    }
    std::optional<Range> out = rule(bound, network.opset, in);
    if (!out || out->lo.ragged) return std::nullopt;
    if (bound.node.outputs[0] == wanted) return std::pair{out->lo.t, out->hi.t};
    known[bound.node.outputs[0]] = std::move(*out);
  }
  return std::nullopt;
}

}  // namespace grapeshot::onnx
