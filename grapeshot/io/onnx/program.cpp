#include "grapeshot/io/onnx/program.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot::onnx {
namespace {

// Runs one node; an error names the file, the node and its operator.
Values run_node(const BoundNode& bound, int64_t opset, std::span<const Value> in,
                Surrogate surrogate, const std::string& path) {
  const auto place = [&] {
    return str(path, ": node '", bound.node.name, "' (", bound.node.op, ", opset ", opset, "): ");
  };
  try {
    return bound.run(Call{bound.node, opset, in, surrogate});
  } catch (const Error& e) {
    throw Error(e.code(), place() + e.what());
  } catch (const c10::Error& e) {
    std::string why = e.what_without_backtrace();
    why = why.substr(0, why.find('\n'));
    throw Error(ErrorCode::kInvalidArgument, place() + why);
  }
}

int64_t numel(const Value& v) {
  const auto shape = v.shape();
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Multiply-adds of one row.
int64_t macs_of(const Node& node, std::span<const Value> in, const Value& out) {
  if (node.op == "Conv") {
    const at::Tensor& weight = in[1].t;
    return numel(out) * (weight.numel() / std::max<int64_t>(weight.size(0), 1));
  }
  if (node.op == "MatMul") return numel(out) * in[0].t.size(-1);
  if (node.op == "Gemm") return numel(out) * in[0].size(node.i("transA", 0) != 0 ? 0 : 1);
  return 0;
}

}  // namespace

Recording fold_constants(Network& network, const at::Tensor& x) {
  Recording recording;
  std::unordered_map<std::string, Value> values;
  for (const auto& [name, t] : network.constants) values[name] = {t, false};
  values[network.input] = {x, true};
  std::vector<BoundNode> kept;
  for (BoundNode& bound : network.nodes) {
    std::vector<Value> in;
    for (const std::string& name : bound.node.inputs) {
      // Written by its node, but an output that the operator does not compute.
      GRAPESHOT_CHECK(name.empty() || values.contains(name), kUnsupported, network.path, ": node '",
                      bound.node.name, "' reads '", name, "', which is not computed");
      in.push_back(name.empty() ? Value{} : values.at(name));
    }
    const Values out = run_node(bound, network.opset, in, Surrogate::kLoose, network.path);
    const bool rows = std::ranges::any_of(in, &Value::rows);
    for (size_t i = 0; i < std::min(out.size(), bound.node.outputs.size()); ++i) {
      const std::string& name = bound.node.outputs[i];
      if (name.empty()) continue;
      values[name] = out[i];
      if (!rows) network.constants[name] = out[i].t.contiguous();
    }
    if (!rows) continue;
    recording.macs += macs_of(bound.node, in, out[0]);
    if (!out[0].t.is_alias_of(in[0].t)) recording.activation_values += numel(out[0]);
    kept.push_back(std::move(bound));
  }
  network.nodes = std::move(kept);
  for (const auto& [name, v] : values) recording.tensors[name] = {v.shape().vec(), v.rows};
  return recording;
}

Program::Program(const Network& network) : path_(network.path), opset_(network.opset) {
  std::unordered_set<std::string> needed;
  for (const BoundNode& bound : network.nodes) {
    needed.insert(bound.node.inputs.begin(), bound.node.inputs.end());
  }
  needed.insert(network.output);
  const auto new_slot = [&](const std::string& name) {
    const auto slot = static_cast<int32_t>(slots_.size());
    constants_.emplace_back();
    ready_after_.push_back(static_cast<int32_t>(steps_.size()));
    return slots_.emplace(name, slot).first->second;
  };
  input_ = new_slot(network.input);
  for (const auto& [name, t] : network.constants) {
    if (needed.contains(name)) constants_[static_cast<size_t>(new_slot(name))] = {t, false};
  }
  std::unordered_map<int32_t, size_t> last_reader;
  for (const BoundNode& bound : network.nodes) {
    Step step{bound, {}, {}, {}};
    for (const std::string& name : bound.node.inputs) {
      const int32_t slot = name.empty() ? -1 : slots_.at(name);
      step.in.push_back(slot);
      if (slot >= 0) last_reader[slot] = steps_.size();
    }
    steps_.push_back(std::move(step));  // before the outputs: they are ready after this step
    for (const std::string& name : bound.node.outputs) {
      steps_.back().out.push_back(name.empty() ? -1 : new_slot(name));
    }
  }
  for (const auto& [slot, step] : last_reader) {
    if (!constants_[static_cast<size_t>(slot)].t.defined()) steps_[step].last.push_back(slot);
  }
}

int32_t Program::slot(const std::string& tensor) const {
  const auto it = slots_.find(tensor);
  GRAPESHOT_CHECK(it != slots_.end(), kInternal, path_, ": no tensor is called '", tensor, "'");
  return it->second;
}

const std::vector<Value>& Program::constants_for(at::ScalarType type) const {
  if (type != at::kDouble) return constants_;
  std::call_once(doubles_->made, [&] {
    doubles_->constants = constants_;
    for (Value& v : doubles_->constants) {
      if (v.t.defined() && v.t.scalar_type() == at::kFloat) v.t = v.t.to(at::kDouble);
    }
  });
  return doubles_->constants;
}

std::vector<Value> Program::run(const at::Tensor& x, const std::vector<int32_t>& wanted,
                                Surrogate surrogate) const {
  const std::vector<Value>& constants = constants_for(x.scalar_type());
  std::vector<Value> computed(constants.size());
  computed[static_cast<size_t>(input_)] = {x, true};
  const auto value = [&](int32_t slot) -> const Value& {
    const auto i = static_cast<size_t>(slot);
    return constants[i].t.defined() ? constants[i] : computed[i];
  };
  int32_t end = 0;
  for (const int32_t slot : wanted) {
    end = std::max(end, ready_after_[static_cast<size_t>(slot)]);
  }
  c10::SmallVector<Value, 8> in;
  for (int32_t i = 0; i < end; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    in.clear();
    for (const int32_t slot : step.in) in.push_back(slot < 0 ? Value{} : value(slot));
    Values out = run_node(step.bound, opset_, {in.data(), in.size()}, surrogate, path_);
    for (size_t k = 0; k < std::min(out.size(), step.out.size()); ++k) {
      if (step.out[k] >= 0) computed[static_cast<size_t>(step.out[k])] = std::move(out[k]);
    }
    for (const int32_t slot : step.last) {
      if (std::ranges::find(wanted, slot) == wanted.end()) computed[static_cast<size_t>(slot)] = {};
    }
  }
  std::vector<Value> result;
  result.reserve(wanted.size());
  for (const int32_t slot : wanted) result.push_back(value(slot));
  return result;
}

}  // namespace grapeshot::onnx
