#include "grapeshot/io/onnx/bit_layers.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include <ATen/ATen.h>

#include "grapeshot/core/rng.h"
#include "grapeshot/io/onnx/bit_loops.h"
#include "grapeshot/io/onnx/fused.h"
#include "grapeshot/io/onnx/links.h"

namespace grapeshot::onnx {
namespace {

bool counts(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat && x.device().is_cpu() && !records(x);
}

ConvPlan plan_of(const at::Tensor& weight, const std::vector<int64_t>& strides) {
  ConvPlan plan = kernel_plan(weight);
  plan.down = strides.size() > 0 ? strides[0] : 1;
  plan.right = strides.size() > 1 ? strides[1] : 1;
  return plan;
}

// Signs to try a layer with, the same in every run.
at::Tensor some_signs(const std::vector<int64_t>& shape) {
  Rng rng(uint64_t{1});
  return at::rand(shape, rng.generator()).lt(0.5).to(at::kFloat) * 2. - 1.;
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a, b, 1e-4, 1e-4);
}

// The tensors that hold nothing but 1 and -1.
std::unordered_set<std::string> signed_tensors(const Network& network) {
  static const std::unordered_set<std::string_view> keeps = {
      "Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze"};
  std::unordered_set<std::string> out;
  for (const BoundNode& bound : network.nodes) {
    const Node& node = bound.node;
    const std::string_view automatic = node.s("auto_pad", "NOTSET");
    // Padding may be all that a window sees, and is no sign.
    const bool pads =
        std::ranges::any_of(node.ints("pads", {}), [](int64_t p) { return p != 0; }) ||
        (automatic != "NOTSET" && automatic != "VALID");
    const bool kept = keeps.contains(node.op) && out.contains(node.inputs[0]) && !pads;
    if (node.op == "Step" || kept) out.insert(node.outputs[0]);
  }
  return out;
}

}  // namespace

Values bit_conv(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor &weight = call.in[1].t, &bias = call.in[2].t;
  const std::vector<int64_t> strides = call.node.ints("strides", {1, 1});
  at::Tensor y;
  if (counts(x)) {
    y = bit_convolution(plan_of(weight, strides), {call.in[4].t, call.in[5].t}, bias, x);
  } else {
    y = at::convolution(x, weight, bias, strides, {0, 0}, {1, 1}, false, {0, 0}, 1);
  }
  return {unfold_rows(std::move(y), call.in[0])};
}

at::Tensor bit_conv_gradient(const Call& call, const at::Tensor& gradient) {
  const at::Tensor x = fold_rows(call.in[0]);
  const ConvPlan plan = plan_of(call.in[1].t, call.node.ints("strides", {1, 1}));
  return conv_backward(plan, call.in[3].t, gradient.flatten(0, 1), x.size(2), x.size(3))
      .view(call.in[0].t.sizes());
}

Values bit_dense(const Call& call) {
  const Value& x = call.in[0];
  const at::Tensor &weight = call.in[1].t, &bias = call.in[2].t;
  const at::Tensor flat = x.t.reshape({-1, weight.size(0)});
  const at::Tensor y = counts(flat) ? bit_product({call.in[3].t, call.in[5].t}, bias, flat)
                                    : at::addmm(bias, flat, weight);
  std::vector<int64_t> sizes = x.t.sizes().vec();
  sizes.back() = weight.size(1);
  return {Value{y.view(sizes), x.rows}};
}

void count_bits(Network& network, const Recording& recording) {
  const std::unordered_set<std::string> of_signs = signed_tensors(network);
  const auto all = [](const std::vector<int64_t>& v, int64_t value) {
    return std::ranges::all_of(v, [&](int64_t i) { return i == value; });
  };
  for (BoundNode& bound : network.nodes) {
    Node& node = bound.node;
    const bool conv = node.op == "Conv", dense = node.op == "Dense";
    if ((!conv && !dense) || !of_signs.contains(node.inputs[0]) || node.i("relu", 0) != 0) continue;
    const auto it = network.constants.find(node.inputs[1]);
    if (it == network.constants.end() || it->second.scalar_type() != at::kFloat) continue;
    const at::Tensor weight = it->second;
    const bool biased = node.inputs.size() > 2 && !node.inputs[2].empty();
    const auto bias = network.constants.find(biased ? node.inputs[2] : std::string());
    if (biased && (bias == network.constants.end() || bias->second.scalar_type() != at::kFloat)) {
      continue;
    }
    const std::string base = node.outputs[0];
    const auto add = [&](const char* kind, const at::Tensor& t) {
      const std::string name = free_name(network, base + kind);
      network.constants[name] = t;
      return name;
    };
    if (conv) {
      const std::string_view automatic = node.s("auto_pad", "NOTSET");
      if (weight.dim() != 4 || node.inputs.size() > 3 || node.i("group", 1) != 1 ||
          !all(node.ints("dilations", {}), 1) || !all(node.ints("pads", {}), 0) ||
          (automatic != "NOTSET" && automatic != "VALID") ||
          recording.tensors.at(node.inputs[0]).shape.size() != 4 ||
          !suits_bits(plan_of(weight, node.ints("strides", {})))) {
        continue;
      }
      const auto bits = pack_bits(weight.permute({0, 2, 3, 1}).flatten(1));
      if (!bits) continue;
      const at::Tensor b = biased ? bias->second : at::zeros({weight.size(0)});
      // When a model is loaded its batch is compared with what may be torch's; this is not.
      const ConvPlan own = plan_of(weight, node.ints("strides", {}));
      const at::Tensor tried = some_signs({1, own.channels, own.rows + 1, own.columns + 1});
      const at::Tensor expected = at::convolution(
          tried, weight, b.reshape({-1}), {own.down, own.right}, {0, 0}, {1, 1}, false, {0, 0}, 1);
      if (!close(bit_convolution(own, *bits, b.reshape({-1}).contiguous(), tried), expected))
        continue;
      const at::Tensor ordered =
          at::empty_like(weight, {}, at::MemoryFormat::ChannelsLast).copy_(weight);
      const bool packs = suits_loops(own);
      node.inputs = {node.inputs[0],
                     add("/channels-last", ordered),
                     add("/bias-of-filters", b.reshape({-1}).contiguous()),
                     packs ? add("/packed-back", pack_backward(own, weight)) : std::string(),
                     add("/bits", bits->bits),
                     add("/sizes", bits->scale)};
      node.op = "BitConv";
      bound.run = bit_conv;
      bound.batched = kFirstInput;
    } else {
      const auto bits = pack_bits(weight.t().contiguous());
      if (!bits) continue;
      const at::Tensor tried = some_signs({2, weight.size(0)}), b = bias->second.contiguous();
      if (!close(bit_product(*bits, b, tried), at::addmm(b, tried, weight))) continue;
      const bool packs = suits_product(weight.size(0), weight.size(1));
      node.inputs.resize(3);
      node.inputs.push_back(add("/bits", bits->bits));
      node.inputs.push_back(packs ? add("/packed-back", pack_product_back(weight)) : std::string());
      node.inputs.push_back(add("/sizes", bits->scale));
      node.op = "BitDense";
      bound.run = bit_dense;
    }
  }
}

}  // namespace grapeshot::onnx
