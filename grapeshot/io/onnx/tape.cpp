// grapeshot/io/onnx/tape.cpp: Program's gradient.
//
// A forward pass that remembers what every step read and wrote, and the way back: by the operator's
// own gradient where there is one (pulls.h), else by autograd, which sees that operator alone.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "grapeshot/io/onnx/program.h"
#include "grapeshot/io/onnx/pulls.h"

namespace grapeshot::onnx {
namespace {

struct Taped {
  c10::SmallVector<Value, 4> in;
  Values out;
  PullFn pull = nullptr;
  std::vector<at::Tensor> leaves;  // by input, where autograd is asked
  Values recorded;                 // outputs with history
};

void add_to(at::Tensor& sum, const at::Tensor& t) {
  sum = sum.defined() ? sum + t : t;
}

}  // namespace

std::pair<std::vector<Value>, at::Tensor> Program::gradient(
    const at::Tensor& x, const std::vector<int32_t>& wanted, const Surrogate& surrogate,
    const std::function<std::vector<at::Tensor>(const std::vector<Value>& values)>& cotangents)
    const {
  const at::NoGradGuard no_grad;
  const std::vector<Value>& constants = constants_for(x);
  std::vector<Value> computed(constants.size());
  std::vector<bool> live(constants.size(), false);  // a gradient flows from here to the input
  computed[static_cast<size_t>(input_)] = {x, true};
  live[static_cast<size_t>(input_)] = true;
  const auto value = [&](int32_t slot) -> const Value& {
    const auto i = static_cast<size_t>(slot);
    return constants[i].t.defined() ? constants[i] : computed[i];
  };
  const auto is_live = [&](int32_t slot) { return slot >= 0 && live[static_cast<size_t>(slot)]; };
  int32_t end = 0;
  for (const int32_t slot : wanted) {
    end = std::max(end, ready_after_[static_cast<size_t>(slot)]);
  }
  std::vector<Taped> tape(static_cast<size_t>(end));
  const auto call_of = [&](const Step& step, const Taped& taped) {
    Call call{
        step.bound.node, opset_, {taped.in.data(), taped.in.size()}, surrogate, x.scalar_type()};
    if (step.sign >= 0) call.surrogate.sign = step.sign;
    return call;
  };
  for (int32_t i = 0; i < end; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    Taped& taped = tape[static_cast<size_t>(i)];
    bool flows = false;
    for (const int32_t slot : step.in) {
      taped.in.push_back(slot < 0 ? Value{} : value(slot));
      flows = flows || is_live(slot);
    }
    if (flows) taped.pull = find_pull(call_of(step, taped));
    if (flows && !taped.pull) {
      taped.leaves.resize(step.in.size());
      for (size_t k = 0; k < step.in.size(); ++k) {
        if (!is_live(step.in[k])) continue;
        taped.leaves[k] = taped.in[k].t.detach().requires_grad_(true);
        taped.in[k].t = taped.leaves[k];
      }
      const at::AutoGradMode grad(true);
      taped.recorded = run_node(step.bound, call_of(step, taped), false, path_);
      for (const Value& each : taped.recorded) {
        taped.out.push_back({each.t.defined() ? each.t.detach() : each.t, each.rows});
      }
    } else {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      taped.out = run_node(step.bound, call_of(step, taped), false, path_);
    }
    for (size_t k = 0; k < std::min(taped.out.size(), step.out.size()); ++k) {
      if (step.out[k] < 0) continue;
      computed[static_cast<size_t>(step.out[k])] = taped.out[k];
      live[static_cast<size_t>(step.out[k])] =
          flows && taped.out[k].t.defined() && taped.out[k].t.is_floating_point();
    }
  }
  std::vector<Value> values;
  for (const int32_t slot : wanted) values.push_back(value(slot));
  computed.clear();
  std::vector<at::Tensor> gradients(constants.size());
  if (std::ranges::any_of(wanted, is_live)) {
    const std::vector<at::Tensor> of = cotangents(values);
    for (size_t k = 0; k < wanted.size(); ++k) {
      if (of[k].defined() && is_live(wanted[k])) {
        add_to(gradients[static_cast<size_t>(wanted[k])], of[k]);
      }
    }
  }
  for (int32_t i = end; i-- > 0;) {
    const Step& step = steps_[static_cast<size_t>(i)];
    Taped taped = std::move(tape[static_cast<size_t>(i)]);
    const auto of_output = [&](size_t k) {
      return step.out[k] < 0 ? at::Tensor()
                             : std::exchange(gradients[static_cast<size_t>(step.out[k])], {});
    };
    const auto hand_on = [&](size_t k, const at::Tensor& t) {
      if (t.defined() && is_live(step.in[k])) {
        add_to(gradients[static_cast<size_t>(step.in[k])], t);
      }
    };
    if (taped.pull) {
      const at::Tensor g = of_output(0);
      if (!g.defined()) continue;
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const Pulled pulled = taped.pull({call_of(step, taped), taped.out[0], g});
      for (size_t k = 0; k < pulled.size(); ++k) hand_on(k, pulled[k]);
      continue;
    }
    torch::autograd::variable_list outputs, inputs, of_outputs;
    for (size_t k = 0; k < std::min(taped.recorded.size(), step.out.size()); ++k) {
      const at::Tensor g = of_output(k);
      if (!g.defined() || !taped.recorded[k].t.requires_grad()) continue;
      outputs.push_back(taped.recorded[k].t);
      of_outputs.push_back(g);
    }
    if (outputs.empty()) continue;
    std::vector<size_t> which;
    for (size_t k = 0; k < taped.leaves.size(); ++k) {
      if (!taped.leaves[k].defined()) continue;
      inputs.push_back(taped.leaves[k]);
      which.push_back(k);
    }
    const auto pulled = torch::autograd::grad(outputs, inputs, of_outputs, /*retain_graph=*/false,
                                              /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t k = 0; k < which.size(); ++k) hand_on(which[k], pulled[k]);
  }
  at::Tensor& of_x = gradients[static_cast<size_t>(input_)];
  return {std::move(values), of_x.defined() ? of_x : at::zeros_like(x)};
}

}  // namespace grapeshot::onnx
