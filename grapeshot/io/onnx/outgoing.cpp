// grapeshot/io/onnx/outgoing.cpp: how heavily the next layer reads every neuron.
#include <deque>
#include <unordered_set>

#include <ATen/ATen.h>

#include "grapeshot/io/onnx/model.h"

namespace grapeshot::onnx {
namespace {

// Operators that leave neurons where they are along the channels' axis, or flat behind each other.
const std::unordered_set<std::string> kPassing = {
    "Relu",    "LeakyRelu",          "Sigmoid", "Tanh",        "Identity",
    "Dropout", "BatchNormalization", "MaxPool", "AveragePool", "Flatten",
    "Reshape", "GlobalAveragePool",  "Clip"};

// The mean of the weights [in, out...] that read every one of `neurons`, whose places lie behind
// each other in `in`; undefined when they do not fit.
at::Tensor mean_of(const at::Tensor& by_input, int64_t neurons) {
  const int64_t in = by_input.size(0);
  if (neurons <= 0 || in % neurons != 0) return {};
  return by_input.reshape({neurons, -1}).to(at::kFloat).mean(1);
}

// Of a layer with constant weights, [in, rest]; undefined for other nodes.
at::Tensor weights_by_input(const Network& network, const Node& node) {
  if (node.inputs.size() < 2) return {};
  const auto it = network.constants.find(node.inputs[1]);
  if (it == network.constants.end()) return {};
  const at::Tensor& w = it->second;
  if (node.op == "Conv" && w.dim() >= 3 && node.i("group", 1) == 1) {
    return w.transpose(0, 1).flatten(1);
  }
  if (node.op == "ConvTranspose" && w.dim() >= 3 && node.i("group", 1) == 1) return w.flatten(1);
  if (node.op == "Gemm" && w.dim() == 2) return node.i("transB", 0) != 0 ? w.t() : w;
  if (node.op == "MatMul" && w.dim() == 2) return w;
  return {};
}

}  // namespace

std::vector<at::Tensor> OnnxModel::outgoing_weights() const {
  std::vector<at::Tensor> out;
  for (const Tap& tap : taps_) {
    at::Tensor sum;
    std::deque<std::string> open = {tap.name};
    std::unordered_set<std::string> seen = {tap.name};
    while (!open.empty()) {
      const std::string name = open.front();
      open.pop_front();
      for (const BoundNode& bound : network_.nodes) {
        const Node& node = bound.node;
        if (node.inputs.empty() || node.inputs[0] != name) continue;
        const at::Tensor w = weights_by_input(network_, node);
        if (w.defined()) {
          const at::Tensor mean = mean_of(w, tap.neurons);
          if (mean.defined()) sum = sum.defined() ? sum + mean : mean;
        } else if (kPassing.contains(node.op) && seen.insert(node.outputs[0]).second) {
          open.push_back(node.outputs[0]);
        }
      }
    }
    out.push_back(sum);
  }
  return out;
}

}  // namespace grapeshot::onnx
