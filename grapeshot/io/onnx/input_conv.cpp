#include "grapeshot/io/onnx/input_conv.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "grapeshot/io/onnx/fused.h"

namespace grapeshot::onnx {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMaxChannels = 4;

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    at::IntArrayRef stride, at::IntArrayRef padding) {
  return at::convolution(x, weight, bias, stride, padding, {1, 1}, false, {0, 0}, 1);
}

class InputConv : public torch::autograd::Function<InputConv> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& blocked,
                            std::vector<int64_t> padding) {
    context->save_for_backward({blocked});
    context->saved_data["size"] = x.sizes().slice(2).vec();
    // Of the full correlation of the gradient with the kernel, padding takes away the rim.
    context->saved_data["padding"] =
        std::vector<int64_t>{weight.size(2) - 1 - padding[0], weight.size(3) - 1 - padding[1]};
    return convolve(x, weight, bias, {1, 1}, padding);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const std::vector<int64_t> size = context->saved_data["size"].toIntVector();
    const std::vector<int64_t> padding = context->saved_data["padding"].toIntVector();
    at::Tensor g = gradients[0];
    // An odd size has half a block more.
    if (size[0] % 2 != 0 || size[1] % 2 != 0) {
      g = at::constant_pad_nd(g, {0, size[1] % 2, 0, size[0] % 2});
    }
    const at::Tensor blocks =
        convolve(g, context->get_saved_variables()[0], at::Tensor(), {2, 2}, padding);
    const at::Tensor x = at::pixel_shuffle(blocks, 2).slice(2, 0, size[0]).slice(3, 0, size[1]);
    return {x, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor blocked_gradient_weight(const at::Tensor& weight) {
  const int64_t channels = weight.size(1), height = weight.size(2), width = weight.size(3);
  const at::Tensor flipped = weight.flip({2, 3}).transpose(0, 1);  // [C, O, K, K']
  at::Tensor blocked =
      at::zeros({channels, 4, weight.size(0), height + 1, width + 1}, weight.options());
  for (int64_t dy = 0; dy < 2; ++dy) {
    for (int64_t dx = 0; dx < 2; ++dx) {
      blocked.select(1, 2 * dy + dx)
          .slice(2, dy, dy + height)
          .slice(3, dx, dx + width)
          .copy_(flipped);
    }
  }
  return blocked.flatten(0, 1);
}

bool suits_input_conv(const Node& node, const at::Tensor& weight) {
  if (weight.dim() != 4 || weight.size(1) > kMaxChannels || node.i("group", 1) != 1) return false;
  const auto ones = [](const std::vector<int64_t>& v) {
    return std::ranges::all_of(v, [](int64_t i) { return i == 1; });
  };
  const std::vector<int64_t> pads = node.ints("pads", {0, 0, 0, 0});
  return ones(node.ints("strides", {1, 1})) && ones(node.ints("dilations", {1, 1})) &&
         node.s("auto_pad", "NOTSET") == "NOTSET" && pads.size() == 4 && pads[0] == pads[2] &&
         pads[1] == pads[3] && pads[0] < weight.size(2) && pads[1] < weight.size(3);
}

Values input_conv(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const at::Tensor& bias = call.in[2].t;
  std::vector<int64_t> padding = call.node.ints("pads", {0, 0, 0, 0});
  padding.resize(2);
  if (!records(x)) {
    const Call plain{call.node,      call.opset, call.in.first(3),
                     call.surrogate, call.real,  call.planning};
    return fused_conv(plain);
  }
  at::Tensor y = InputConv::apply(x, call.in[1].t, bias, call.in[3].t, std::move(padding));
  if (call.node.i("relu", 0) != 0) y.relu_();
  return {unfold_rows(y, call.in[0])};
}

}  // namespace grapeshot::onnx
