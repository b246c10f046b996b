#include "grapeshot/io/onnx/model.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/bind.h"
#include "grapeshot/io/onnx/fused.h"
#include "grapeshot/io/onnx/interval.h"
#include "grapeshot/io/onnx/lower.h"
#include "grapeshot/io/onnx/shapes.h"
#include "grapeshot/io/onnx/surrogate.h"
#include "grapeshot/io/onnx/window_loops.h"

namespace grapeshot::onnx {
namespace {

// [N, shape...] of a tensor that may not depend on the input at all -> [N, K].
at::Tensor flat_rows(const Value& v, int64_t n, int64_t width, at::ScalarType real,
                     const std::string& path) {
  GRAPESHOT_CHECK(!v.ragged && product(v.shape()) == width, kUnsupported, path,
                  ": the shape of the output depends on the input");
  const at::Tensor t = v.t.to(real);
  if (v.rows) return t.reshape({n, width});
  return t.reshape({1, t.numel()}).expand({n, t.numel()});
}

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

bool close(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::allclose(a, b, 1e-4, 1e-4, true);
}

}  // namespace

OnnxModel::OnnxModel(const Graph& graph) : OnnxModel(bind(graph)) {}

OnnxModel::OnnxModel(Network network) : name_(network.path), network_(std::move(network)) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> shape = network_.input_shape;
  inputs_ = product(shape);
  shape.insert(shape.begin(), 2);
  Rng rng(uint64_t{1});
  recording_ = fold_constants(network_, at::rand(shape, rng.generator()));
  GRAPESHOT_CHECK(recording_.tensors.contains(network_.output), kParse, name_, ": the output '",
                  network_.output, "' is written by no node");
  outputs_ = product(output_shape());
  GRAPESHOT_CHECK(outputs_ > 0, kUnsupported, name_, ": the output '", network_.output,
                  "' has no values");
  find_logits(network_, recording_);
  for (const BoundNode& bound : network_.nodes) {
    has_surrogates_ |= is_step_operator(bound.node.op);
  }
  as_read_ = compile(network_);
  find_taps();
  try {
    lowered_ = compile(lower(network_, recording_));
    check_rows();
  } catch (const std::exception&) {
    // Whatever a pass or its result cannot do, the graph as read can, or says what is wrong.
    lowered_ = compile(network_);
    check_rows();
  }
}

const std::vector<int64_t>& OnnxModel::output_shape() const {
  return recording_.tensors.at(network_.output).shape;
}

OnnxModel::Compiled OnnxModel::compile(const Network& network) {
  Compiled compiled;
  compiled.program = std::make_unique<Program>(network);
  compiled.output = compiled.program->slot(network.output);
  compiled.logits =
      network.logits.empty() ? compiled.output : compiled.program->slot(network.logits);
  return compiled;
}

int64_t OnnxModel::width_of(Head head) const {
  const bool logits = head == Head::kLogits && has_logits();
  return product(recording_.tensors.at(logits ? network_.logits : network_.output).shape);
}

at::Tensor OnnxModel::run_batch(const Compiled& compiled, const at::Tensor& x, Head head,
                                const Surrogate& surrogate) const {
  std::vector<int64_t> shape = network_.input_shape;
  shape.insert(shape.begin(), x.size(0));
  const int32_t slot = head == Head::kLogits ? compiled.logits : compiled.output;
  const auto y = compiled.program->run(x.reshape(shape), {slot}, surrogate);
  return flat_rows(y[0], x.size(0), width_of(head), x.scalar_type(), name_);
}

at::Tensor OnnxModel::run(const Compiled& compiled, const at::Tensor& x, Head head,
                          const Surrogate& surrogate) const {
  GRAPESHOT_CHECK(x.dim() == 2 && x.size(1) == inputs_, kInvalidArgument, name_,
                  ": expects rows of ", inputs_, " inputs, got ", x.sizes());
  if (x.size(0) == 0 && !recording_.islands.empty()) {
    // No row says what the shapes are that only rows know.
    return at::empty({0, width_of(head)}, x.options());
  }
  if (fallback_.empty() || x.size(0) <= 1) {
    if (records(x)) return run_batch(compiled, x, head, surrogate);
    // Without history there is nothing for autograd to do in between.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return run_batch(compiled, x, head, surrogate);
  }
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < x.size(0); ++i) {
    rows.push_back(run_batch(compiled, x.slice(0, i, i + 1), head, surrogate.slice(i, i + 1)));
  }
  return at::cat(rows);
}

// A batch must give what its rows give alone; where it does not (an operator that mixes rows in a
// way we did not foresee), the model runs row by row instead. In the same way the lowered graph
// must give what the graph as read gives, or it is not used. A first comparison in float32 is
// cheap; only float64 tells a step function that rounding flipped from a real difference.
void OnnxModel::check_rows() {
  Rng rng(uint64_t{2});
  bool rows_agree = true, lowering_agrees = true;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::rand({2, inputs_}, rng.generator()).to(type);
    rows_agree = lowering_agrees = true;
    std::vector<at::Tensor> whole;
    for (const Compiled* compiled : {&as_read_, &lowered_}) {
      whole.push_back(run_batch(*compiled, x, Head::kOutputs, Surrogate::kLoose));
      for (int64_t i = 0; i < 2; ++i) {
        const at::Tensor alone =
            run_batch(*compiled, x.slice(0, i, i + 1), Head::kOutputs, Surrogate::kLoose);
        rows_agree = rows_agree && close(whole.back().slice(0, i, i + 1), alone);
      }
    }
    lowering_agrees = close(whole[0], whole[1]);
    if (rows_agree && lowering_agrees) return;
  }
  if (!rows_agree) fallback_ = "a batch of two rows does not give what the rows give one by one";
  if (!lowering_agrees) lowered_ = compile(network_);
}

void OnnxModel::find_taps() {
  std::unordered_map<std::string, std::vector<const Node*>> readers;
  for (const BoundNode& bound : network_.nodes) {
    for (const std::string& name : bound.node.inputs) readers[name].push_back(&bound.node);
  }
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
    if (node.op == "MatMul") {
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
    taps_.push_back(tap);
    tap_is_map_.push_back(map);
    tap_never_negative_.push_back(node.op == "Relu");
  }
}

at::Tensor OnnxModel::forward(const at::Tensor& x, Head head) const {
  const at::NoGradGuard no_grad;
  return run(lowered_, x, head, Surrogate::kLoose);
}

at::Tensor OnnxModel::forward_unlowered(const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  return run(as_read_, x, Head::kOutputs, Surrogate::kLoose);
}

Gradient OnnxModel::gradient(const at::Tensor& x, Head head, const Surrogate& surrogate,
                             const Cotangent& cotangent) const {
  const bool fits = x.dim() == 2 && x.size(1) == inputs_;  // else run() says what is wrong
  if (fits && fallback_.empty() && x.size(0) > 0 && lowered_.program->tapes()) {
    return taped_gradient(lowered_, x, head, surrogate, {},
                          [&](const at::Tensor& y) { return JointCotangent{cotangent(y), {}}; });
  }
  const at::AutoGradMode grad(true);
  const at::Tensor leaf = x.detach().requires_grad_(true);
  const at::Tensor y = run(lowered_, leaf, head, surrogate);
  Gradient out;
  out.y = y.detach();
  if (!y.requires_grad()) {
    out.x = at::zeros_like(x);
    return out;
  }
  const auto g = torch::autograd::grad({y}, {leaf}, {cotangent(out.y)}, /*retain_graph=*/false,
                                       /*create_graph=*/false, /*allow_unused=*/true);
  out.x = g[0].defined() ? g[0] : at::zeros_like(x);
  return out;
}

Gradient OnnxModel::joint_gradient(
    const at::Tensor& x, Head head, const Surrogate& surrogate, const std::vector<int64_t>& taps,
    const std::function<JointCotangent(const at::Tensor& y)>& cotangent) const {
  const auto has_taps = [&](const Compiled& compiled) {
    return compiled.program->tapes() && std::ranges::all_of(taps, [&](int64_t tap) {
             return compiled.program->has(taps_[static_cast<size_t>(tap)].name);
           });
  };
  const bool fits = x.dim() == 2 && x.size(1) == inputs_ && x.size(0) > 0 && fallback_.empty();
  if (fits && has_taps(lowered_)) {
    return taped_gradient(lowered_, x, head, surrogate, taps, cotangent);
  }
  if (fits && has_taps(as_read_)) {
    return taped_gradient(as_read_, x, head, surrogate, taps, cotangent);
  }
  return Model::joint_gradient(x, head, surrogate, taps, cotangent);
}

Gradient OnnxModel::taped_gradient(
    const Compiled& compiled, const at::Tensor& x, Head head, const Surrogate& surrogate,
    const std::vector<int64_t>& taps,
    const std::function<JointCotangent(const at::Tensor& y)>& cotangent) const {
  std::vector<int64_t> shape = network_.input_shape;
  shape.insert(shape.begin(), x.size(0));
  std::vector<int32_t> slots = {head == Head::kLogits ? compiled.logits : compiled.output};
  for (const int64_t tap : taps) {
    slots.push_back(compiled.program->slot(taps_[static_cast<size_t>(tap)].name));
  }
  Gradient out;
  const auto flat = [&](const Value& y) {
    return flat_rows(y, x.size(0), width_of(head), x.scalar_type(), name_);
  };
  const auto cotangents = [&](const std::vector<Value>& found) {
    out.y = flat(found[0]);
    JointCotangent of = cotangent(out.y);
    std::vector<at::Tensor> slopes = {
        of.y.to(found[0].t.scalar_type()).reshape(found[0].t.sizes())};
    for (size_t k = 0; k < taps.size(); ++k) {
      // [N, neurons] to [N, B, C, space...], each place with its part of the mean, or [N,
      // units...].
      const at::Tensor& t = found[k + 1].t;
      if (!tap_is_map_[static_cast<size_t>(taps[k])] || t.dim() <= 3) {
        slopes.push_back(of.means[k].reshape(t.sizes()));
        continue;
      }
      std::vector<int64_t> spread = {t.size(0), t.size(1), t.size(2)};
      spread.resize(static_cast<size_t>(t.dim()), 1);
      const auto places = static_cast<double>(t[0][0][0].numel());
      slopes.push_back((of.means[k] / places).reshape(spread).expand(t.sizes()).contiguous());
    }
    return slopes;
  };
  const auto [values, of_x] =
      compiled.program->gradient(x.detach().reshape(shape), slots, surrogate, cotangents);
  if (!out.y.defined()) out.y = flat(values[0]);
  out.x = of_x.reshape(x.sizes()).contiguous();
  return out;
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
    for (const auto of : {&Trace::activations, &Trace::means, &Trace::extremes}) {
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
  const bool lowered = std::ranges::all_of(
      wanted.taps, [&](int64_t tap) { return lowered_.program->has(name(tap)); });
  const Compiled& compiled = lowered ? lowered_ : as_read_;
  std::vector<int32_t> slots = {head == Head::kLogits ? compiled.logits : compiled.output};
  for (const int64_t tap : wanted.taps) slots.push_back(compiled.program->slot(name(tap)));
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto values = compiled.program->run(x.reshape(shape), slots, Surrogate::kLoose);
  trace.y = flat_rows(values[0], x.size(0), width_of(head), x.scalar_type(), name_);
  for (size_t k = 1; k < values.size(); ++k) {
    record(values[k], static_cast<size_t>(wanted.taps[k - 1]), wanted, x, trace);
  }
  return trace;
}

void OnnxModel::record(const Value& value, size_t tap, const Wanted& wanted, const at::Tensor& x,
                       Trace& trace) const {
  const at::Tensor& t = value.t;  // [N, B, C, space...] or [N, units...]
  const int64_t neurons = taps_[tap].neurons;
  // Where rows decide how many neurons there are, none of them does anything.
  const auto add = [&](std::vector<at::Tensor>& to, int64_t width, const auto& of) {
    const at::Tensor a = value.ragged ? at::Tensor() : of();
    const bool odd = !a.defined() || a.size(1) != width;
    to.push_back(odd ? at::zeros({x.size(0), width}, x.options()) : a);
  };
  const bool map = tap_is_map_[tap];
  if (wanted.largest) {
    add(trace.activations, neurons, [&]() -> at::Tensor {
      if (map && t.dim() == 5) {
        return largest_of_channels(t.flatten(0, 1)).view({t.size(0), t.size(1) * t.size(2)});
      }
      const at::Tensor a = tap_never_negative_[tap] ? t : t.abs();
      return map ? a.flatten(3).amax(3).flatten(1) : a.flatten(1);
    });
  }
  if (wanted.means) {
    add(trace.means, neurons, [&]() -> at::Tensor {
      if (!map || t.dim() <= 3) return t.flatten(1);
      // Over the axes of space, whatever their order in memory.
      std::vector<int64_t> space;
      for (int64_t axis = 3; axis < t.dim(); ++axis) space.push_back(axis);
      return t.mean(space).flatten(1);
    });
  }
  if (wanted.extremes) {
    add(trace.extremes, 2, [&]() -> at::Tensor {
      std::vector<int64_t> axes;
      for (int64_t axis = 1; axis < t.dim(); ++axis) axes.push_back(axis);
      return at::stack({t.amin(axes), t.amax(axes)}, 1);
    });
  }
}

at::Tensor OnnxModel::evaluate(const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < x.size(0); ++i) {
    rows.push_back(run_batch(as_read_, x.slice(0, i, i + 1), Head::kOutputs, Surrogate::kLoose));
  }
  return rows.empty() ? at::empty({0, outputs_}, x.options()) : at::cat(rows);
}

std::vector<float> OnnxModel::reach(const at::Tensor& x) const {
  if (!has_surrogates_ || !fallback_.empty()) return {};
  const at::NoGradGuard no_grad;
  std::vector<int64_t> shape = network_.input_shape;
  shape.insert(shape.begin(), x.size(0));
  std::vector<float> out;
  (void)lowered_.program->run(x.reshape(shape), {lowered_.output}, Surrogate::kLoose, &out);
  return out;
}

std::optional<Bounds> OnnxModel::bounds(const at::Tensor& lo, const at::Tensor& hi,
                                        Head head) const {
  const at::NoGradGuard no_grad;
  if (!fallback_.empty() || !recording_.islands.empty()) return std::nullopt;
  std::vector<int64_t> shape = network_.input_shape;
  shape.insert(shape.begin(), lo.size(0));
  const std::string& wanted = head == Head::kLogits ? network_.logits : network_.output;
  const auto range = interval(network_, wanted, lo.reshape(shape), hi.reshape(shape));
  if (!range) return std::nullopt;
  return Bounds{range->first.flatten(1), range->second.flatten(1)};
}

std::unique_ptr<OnnxModel> load_model(const std::string& path) {
  return std::make_unique<OnnxModel>(parse_graph(read_file(path), path));
}

}  // namespace grapeshot::onnx
