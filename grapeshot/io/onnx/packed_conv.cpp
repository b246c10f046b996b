#include "grapeshot/io/onnx/packed_conv.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/io/onnx/conv_loops.h"
#include "grapeshot/io/onnx/fused.h"
#include "grapeshot/io/onnx/links.h"

namespace grapeshot::onnx {
namespace {

constexpr size_t kWeight = 1, kBias = 2, kOther = 3, kForward = 4, kBackward = 5;

ConvPlan plan_of(const at::Tensor& weight, const Window& w) {
  ConvPlan plan = kernel_plan(weight);
  plan.down = w.strides[0];
  plan.right = w.strides[1];
  plan.top = w.before[0];
  plan.left = w.before[1];
  plan.bottom = w.after[0];
  plan.last = w.after[1];
  return plan;
}

Window window_of(const Call& call, const at::Tensor& x) {
  return read_window(call, x.sizes().slice(2), call.in[kWeight].t.sizes().slice(2).vec());
}

}  // namespace

Values packed_conv(const Call& call) {
  at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor &weight = call.in[kWeight].t, &bias = call.in[kBias].t;
  const at::Tensor other = call.has(kOther) ? fold_rows(call.in[kOther]) : at::Tensor();
  const bool relu = call.node.i("relu", 0) != 0;
  const auto recorded = [](const at::Tensor& t) { return t.defined() && records(t); };
  Window w = window_of(call, x);
  at::Tensor y;
  if (x.scalar_type() == at::kFloat && x.device().is_cpu() && !recorded(x) && !recorded(other)) {
    y = conv_forward(plan_of(weight, w), call.in[kForward].t, bias, x, relu && !other.defined());
    if (other.defined()) {
      y.add_(other);
      if (relu) y.relu_();
    }
    return {unfold_rows(std::move(y), call.in[0])};
  }
  if (!w.symmetric()) x = at::constant_pad_nd(x, w.take_padding(x.sizes().slice(2)));
  y = at::convolution(x, weight, bias, w.strides, w.before, w.dilations, false, {0, 0}, 1);
  if (other.defined()) y = y + other;
  if (relu) y.relu_();
  return {unfold_rows(std::move(y), call.in[0])};
}

at::Tensor packed_conv_gradient(const Call& call, const at::Tensor& gradient) {
  const at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor& weight = call.in[kWeight].t;
  const at::Tensor g = gradient.flatten(0, 1);
  const Window w = window_of(call, x);
  if (g.scalar_type() == at::kFloat && g.device().is_cpu()) {
    return conv_backward(plan_of(weight, w), call.in[kBackward].t, g, x.size(2), x.size(3),
                         x.is_contiguous())
        .view(call.in[0].t.sizes());
  }
  // The padding that torch does not know belongs to nobody.
  const std::vector<int64_t> pads = w.torch_padding();
  const at::Tensor padded = at::constant_pad_nd(x, pads);
  const at::Tensor whole =
      std::get<0>(at::convolution_backward(g, padded, weight, std::nullopt, w.strides, {0, 0},
                                           w.dilations, false, {0, 0}, 1, {true, false, false}));
  return whole.slice(2, w.before[0], w.before[0] + x.size(2))
      .slice(3, w.before[1], w.before[1] + x.size(3))
      .reshape(call.in[0].t.sizes());
}

void pack_convolutions(Network& network, const Recording&) {
  const auto ones = [](const std::vector<int64_t>& v) {
    return std::ranges::all_of(v, [](int64_t i) { return i == 1; });
  };
  for (BoundNode& bound : network.nodes) {
    Node& node = bound.node;
    const auto it =
        network.constants.find(node.op == "Conv" ? node.inputs[kWeight] : std::string());
    if (it == network.constants.end() || it->second.dim() != 4 ||
        it->second.scalar_type() != at::kFloat || node.i("group", 1) != 1 ||
        !ones(node.ints("dilations", {}))) {
      continue;
    }
    const at::Tensor weight = it->second;
    const bool biased = node.inputs.size() > kBias && !node.inputs[kBias].empty();
    const auto bias = network.constants.find(biased ? node.inputs[kBias] : std::string());
    if (biased && (bias == network.constants.end() || bias->second.scalar_type() != at::kFloat)) {
      continue;
    }
    // Padding that takes away pixels, or that is more than a window, is torch's.
    const std::vector<int64_t> pads = node.ints("pads", {});
    const int64_t most = std::min(weight.size(2), weight.size(3));
    if (std::ranges::any_of(pads, [&](int64_t p) { return p < 0 || p >= most; })) continue;
    ConvPlan plan = kernel_plan(weight);
    const std::vector<int64_t> strides = node.ints("strides", {1, 1});
    plan.down = strides[0];
    plan.right = strides[1];
    if (!suits_loops(plan)) continue;
    const at::Tensor b = biased ? bias->second : at::zeros({plan.filters}, weight.options());
    const std::string base = node.outputs[0];
    const auto add = [&](const char* kind, const at::Tensor& t) {
      const std::string name = free_name(network, base + kind);
      network.constants[name] = t.contiguous();
      return name;
    };
    const std::string other = node.inputs.size() > kOther ? node.inputs[kOther] : std::string();
    const std::string filters = add("/bias-of-filters", b.reshape({plan.filters}));
    const std::string forward = add("/packed", pack_forward(plan, weight));
    const std::string backward = add("/packed-back", pack_backward(plan, weight));
    node.inputs = {node.inputs[0], node.inputs[kWeight], filters, other, forward, backward};
    node.op = "PackedConv";
    bound.run = packed_conv;
    bound.batched = kFirstInput | 1u << kOther;
  }
}

void pack_products(Network& network, const Recording&) {
  for (BoundNode& bound : network.nodes) {
    Node& node = bound.node;
    if (node.op != "Dense" && node.op != "PointwiseConv") continue;
    const at::Tensor weight = network.constants.at(node.inputs[1]);
    const at::Tensor bias = network.constants.at(node.inputs[2]);
    const int64_t k = weight.size(0), n = weight.size(1);
    if (weight.scalar_type() != at::kFloat || !suits_product(k, n)) continue;
    const std::string base = node.outputs[0];
    const auto add = [&](const char* kind, const at::Tensor& t) {
      const std::string name = free_name(network, base + kind);
      network.constants[name] = t.contiguous();
      return name;
    };
    node.inputs.push_back(add("/packed", pack_product(weight)));
    node.inputs.push_back(add("/packed-back", pack_product_back(weight)));
    node.inputs.push_back(
        add("/bias-and-zeros", at::constant_pad_nd(bias, {0, (16 - n % 16) % 16})));
  }
}

}  // namespace grapeshot::onnx
