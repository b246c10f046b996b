// grapeshot/io/onnx/fuse.cpp: passes that make one call of several.
#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/io/onnx/fused.h"
#include "grapeshot/io/onnx/links.h"

namespace grapeshot::onnx {
namespace {

void set_integer(Node& node, std::string name, int64_t value) {
  Attribute a;
  a.name = std::move(name);
  a.i = value;
  node.attributes.push_back(std::move(a));
}

// One value for each of `units` along the last axis, or undefined.
at::Tensor per_unit(const at::Tensor* t, int64_t units) {
  const bool fits = t && t->dim() >= 1 && t->numel() == units && t->size(-1) == units;
  return fits ? t->reshape({units}).to(at::kFloat) : at::Tensor();
}

// The weights [K, M] of a Gemm or MatMul that is x W + b along the last axis, or undefined.
at::Tensor dense_weight(const Links& links, const Recording& recording, const Node& node) {
  const at::Tensor* weight = links.constant(node.inputs[1]);
  if (!weight || weight->dim() != 2 || weight->scalar_type() != at::kFloat) return {};
  const TensorInfo& x = recording.tensors.at(node.inputs[0]);
  if (!x.rows || x.ragged || x.shape.empty()) return {};
  if (node.op == "MatMul") return *weight;
  if (x.shape.size() != 2 || node.i("transA", 0) != 0) return {};
  const at::Tensor w = node.i("transB", 0) != 0 ? weight->t() : *weight;
  const float alpha = node.f("alpha", 1.f);
  return alpha == 1.f ? w : w * alpha;
}

at::Tensor dense_bias(const Links& links, const Node& node, int64_t units) {
  if (node.op == "MatMul" || node.inputs.size() < 3 || node.inputs[2].empty()) {
    return at::zeros({units});
  }
  const at::Tensor bias = per_unit(links.constant(node.inputs[2]), units);
  return bias.defined() ? bias * node.f("beta", 1.f) : bias;
}

}  // namespace

void make_dense(Network& network, const Recording& recording) {
  Links links(network);
  const auto make = [&](BoundNode& bound, const at::Tensor& weight, const at::Tensor& bias) {
    Node& node = bound.node;
    const std::string base = node.outputs[0];
    const std::string w = free_name(network, base + "/weight");
    network.constants[w] = weight.contiguous();
    const std::string b = free_name(network, base + "/bias");
    network.constants[b] = bias.contiguous();
    node.op = "Dense";
    node.inputs = {node.inputs[0], w, b};
    node.attributes.clear();
    bound.run = dense;
    bound.batched = kFirstInput;
  };
  for (BoundNode& bound : network.nodes) {
    if (!bound.run) continue;
    const Node& node = bound.node;
    if (node.op == "Gemm") {
      const at::Tensor weight = dense_weight(links, recording, node);
      const at::Tensor bias =
          weight.defined() ? dense_bias(links, node, weight.size(1)) : at::Tensor();
      if (bias.defined()) make(bound, weight, bias);
    } else if (node.op == "Add") {
      // MatMul and then its bias.
      const int c = constant_operand(links, node);
      if (c < 0) continue;
      const std::string& other = node.inputs[static_cast<size_t>(1 - c)];
      BoundNode* layer = links.only_feeding(other, "MatMul");
      const at::Tensor weight = layer ? dense_weight(links, recording, layer->node) : at::Tensor();
      if (!weight.defined()) continue;
      const at::Tensor bias =
          per_unit(links.constant(node.inputs[static_cast<size_t>(c)]), weight.size(1));
      const bool same =
          recording.tensors.at(other).shape == recording.tensors.at(node.outputs[0]).shape;
      if (!bias.defined() || !same) continue;
      make(*layer, weight, bias);
      links.absorb(*layer, bound);
    }
  }
  for (BoundNode& bound : network.nodes) {
    if (!bound.run || bound.node.op != "MatMul") continue;
    const at::Tensor weight = dense_weight(links, recording, bound.node);
    if (weight.defined()) make(bound, weight, at::zeros({weight.size(1)}));
  }
}

void join_relu(Network& network, const Recording& recording) {
  Links links(network);
  for (BoundNode& bound : network.nodes) {
    if (!bound.run || bound.node.op != "Relu") continue;
    const std::string& in = bound.node.inputs[0];
    if (recording.tensors.at(in).ragged) continue;
    BoundNode* layer = nullptr;
    for (const std::string_view op : {"Dense", "Affine", "Conv", "Add"}) {
      if (!layer) layer = links.only_feeding(in, op);
    }
    if (!layer || layer->node.i("relu", 0) != 0) continue;
    if (layer->node.op == "Conv") layer->run = fused_conv;
    if (layer->node.op == "Add") layer->run = add_relu;
    set_integer(layer->node, "relu", 1);
    links.absorb(*layer, bound);
  }
}

void join_sum(Network& network, const Recording& recording) {
  Links links(network);
  for (BoundNode& bound : network.nodes) {
    if (!bound.run || bound.node.op != "Add") continue;
    const std::vector<std::string> terms = bound.node.inputs;
    for (size_t i = 0; i < 2; ++i) {
      BoundNode* conv = links.only_feeding(terms[i], "Conv");
      if (!conv || terms[0] == terms[1] || conv->node.i("relu", 0) != 0) continue;
      const auto& read = conv->node.inputs;
      if (!links.constant(read[1]) ||
          (read.size() > 2 && !read[2].empty() && !links.constant(read[2]))) {
        continue;
      }
      const TensorInfo& other = recording.tensors.at(terms[1 - i]);
      if (conv->node.inputs.size() > 3 || !other.rows || other.ragged || other.shape.size() != 4 ||
          other.shape != recording.tensors.at(terms[i]).shape) {
        continue;
      }
      // In the place of the sum, where both terms are there.
      Node sum = conv->node;
      sum.name = bound.node.name;
      sum.outputs = bound.node.outputs;
      sum.inputs.resize(3);
      sum.inputs.push_back(terms[1 - i]);
      set_integer(sum, "relu", bound.node.i("relu", 0));
      bound.node = std::move(sum);
      bound.run = fused_conv;
      conv->run = nullptr;
      break;
    }
  }
}

void make_pointwise(Network& network, const Recording&) {
  const auto all = [](const std::vector<int64_t>& v, int64_t value) {
    return std::ranges::all_of(v, [&](int64_t i) { return i == value; });
  };
  for (BoundNode& bound : network.nodes) {
    Node& node = bound.node;
    const auto it = network.constants.find(node.op == "Conv" ? node.inputs[1] : std::string());
    if (it == network.constants.end() || it->second.dim() < 3 || node.inputs.size() > 3 ||
        it->second.scalar_type() != at::kFloat)
      continue;
    const at::Tensor weight = it->second;
    const std::string_view automatic = node.s("auto_pad", "NOTSET");
    if (!all(weight.sizes().slice(2).vec(), 1) || node.i("group", 1) != 1 ||
        !all(node.ints("pads", {}), 0) || (automatic != "NOTSET" && automatic != "VALID")) {
      continue;
    }
    const bool biased = node.inputs.size() > 2 && !node.inputs[2].empty();
    const auto bias = network.constants.find(biased ? node.inputs[2] : std::string());
    if (biased && bias == network.constants.end()) continue;
    const std::string base = node.outputs[0];
    const std::string w = free_name(network, base + "/pointwise");
    const at::Tensor b = biased ? bias->second : at::zeros({weight.size(0)}, weight.options());
    network.constants[w] = weight.flatten(1).t().contiguous();
    const std::string b_name = free_name(network, base + "/pointwise-bias");
    network.constants[b_name] = b.contiguous();
    node.op = "PointwiseConv";
    node.inputs = {node.inputs[0], w, b_name};
    bound.run = pointwise_conv;
  }
}

void flatten_channels_last(Network& network, const Recording& recording) {
  Links links(network);
  // Whether channels come last in memory: what a convolution writes, through what keeps its order.
  static constexpr std::string_view kKeepers[] = {"Add",     "Affine",  "AveragePool", "Dropout",
                                                  "MaxPool", "Sigmoid", "Relu",        "Tanh"};
  const auto comes_last = [&](const std::string& name) {
    const BoundNode* writer = links.writer(name);
    while (writer && std::ranges::find(kKeepers, writer->node.op) != std::end(kKeepers)) {
      writer = links.writer(writer->node.inputs[0]);
    }
    return writer && (writer->node.op == "Conv" || writer->node.op == "PointwiseConv");
  };
  for (BoundNode& bound : network.nodes) {
    if (!bound.run || bound.node.op != "Dense") continue;
    BoundNode* flat = nullptr;
    for (const std::string_view op : {"Flatten", "Reshape"}) {
      if (!flat) flat = links.only_feeding(bound.node.inputs[0], op);
    }
    if (!flat) continue;
    const TensorInfo& in = recording.tensors.at(flat->node.inputs[0]);
    const TensorInfo& out = recording.tensors.at(flat->node.outputs[0]);
    const at::Tensor weight = network.constants.at(bound.node.inputs[1]);
    if (!in.rows || in.ragged || in.shape.size() != 4 || in.shape[0] != 1 ||
        out.shape != std::vector<int64_t>{1, weight.size(0)} || !comes_last(flat->node.inputs[0])) {
      continue;
    }
    const std::string base = bound.node.outputs[0], flat_name = base + "/flat";
    const std::string ordered = free_name(network, base + "/channels-last");
    network.constants[ordered] =
        weight.view({in.shape[1], in.shape[2] * in.shape[3], weight.size(1)})
            .transpose(0, 1)
            .reshape(weight.sizes())
            .contiguous();
    bound.node.inputs[0] = flat_name;
    bound.node.inputs[1] = ordered;
    flat->node.op = "FlattenLast";
    flat->node.inputs.resize(1);
    flat->node.outputs = {flat_name};
    flat->run = flatten_last;
  }
}

void order_channels(Network& network, const Recording&) {
  for (BoundNode& bound : network.nodes) {
    Node& node = bound.node;
    if (node.op != "Conv" && node.op != "ConvTranspose") continue;
    const auto weight = network.constants.find(node.inputs[1]);
    if (weight == network.constants.end() || weight->second.dim() != 4) continue;
    // contiguous() would keep the order of a single channel, in which oneDNN sees none.
    const at::Tensor ordered =
        at::empty_like(weight->second, {}, at::MemoryFormat::ChannelsLast).copy_(weight->second);
    node.inputs[1] = free_name(network, node.outputs[0] + "/channels-last");
    network.constants[node.inputs[1]] = ordered;
  }
}

}  // namespace grapeshot::onnx
