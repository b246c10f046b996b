#include "grapeshot/io/onnx/lower.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/bit_layers.h"
#include "grapeshot/io/onnx/fused.h"
#include "grapeshot/io/onnx/input_conv.h"
#include "grapeshot/io/onnx/links.h"
#include "grapeshot/io/onnx/packed_conv.h"
#include "grapeshot/io/onnx/surrogate.h"

namespace grapeshot::onnx {
namespace {

// Sign(Sign(x) + c), 0 < c < 1: how exporters spell a sign without zero.
Values step(const Call& call) {
  return {Value{step_function(call.in[0].t, StepKind::kStep, call.surrogate), call.in[0].rows}};
}

OperatorFn gemm_function() {
  Node gemm;
  gemm.op = "Gemm";
  return find_operator(gemm, 13)->run;
}

at::Tensor rounded(const at::Tensor& t) {
  return t.to(at::kFloat).contiguous();
}

// Scales output channel c of a Conv, Gemm or MatMul by a[c] and adds b[c], in float64.
void scale_layer(Network& network, BoundNode& layer, const at::Tensor& a, const at::Tensor& b) {
  Node& node = layer.node;
  const at::Tensor weight = network.constants.at(node.inputs[1]).to(at::kDouble);
  const bool columns = node.op != "Conv" && node.i("transB", 0) == 0;
  std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
  shape[columns ? 1 : 0] = a.numel();
  const std::string new_weight = free_name(network, node.outputs[0] + "/weight");
  network.constants[new_weight] = rounded(weight * a.view(shape));
  at::Tensor bias = b;
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    bias = network.constants.at(node.inputs[2]).to(at::kDouble).reshape({-1}) * a + b;
  }
  const std::string new_bias = free_name(network, node.outputs[0] + "/bias");
  network.constants[new_bias] = rounded(bias);
  node.inputs = {node.inputs[0], new_weight, new_bias};
  if (node.op == "MatMul") {
    node.op = "Gemm";
    layer.run = gemm_function();
  }
}

// A layer feeding `name` alone that scale_layer can change, or null.
BoundNode* scalable(Links& links, const Recording& recording, const std::string& name,
                    int64_t channels) {
  for (const std::string_view op : {"Conv", "Gemm", "MatMul"}) {
    BoundNode* layer = links.only_feeding(name, op);
    if (!layer) continue;
    const Node& node = layer->node;
    const at::Tensor* weight = links.constant(node.inputs[1]);
    if (!weight || weight->scalar_type() != at::kFloat) return nullptr;
    if (op == "Conv") {
      const bool plain = node.inputs.size() < 3 || node.inputs[2].empty();
      const at::Tensor* own = plain ? weight : links.constant(node.inputs[2]);
      const bool fits = own && own->scalar_type() == at::kFloat;
      return fits && weight->size(0) == channels ? layer : nullptr;
    }
    if (weight->dim() != 2 || recording.tensors.at(node.inputs[0]).shape.size() != 2)
      return nullptr;
    if (node.f("alpha", 1.f) != 1.f || node.f("beta", 1.f) != 1.f || node.i("transA", 0) != 0) {
      return nullptr;
    }
    if (weight->size(node.i("transB", 0) != 0 ? 0 : 1) != channels) return nullptr;
    const bool biased = node.inputs.size() > 2 && !node.inputs[2].empty();
    const at::Tensor* bias = biased ? links.constant(node.inputs[2]) : nullptr;
    // A C of one value a row of A has as many values where A has as many rows as there are
    // channels.
    const bool per_channel =
        bias && bias->dim() > 0 && bias->numel() == channels && bias->size(-1) == channels;
    return !biased || per_channel ? layer : nullptr;
  }
  return nullptr;
}

// Pad by nothing.
bool pads_nothing(const Links& links, const Node& node) {
  const auto none = [](const auto& pads) {
    return std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; });
  };
  if (const Attribute* a = node.find("pads")) return none(a->ints);
  const at::Tensor* pads = node.inputs.size() > 1 ? links.constant(node.inputs[1]) : nullptr;
  return pads && pads->count_nonzero().item<int64_t>() == 0;
}

void drop_idle(Network& network, const Recording& recording) {
  Links links(network);
  for (BoundNode& bound : network.nodes) {
    const Node& node = bound.node;
    if (node.op == "Identity" || node.op == "Dropout" ||
        (node.op == "Pad" && pads_nothing(links, node))) {
      links.bypass(bound, std::string(node.inputs[0]));
    } else if (node.op == "Add" || node.op == "Sub") {
      const int c = constant_operand(links, node);
      if (c < 0 || (node.op == "Sub" && c == 0)) continue;
      const std::string other = node.inputs[static_cast<size_t>(1 - c)];
      const at::Tensor& value = *links.constant(node.inputs[static_cast<size_t>(c)]);
      const bool same_shape =
          recording.tensors.at(other).shape == recording.tensors.at(node.outputs[0]).shape;
      if (same_shape && value.is_floating_point() && value.count_nonzero().item<int64_t>() == 0) {
        links.bypass(bound, other);
      }
    }
  }
}

void join_sign(Network& network, const Recording& recording) {
  Links links(network);
  for (BoundNode& bound : network.nodes) {
    if (bound.node.op != "Sign") continue;
    BoundNode* add = links.only_feeding(bound.node.inputs[0], "Add");
    const int c = add ? constant_operand(links, add->node) : -1;
    if (c < 0) continue;
    const at::Tensor& value = *links.constant(add->node.inputs[static_cast<size_t>(c)]);
    if (value.numel() != 1 || !(value.item<double>() > 0. && value.item<double>() < 1.)) continue;
    BoundNode* sign = links.only_feeding(add->node.inputs[static_cast<size_t>(1 - c)], "Sign");
    const auto shape = [&](const std::string& name) { return recording.tensors.at(name).shape; };
    if (!sign || shape(sign->node.inputs[0]) != shape(bound.node.outputs[0])) continue;
    sign->node.op = "Step";
    sign->run = step;
    links.absorb(*sign, *add);
    links.absorb(*sign, bound);
  }
}

void fold_batch_normalization(Network& network, const Recording& recording) {
  Links links(network);
  for (BoundNode& bound : network.nodes) {
    Node& node = bound.node;
    if (node.op != "BatchNormalization") continue;
    bool constant = true;
    for (size_t i = 1; i < 5; ++i) {
      const at::Tensor* t = links.constant(node.inputs[i]);
      constant = constant && t && t->scalar_type() == at::kFloat;
    }
    if (!constant) continue;
    const auto parameter = [&](size_t i) {
      return network.constants.at(node.inputs[i]).to(at::kDouble);
    };
    const at::Tensor a = parameter(1) / (parameter(4) + node.f("epsilon", 1e-5f)).sqrt();
    const at::Tensor b = parameter(2) - parameter(3) * a;
    if (BoundNode* layer = scalable(links, recording, node.inputs[0], a.numel())) {
      scale_layer(network, *layer, a, b);
      links.absorb(*layer, bound);
      continue;
    }
    const std::string new_a = free_name(network, node.outputs[0] + "/a");
    network.constants[new_a] = rounded(a);
    const std::string new_b = free_name(network, node.outputs[0] + "/b");
    network.constants[new_b] = rounded(b);
    node.op = "Affine";
    node.inputs = {node.inputs[0], new_a, new_b};
    bound.run = affine;
  }
}

// Mul and Add by a vector per unit after a fully connected layer.
void fold_units(Network& network, const Recording& recording) {
  Links links(network);
  for (BoundNode& bound : network.nodes) {
    const Node& node = bound.node;
    if (!bound.run || (node.op != "Mul" && node.op != "Add")) continue;
    const int c = constant_operand(links, node);
    if (c < 0) continue;
    if (links.constant(node.inputs[static_cast<size_t>(c)])->scalar_type() != at::kFloat) continue;
    const at::Tensor value =
        links.constant(node.inputs[static_cast<size_t>(c)])->to(at::kDouble).contiguous();
    const auto& shape = recording.tensors.at(node.outputs[0]).shape;
    const bool per_unit = value.dim() >= 1 && value.dim() <= 2 && shape.size() == 2 &&
                          value.numel() == shape[1] && value.size(-1) == shape[1];
    if (!per_unit) continue;
    const std::string& other = node.inputs[static_cast<size_t>(1 - c)];
    BoundNode* layer = scalable(links, recording, other, shape[1]);
    if (!layer || layer->node.op == "Conv") continue;
    const at::Tensor flat = value.reshape({-1});
    if (node.op == "Mul") {
      scale_layer(network, *layer, flat, at::zeros_like(flat));
    } else {
      scale_layer(network, *layer, at::ones_like(flat), flat);
    }
    links.absorb(*layer, bound);
  }
}

// After the folding passes, which change weights.
void block_input_convolutions(Network& network, const Recording&) {
  for (BoundNode& bound : network.nodes) {
    Node& node = bound.node;
    if (node.op != "Conv" || node.inputs.size() > 3) continue;
    const auto weight = network.constants.find(node.inputs[1]);
    if (weight == network.constants.end() || weight->second.scalar_type() != at::kFloat ||
        !suits_input_conv(node, weight->second)) {
      continue;
    }
    const bool biased = node.inputs.size() > 2 && !node.inputs[2].empty();
    if (biased && !network.constants.contains(node.inputs[2])) continue;
    const std::string base = node.outputs[0];
    const at::Tensor blocked = blocked_gradient_weight(weight->second);
    node.inputs.resize(3);
    if (node.inputs[2].empty()) {
      node.inputs[2] = free_name(network, base + "/bias");
      network.constants[node.inputs[2]] = at::zeros({blocked.size(1)});
    }
    node.inputs.push_back(free_name(network, base + "/blocked"));
    network.constants[node.inputs[3]] = blocked;
    bound.run = input_conv;
  }
}

constexpr Pass kTable[] = {
    {"drop-idle", "Takes out Identity, Dropout, padding by nothing and additions of zero.",
     drop_idle},
    {"join-sign", "Makes one step of Sign(Sign(x) + c).", join_sign},
    {"fold-units", "Folds Mul and Add per unit into the MatMul or Gemm before.", fold_units},
    {"fold-batch-normalization",
     "Folds BatchNormalization into the layer before, or makes it one multiply-add.",
     fold_batch_normalization},
    {"make-dense",
     "Makes one call of a matrix product with constants and the bias after it, if any.",
     make_dense},
    {"join-relu", "Lets a layer or sum cut its own result at 0.", join_relu},
    {"join-sum", "Lets a convolution add what a sum adds to it.", join_sum},
    {"make-pointwise", "Makes matrix products of convolutions with a kernel of 1 x 1.",
     make_pointwise},
    {"count-bits", "Counts bits where a layer of signs reads signs.", count_bits},
    {"flatten-channels-last",
     "Lets a Flatten before a layer keep convolutions' order of channels, and turns the weights.",
     flatten_channels_last},
    {"pack-convolutions", "Gives convolutions weights in the order that their loops read them.",
     pack_convolutions},
    {"pack-products", "Gives products with constants weights in the order that loops read them.",
     pack_products},
    {"block-input-convolutions",
     "Gives convolutions of at most 4 channels a gradient that computes 2 x 2 pixels at once.",
     block_input_convolutions},
    {"order-channels", "Gives convolutions weights with channels last, which oneDNN prefers.",
     order_channels},
};

}  // namespace

std::span<const Pass> passes() {
  return kTable;
}

void find_logits(Network& network, const Recording& recording) {
  for (const BoundNode& bound : network.nodes) {
    const Node& node = bound.node;
    if (node.outputs[0] != network.output || node.op != "Softmax") continue;
    const auto& shape = recording.tensors.at(network.output).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t axis = normal_axis(node.i("axis", network.opset < 13 ? 1 : -1), rank);
    int64_t others = 1;
    for (int64_t i = 0; i < rank; ++i) {
      if (network.opset < 13 ? i < axis : i != axis) others *= shape[static_cast<size_t>(i)];
    }
    if (others == 1) network.logits = node.inputs[0];
  }
}

Network lower(const Network& network, const Recording& recording) {
  Network lowered = network;
  for (const Pass& pass : passes()) pass.run(lowered, recording);
  return lowered;
}

}  // namespace grapeshot::onnx
