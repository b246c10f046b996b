// grapeshot/io/onnx/taps.cpp: what a pass records of a network's inside.
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/onnx/shapes.h"
#include "grapeshot/io/onnx/window_loops.h"

namespace grapeshot::onnx {
namespace {

// The tensors that are channels of a convolution over space, [B, C, space...]: what a convolution
// writes, and what operators that keep that layout make of it.
std::unordered_set<std::string> feature_maps(const Network& network, const Recording& recording) {
  static const std::unordered_set<std::string_view> keeps = {
      "Add",      "AveragePool", "BatchNormalization",
      "Div",      "Dropout",     "Floor",
      "Identity", "LeakyRelu",   "MaxPool",
      "Mul",      "Relu",        "Round",
      "Sigmoid",  "Sign",        "Sub",
      "Tanh"};
  std::unordered_set<std::string> maps;
  for (const BoundNode& bound : network.nodes) {
    const Node& node = bound.node;
    const size_t rank = recording.tensors.at(node.outputs[0]).shape.size();
    const bool follows =
        keeps.contains(node.op) && std::ranges::any_of(node.inputs, [&](const std::string& in) {
          return maps.contains(in) && recording.tensors.at(in).shape.size() == rank;
        });
    if (node.op == "Conv" || node.op == "ConvTranspose" || follows) maps.insert(node.outputs[0]);
  }
  return maps;
}

// The nodes that read each tensor.
using Readers = std::unordered_map<std::string, std::vector<const Node*>>;

Readers readers_of(const Network& network) {
  Readers out;
  for (const BoundNode& bound : network.nodes) {
    for (const std::string& name : bound.node.inputs) out[name].push_back(&bound.node);
  }
  return out;
}

bool is_recurrent(const Node& node) {
  return node.op == "LSTM" || node.op == "GRU" || node.op == "RNN";
}

}  // namespace

void OnnxModel::find_taps() {
  Readers readers = readers_of(network_);
  const auto only_reader = [&](const std::string& name) -> const Node* {
    const auto& all = readers[name];
    return all.size() == 1 && name != network_.output ? all[0] : nullptr;
  };
  const auto rectifies = [](const Node* node) {
    return node && (node->op == "Relu" || node->op == "LeakyRelu");
  };
  // What reads `name` alone, seen through operators that leave neurons what they are.
  const auto real_reader = [&](const std::string& name) {
    const Node* reader = only_reader(name);
    while (reader && (reader->op == "BatchNormalization" || reader->op == "Identity" ||
                      reader->op == "Dropout")) {
      reader = only_reader(reader->outputs[0]);
    }
    return reader;
  };
  const std::unordered_set<std::string> maps = feature_maps(network_, recording_);
  for (const BoundNode& bound : network_.nodes) {
    const Node& node = bound.node;
    Tap tap;
    tap.name = node.outputs[0];
    if (recording_.tensors.at(tap.name).ragged) continue;
    tap.rectifier = rectifies(&node);
    int64_t steps = -1;
    if (is_recurrent(node)) {
      steps = 1 + node.i("layout", 0);
    } else if (node.op == "MatMul") {
      // Of two tensors that both depend on the input it is no layer.
      if (std::ranges::none_of(node.inputs, [&](const std::string& in) {
            return network_.constants.contains(in);
          })) {
        continue;
      }
      // A linear layer's output includes its bias.
      const Node* add = only_reader(tap.name);
      if (add && add->op == "Add" && std::ranges::any_of(add->inputs, [&](const auto& in) {
            return network_.constants.contains(in);
          })) {
        tap.name = add->outputs[0];
      }
    } else if (node.op != "Conv" && node.op != "ConvTranspose" && node.op != "Gemm" &&
               !tap.rectifier) {
      continue;
    }
    tap.redundant = !tap.rectifier && rectifies(real_reader(tap.name));
    const auto& shape = recording_.tensors.at(tap.name).shape;
    const bool map = maps.contains(tap.name);
    tap.neurons = map ? shape[0] * shape[1] : product(shape);
    if (steps > 0) tap.neurons /= shape[static_cast<size_t>(steps - 1)];
    taps_.push_back(tap);
    tap_steps_.push_back(steps);
    tap_is_map_.push_back(map);
    tap_never_negative_.push_back(node.op == "Relu");
  }
}

// Where a sequence's steps lie, and in which order they are computed.
void OnnxModel::find_sequences() {
  Readers readers = readers_of(network_);
  // Whether some MatMul multiplies `name`, or what passes it on, with a tensor of the row.
  const std::function<bool(const std::string&)> weighs = [&](const std::string& name) {
    return std::ranges::any_of(readers[name], [&](const Node* node) {
      if (node->op == "Identity" || node->op == "Dropout") return weighs(node->outputs[0]);
      return node->op == "MatMul" && node->inputs[0] == name &&
             !network_.constants.contains(node->inputs[1]);
    });
  };
  for (const BoundNode& bound : network_.nodes) {
    const Node& node = bound.node;
    const TensorInfo& info = recording_.tensors.at(node.outputs[0]);
    const std::vector<int64_t>& shape = info.shape;
    if (info.ragged || product(shape) == 0) continue;
    if (is_recurrent(node)) {
      const int64_t layout = node.i("layout", 0), steps = shape[static_cast<size_t>(layout)];
      if (node.inputs.size() > 4 && !node.inputs[4].empty()) {
        const auto lengths = network_.constants.find(node.inputs[4]);
        if (lengths == network_.constants.end()) continue;
        if (!lengths->second.eq(steps).all().item<bool>()) continue;
      }
      const std::string_view direction = node.s("direction", "forward");
      recurrent_.push_back({node.outputs[0], {steps, product(shape) / steps}});
      directions_.push_back({1 + layout, direction == "reverse", direction == "bidirectional"});
      continue;
    }
    const auto rank = static_cast<int64_t>(shape.size());
    if (node.op != "Softmax" || rank < 2 || !weighs(node.outputs[0])) continue;
    if (normal_axis(node.i("axis", network_.opset < 13 ? 1 : -1), rank) != rank - 1) continue;
    const int64_t queries = shape.end()[-2], keys = shape.back();
    attention_.push_back({node.outputs[0], {product(shape) / (queries * keys), queries, keys}});
  }
}

std::vector<int64_t> OnnxModel::space_of(size_t tap, const at::Tensor& t) const {
  if (tap_steps_[tap] > 0) return {tap_steps_[tap]};
  std::vector<int64_t> space;
  for (int64_t axis = 3; tap_is_map_[tap] && axis < t.dim(); ++axis) space.push_back(axis);
  return space;
}

at::Tensor OnnxModel::states_of(const at::Tensor& t, size_t layer) const {
  const Direction& d = directions_[layer];
  // [N, T, D, B, H] or, batch first, [N, T, B, D, H]; what goes from the end begins there.
  at::Tensor steps = t.movedim(d.steps, 1);
  if (d.reversed) steps = steps.flip(1);
  if (d.both) {
    const int64_t axis = d.steps + 1;
    steps = at::stack({steps.select(axis, 0), steps.select(axis, 1).flip(1)}, axis);
  }
  return steps.flatten(2);
}

Trace OnnxModel::trace(const at::Tensor& x, Head head, const Wanted& wanted) const {
  const at::NoGradGuard no_grad;
  Trace trace;
  if (!fallback_.empty() && x.size(0) > 1) {
    std::vector<Trace> rows;
    for (int64_t i = 0; i < x.size(0); ++i) {
      rows.push_back(this->trace(x.slice(0, i, i + 1), head, wanted));
    }
    const auto joined = [&](auto pick) {
      std::vector<at::Tensor> parts;
      for (const Trace& row : rows) parts.push_back(pick(row));
      return at::cat(parts);
    };
    trace.y = joined([](const Trace& t) { return t.y; });
    for (const auto of : {&Trace::activations, &Trace::means, &Trace::extremes, &Trace::states,
                          &Trace::attention}) {
      for (size_t k = 0; k < (rows[0].*of).size(); ++k) {
        (trace.*of).push_back(joined([&](const Trace& t) { return (t.*of)[k]; }));
      }
    }
    return trace;
  }
  std::vector<int64_t> shape = network_.input_shape;
  shape.insert(shape.begin(), x.size(0));
  // Lowering leaves what its tensors hold as it is, but not all of them there.
  const auto name = [&](int64_t tap) { return taps_[static_cast<size_t>(tap)].name; };
  std::vector<std::string> names;
  names.reserve(wanted.taps.size());
  for (const int64_t tap : wanted.taps) names.push_back(name(tap));
  for (const SequenceTap& layer : recurrent_) {
    if (wanted.states) names.push_back(layer.name);
  }
  for (const SequenceTap& layer : attention_) {
    if (wanted.attention) names.push_back(layer.name);
  }
  const bool lowered = std::ranges::all_of(
      names, [&](const std::string& each) { return lowered_.program->has(each); });
  const Compiled& compiled = lowered ? lowered_ : as_read_;
  std::vector<int32_t> slots = {head == Head::kLogits ? compiled.logits : compiled.output};
  for (const std::string& each : names) slots.push_back(compiled.program->slot(each));
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto values = compiled.program->run(x.reshape(shape), slots, Surrogate::kLoose);
  trace.y = flat_rows(values[0], x.size(0), width_of(head), x.scalar_type(), name_);
  size_t k = 1;
  for (const int64_t tap : wanted.taps) {
    record(values[k++], static_cast<size_t>(tap), wanted, x, trace);
  }
  for (size_t i = 0; wanted.states && i < recurrent_.size(); ++i) {
    trace.states.push_back(states_of(values[k++].t, i));
  }
  for (size_t i = 0; wanted.attention && i < attention_.size(); ++i) {
    const std::vector<int64_t>& sizes = attention_[i].shape;
    trace.attention.push_back(values[k++].t.reshape({x.size(0), sizes[0], sizes[1], sizes[2]}));
  }
  return trace;
}

void OnnxModel::record(const Value& value, size_t tap, const Wanted& wanted, const at::Tensor& x,
                       Trace& trace) const {
  const at::Tensor& t = value.t;
  const int64_t neurons = taps_[tap].neurons;
  // Where rows decide how many neurons there are, none of them does anything.
  const auto add = [&](std::vector<at::Tensor>& to, int64_t width, const auto& of) {
    const at::Tensor a = value.ragged ? at::Tensor() : of();
    const bool odd = !a.defined() || a.size(1) != width;
    to.push_back(odd ? at::zeros({x.size(0), width}, x.options()) : a);
  };
  const std::vector<int64_t> space = value.ragged ? std::vector<int64_t>() : space_of(tap, t);
  if (wanted.largest) {
    add(trace.activations, neurons, [&]() -> at::Tensor {
      if (tap_is_map_[tap] && t.dim() == 5) {
        return largest_of_channels(t.flatten(0, 1)).view({t.size(0), t.size(1) * t.size(2)});
      }
      const at::Tensor a = tap_never_negative_[tap] ? t : t.abs();
      return space.empty() ? a.flatten(1) : a.amax(space).flatten(1);
    });
  }
  if (wanted.means) {
    add(trace.means, neurons,
        [&]() -> at::Tensor { return space.empty() ? t.flatten(1) : t.mean(space).flatten(1); });
  }
  if (wanted.extremes) {
    add(trace.extremes, 2, [&]() -> at::Tensor {
      std::vector<int64_t> axes;
      for (int64_t axis = 1; axis < t.dim(); ++axis) axes.push_back(axis);
      return at::stack({t.amin(axes), t.amax(axes)}, 1);
    });
  }
}

}  // namespace grapeshot::onnx
