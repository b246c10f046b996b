// grapeshot/io/onnx/links.h: for lowering passes.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

/// Who writes and who reads a tensor; nodes are edited in place and emptied instead of erased.
class Links {
 public:
  explicit Links(Network& network) : network_(network) {
    for (BoundNode& bound : network.nodes) {
      for (const std::string& name : bound.node.outputs) writer_[name] = &bound;
      for (const std::string& name : bound.node.inputs) readers_[name].insert(&bound);
    }
  }
  ~Links() {
    std::erase_if(network_.nodes, [](const BoundNode& bound) { return bound.run == nullptr; });
  }
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// The node that writes `name` when it is an `op` and nobody but one node reads `name`.
  BoundNode* only_feeding(const std::string& name, std::string_view op) {
    const auto it = writer_.find(name);
    if (it == writer_.end() || !it->second->run || it->second->node.op != op) return nullptr;
    if (name == network_.output || name == network_.logits) return nullptr;
    return readers_[name].size() == 1 ? it->second : nullptr;
  }

  /// The node that writes `name`, or null.
  [[nodiscard]] BoundNode* writer(const std::string& name) const {
    const auto it = writer_.find(name);
    return it == writer_.end() || !it->second->run ? nullptr : it->second;
  }

  const at::Tensor* constant(const std::string& name) const {
    const auto it = network_.constants.find(name);
    return it == network_.constants.end() ? nullptr : &it->second;
  }

  /// Takes `gone` out and lets `kept` write its output instead of its own.
  void absorb(BoundNode& kept, BoundNode& gone) {
    const std::string output = gone.node.outputs[0];
    kept.node.outputs = {output};
    writer_[output] = &kept;
    gone.run = nullptr;
  }

  /// Takes `gone`, which passes its input `in` on, out of the graph.
  void bypass(BoundNode& gone, const std::string& in) {
    const std::string out = gone.node.outputs[0];
    for (BoundNode* reader : readers_[out]) {
      std::ranges::replace(reader->node.inputs, out, in);
      readers_[in].insert(reader);
    }
    if (network_.output == out) network_.output = in;
    if (network_.logits == out) network_.logits = in;
    readers_[in].erase(&gone);
    gone.run = nullptr;
  }

 private:
  Network& network_;
  std::unordered_map<std::string, BoundNode*> writer_;
  std::unordered_map<std::string, std::set<BoundNode*>> readers_;
};

/// Index of the one constant input of a two-operand node, or -1.
[[nodiscard]] inline int constant_operand(const Links& links, const Node& node) {
  if (node.inputs.size() != 2) return -1;
  const bool first = links.constant(node.inputs[0]), second = links.constant(node.inputs[1]);
  return first == second ? -1 : (first ? 0 : 1);
}

/// A name that no constant of the network has.
[[nodiscard]] inline std::string free_name(const Network& network, std::string name) {
  while (network.constants.contains(name)) name.push_back('\'');
  return name;
}

// Passes of fuse.cpp; the table in lower.cpp says what they do.
void make_dense(Network& network, const Recording& recording);
void join_relu(Network& network, const Recording& recording);
void join_sum(Network& network, const Recording& recording);
void make_pointwise(Network& network, const Recording& recording);
void flatten_channels_last(Network& network, const Recording& recording);
void order_channels(Network& network, const Recording& recording);

}  // namespace grapeshot::onnx
