#include "grapeshot/io/onnx/model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

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

namespace grapeshot::onnx {
namespace {

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
  find_sequences();
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
      // [N, neurons] to the tap's shape, each place with its part of the mean.
      const at::Tensor& t = found[k + 1].t;
      const std::vector<int64_t> space = space_of(static_cast<size_t>(taps[k]), t);
      if (space.empty()) {
        slopes.push_back(of.means[k].reshape(t.sizes()));
        continue;
      }
      std::vector<int64_t> spread = t.sizes().vec();
      double places = 1.;
      for (const int64_t axis : space) {
        places *= static_cast<double>(std::exchange(spread[static_cast<size_t>(axis)], 1));
      }
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

at::Tensor OnnxModel::evaluate(const at::Tensor& x) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < x.size(0); ++i) {
    at::Tensor y = run_batch(as_read_, x.slice(0, i, i + 1), Head::kOutputs, Surrogate::kLoose);
    if (settle_) {
      const at::Tensor row = x.select(0, i).to(at::kDouble).contiguous();
      const at::Tensor exact = y.to(at::kDouble).clone();
      settle_({row.const_data_ptr<double>(), static_cast<size_t>(row.numel())},
              {exact.mutable_data_ptr<double>(), static_cast<size_t>(exact.numel())});
      y = exact.to(y.scalar_type());
    }
    rows.push_back(std::move(y));
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
