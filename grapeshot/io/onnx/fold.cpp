// grapeshot/io/onnx/fold.cpp: the first run of a network.
#include <algorithm>
#include <unordered_set>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/bind.h"
#include "grapeshot/io/onnx/program.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

// The ONNX shape; of ragged values the first row's.
std::vector<int64_t> shape_of(const Value& v) {
  if (!v.t.defined() && !v.ragged) return {0};  // a sequence, or nothing
  return v.ragged ? v.ragged->at(0).sizes().vec() : v.shape().vec();
}

int64_t numel(const Value& v) {
  return product(shape_of(v));
}

// Multiply-adds of one row.
int64_t macs_of(const Node& node, std::span<const Value> in, const Value& out) {
  for (size_t i = 0; i < std::min<size_t>(in.size(), 2); ++i) {
    if (in[i].ragged) return 0;
  }
  if (node.op == "Conv") {
    return numel(out) * (numel(in[1]) / std::max<int64_t>(in[1].size(0), 1));
  }
  if (node.op == "ConvTranspose") {
    return numel(in[0]) * (numel(in[1]) / std::max<int64_t>(in[1].size(0), 1));
  }
  if (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN") {
    // Both matrices in every step; X's first two axes are steps and sequences.
    return in[0].size(0) * in[0].size(1) * (numel(in[1]) + numel(in[2]));
  }
  if (node.op == "MatMul") return numel(out) * in[0].t.size(-1);
  if (node.op == "Gemm") return numel(out) * in[0].size(node.i("transA", 0) != 0 ? 0 : 1);
  return 0;
}

class Folding {
 public:
  Folding(Network& network, const at::Tensor& x) : network_(network) {
    add_constants();
    values_[network.input] = {x, true};
  }

  Recording run() {
    std::vector<BoundNode> nodes = std::move(network_.nodes);
    for (const BoundNode& bound : nodes) count_readers(bound.node, 1);
    ++readers_[network_.output];
    for (const PortSlice& output : network_.outputs) ++readers_[output.name];
    for (BoundNode& bound : nodes) take(bound);
    network_.nodes = std::move(kept_);
    int64_t begin = 0;
    for (PortSlice& output : network_.outputs) {
      const auto it = values_.find(output.name);
      GRAPESHOT_CHECK(it != values_.end(), kParse, network_.path, ": the output '", output.name,
                      "' is written by no node");
      GRAPESHOT_CHECK(it->second.t.defined() || it->second.ragged, kUnsupported, network_.path,
                      ": the output '", output.name, "' is no tensor");
      output = {output.name, shape_of(it->second), begin, numel(it->second), {}};
      begin += output.size;
    }
    for (const auto& [name, v] : values_) record(name, v);
    return std::move(recording_);
  }

 private:
  void add_constants() {
    for (const auto& [name, t] : network_.constants) values_.emplace(name, Value{t, false});
  }

  void take(BoundNode& bound) {
    std::vector<Value> in;
    for (const std::string& name : bound.node.inputs) {
      // Written by its node, but an output that the operator does not compute.
      GRAPESHOT_CHECK(name.empty() || values_.contains(name), kUnsupported, network_.path,
                      ": node '", bound.node.name, "' reads '", name, "', which is not computed");
      in.push_back(name.empty() ? Value{} : values_.at(name));
    }
    if (is_branch(bound.node) && !in[0].rows && in[0].t.numel() == 1) {
      std::vector<BoundNode> nodes = taken_branch(network_, bound.node, in[0].t.is_nonzero());
      add_constants();
      for (const BoundNode& inner : nodes) count_readers(inner.node, 1);
      count_readers(bound.node, -1);
      for (BoundNode& inner : nodes) take(inner);
      return;
    }
    const Node node = bound.node;
    const bool varying = reads_varying_shape(bound.node);
    const bool asks_shape =
        bound.node.op == "Shape" || bound.node.op == "Size" || bound.node.op == "EyeLike";
    if (varying && asks_shape) bound.batched = kNoInput;
    if (varying && !bound.bodies.empty()) bound.batched = kNoInput;
    const Values out = first_run(bound, in);
    const bool by_row = runs_by_row(bound, in);
    hold(bound.node, in, out);
    const bool rows = std::ranges::any_of(out, &Value::rows);
    for (size_t i = 0; i < std::min(out.size(), bound.node.outputs.size()); ++i) {
      const std::string& name = bound.node.outputs[i];
      if (name.empty()) continue;
      values_[name] = out[i];
      if (out[i].rows && !asks_shape && (by_row || varying)) varying_.insert(name);
      if (!out[i].rows && out[i].t.defined()) network_.constants[name] = out[i].t.contiguous();
    }
    // A sequence cannot be a constant of the network.
    if (rows || !std::ranges::all_of(out, [](const Value& v) { return v.t.defined(); }))
      keep(bound, in, out, by_row);
    in.clear();
    release(node);
  }

  // A node with a subgraph that cannot run on all rows at once goes row by row from here on.
  Values first_run(BoundNode& bound, const std::vector<Value>& in) {
    const Call call{bound.node, network_.opset, in, Surrogate::kLoose, at::kFloat, true};
    const bool by_row = runs_by_row(bound, in);
    try {
      return run_node(bound, call, by_row, network_.path);
    } catch (const Error& e) {
      const bool other_way = e.code() == ErrorCode::kUnsupported && !bound.bodies.empty() &&
                             !by_row && std::ranges::any_of(in, &Value::rows);
      if (!other_way) throw;
    }
    bound.batched = kNoInput;
    return run_node(bound, call, true, network_.path);
  }

  // A node that depends on the input.
  void keep(BoundNode& bound, const std::vector<Value>& in, const Values& out, bool by_row) {
    if (by_row) {
      recording_.islands.push_back(str("'", bound.node.name, "' (", bound.node.op, ")"));
    }
    if (const Attribute* counted = bound.node.find(kCountedMacs)) {
      // What runs a whole network has counted what it does.
      recording_.macs += counted->i;
      recording_.activation_values += bound.node.i(kCountedValues, 0);
      recording_.widest_node = std::max(recording_.widest_node, bound.node.i(kCountedWidest, 0));
    }
    recording_.macs += macs_of(bound.node, in, out[0]);
    const bool alias =
        !in.empty() && out[0].t.defined() && in[0].t.defined() && out[0].t.is_alias_of(in[0].t);
    if (!alias) {
      recording_.activation_values += numel(out[0]);
      int64_t touched = numel(out[0]);
      for (const Value& v : in) touched += v.rows ? numel(v) : 0;
      recording_.widest_node = std::max(recording_.widest_node, touched);
    }
    kept_.push_back(std::move(bound));
  }

  // Whether the shape of what the node makes may depend on the row, since that of an input does.
  [[nodiscard]] bool reads_varying_shape(const Node& node) const {
    if (node.op == "ScatterND" || node.op == "ScatterElements") {
      return varying_.contains(node.inputs[0]);  // of the data, whatever is written into it
    }
    return std::ranges::any_of(node.inputs,
                               [&](const std::string& name) { return varying_.contains(name); });
  }

  void count_readers(const Node& node, int64_t by) {
    for (const std::string& name : node.inputs) readers_[name] += by;
  }

  void record(const std::string& name, const Value& v) {
    recording_.tensors[name] = {shape_of(v), v.rows, v.ragged != nullptr};
  }

  // A damaged file may ask for more than there is memory, by many steps.
  void hold(const Node& node, std::span<const Value> in, const Values& out) {
    constexpr int64_t kMost = int64_t{1} << 27;
    for (const Value& v : out) {
      const auto alias_of = [&](const Value& other) {
        return other.t.defined() && v.t.is_alias_of(other.t);
      };
      if (v.t.defined() && std::ranges::none_of(in, alias_of)) held_ += v.t.numel();
    }
    GRAPESHOT_CHECK(held_ <= kMost, kUnsupported, network_.path, ": node '", node.name, "' (",
                    node.op, "): two rows need more than ", kMost, " values at a time up to here");
  }

  // Lets go of what nobody reads after `node`.
  void release(const Node& node) {
    for (const std::string& name : node.inputs) {
      const auto it = values_.find(name);
      if (--readers_[name] > 0 || it == values_.end() || name == network_.input ||
          network_.constants.contains(name)) {
        continue;
      }
      record(name, it->second);
      // A view keeps the memory that it looks at.
      const at::Tensor& t = it->second.t;
      if (t.defined() && t.use_count() == 1 && t.storage().use_count() == 1) held_ -= t.numel();
      values_.erase(it);
    }
  }

  Network& network_;
  int64_t held_ = 0;
  std::unordered_map<std::string, int64_t> readers_;
  std::unordered_map<std::string, Value> values_;
  std::unordered_set<std::string> varying_;  // the two rows at hand may agree by chance
  std::vector<BoundNode> kept_;
  Recording recording_;
};

}  // namespace

Recording fold_constants(Network& network, const at::Tensor& x) {
  return Folding(network, x).run();
}

}  // namespace grapeshot::onnx
