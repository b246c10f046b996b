#include "grapeshot/io/onnx/program.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/memory.h"
#include "grapeshot/io/onnx/rounds.h"
#include "grapeshot/io/onnx/shapes.h"
#include "grapeshot/io/onnx/widen.h"

namespace grapeshot::onnx {
namespace {

// The tape keeps gradients of tensors only.
bool makes_sequences(const Node& node) {
  return node.op.starts_with("Sequence") || node.op.starts_with("Optional") ||
         node.op == "SplitToSequence";
}

// The rows of the first of `in` that has them, or -1.
int64_t row_count_of(std::span<const Value> in) {
  for (const Value& v : in) {
    if (v.ragged) return static_cast<int64_t>(v.ragged->size());
    if (v.sequence && v.rows) return row_count_of(*v.sequence);
    if (v.rows) return v.t.size(0);
  }
  return -1;
}

bool has_ragged(const Value& v) {
  return v.ragged || (v.sequence && v.rows && std::ranges::any_of(*v.sequence, has_ragged));
}

// One row as a constant; zeros where there are no rows.
Value row_of(const Value& v, int64_t row) {
  if (!v.rows) return v;
  if (v.ragged) return {(*v.ragged)[static_cast<size_t>(row)], false};
  if (v.sequence) {
    std::vector<Value> values;
    for (const Value& each : *v.sequence) values.push_back(row_of(each, row));
    return Value::of_sequence(std::move(values));
  }
  return {v.t.size(0) == 0 ? at::zeros(v.shape(), v.t.options()) : v.t.select(0, row), false};
}

Values run_batch(const BoundNode& bound, const Call& call, const std::string& path) {
  const auto place = [&] {
    return str(path, path.empty() ? "" : ": ", "node '", bound.node.name, "' (", bound.node.op,
               ", opset ", call.opset, "): ");
  };
  try {
    if (needs_widening(bound, call)) return run_widened(bound, call);
    if (bound.bodies.empty()) return bound.run(call);
    const Rounds counted;
    Call with_bodies = call;
    with_bodies.bodies = bound.bodies;
    return bound.run(with_bodies);
  } catch (const Error& e) {
    throw Error(e.code(), place() + e.what());
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(place() + "out of memory");
  } catch (const c10::Error& e) {
    if (is_out_of_memory(e)) throw OutOfMemory(place() + "out of memory");
    std::string why = e.what_without_backtrace();
    why = why.substr(0, why.find('\n'));
    throw Error(ErrorCode::kInvalidArgument, place() + why);
  } catch (const std::exception& e) {  // oneDNN's, or no memory
    throw Error(ErrorCode::kInvalidArgument, place() + e.what());
  }
}

// Results of one output, a value a row: together again where their shapes are equal.
Value joined(std::span<const Value> rows, bool empty) {
  if (rows[0].sequence) {
    std::vector<Value> values;
    for (size_t i = 0; i < rows[0].sequence->size(); ++i) {
      std::vector<Value> each;
      for (const Value& row : rows) {
        GRAPESHOT_CHECK(row.sequence && row.sequence->size() == rows[0].sequence->size(),
                        kUnsupported, "the length of a sequence depends on the row");
        each.push_back((*row.sequence)[i]);
      }
      values.push_back(joined(each, empty));
    }
    return Value::of_sequence(std::move(values));
  }
  const bool there = rows[0].there();
  std::vector<at::Tensor> tensors;
  bool equal = true;
  for (const Value& row : rows) {
    GRAPESHOT_CHECK(row.there() == there && !row.sequence, kUnsupported,
                    "whether an optional is empty depends on the row");
    if (!there) continue;
    tensors.push_back(row.t);
    equal = equal && row.t.sizes() == tensors[0].sizes() &&
            row.t.scalar_type() == tensors[0].scalar_type();
  }
  if (!there) return {};
  if (!equal) {
    return {at::Tensor(), true,
            std::make_shared<const std::vector<at::Tensor>>(std::move(tensors))};
  }
  const at::Tensor t = at::stack(tensors);
  return {empty ? t.slice(0, 0, 0) : t, true};
}

Values run_rows(const BoundNode& bound, const Call& call, const std::string& path) {
  const int64_t n = row_count_of(call.in);
  if (n < 0) return run_batch(bound, call, path);  // a sequence that no row changes
  // Without rows a made-up one tells the shape.
  std::vector<std::vector<Value>> results;
  std::vector<Value> in(call.in.size());
  for (int64_t i = 0; i < std::max<int64_t>(n, 1); ++i) {
    for (size_t k = 0; k < in.size(); ++k) in[k] = row_of(call.in[k], i);
    const Values out = run_batch(
        bound, Call{call.node, call.opset, in, call.surrogate, call.real, call.planning}, path);
    results.resize(out.size());
    for (size_t k = 0; k < out.size(); ++k) results[k].push_back(out[k]);
  }
  Values out;
  for (const std::vector<Value>& rows : results) out.push_back(joined(rows, n == 0));
  return out;
}

}  // namespace

at::Tensor flat_rows(const Value& v, int64_t n, int64_t width, at::ScalarType real,
                     const std::string& path) {
  GRAPESHOT_CHECK(v.there() && !v.sequence, kUnsupported, path, ": an output is no tensor");
  GRAPESHOT_CHECK(!v.ragged && product(v.shape()) == width, kUnsupported, path,
                  ": the shape of the output depends on the input");
  const at::Tensor t = v.t.to(real);
  if (v.rows) return t.reshape({n, width});
  return t.reshape({1, t.numel()}).expand({n, t.numel()});
}

bool runs_by_row(const BoundNode& bound, std::span<const Value> in) {
  for (size_t i = 0; i < in.size(); ++i) {
    const bool may = i < 32 ? ((bound.batched >> i) & 1u) != 0 : bound.batched == kEveryInput;
    if (has_ragged(in[i]) || (in[i].rows && !may)) return true;
  }
  return false;
}

Values run_node(const BoundNode& bound, const Call& call, bool by_row, const std::string& path) {
  for (const Value& v : call.in) by_row |= has_ragged(v);
  return by_row ? run_rows(bound, call, path) : run_batch(bound, call, path);
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
    const auto [it, added] = slots_.emplace(name, slot);
    GRAPESHOT_CHECK(added, kParse, path_, ": '", name, "' is written twice");
    return it->second;
  };
  input_ = new_slot(network.input);
  for (const auto& [name, t] : network.constants) {
    if (needed.contains(name)) constants_[static_cast<size_t>(new_slot(name))] = {t, false};
  }
  std::unordered_map<int32_t, size_t> last_reader;
  for (const BoundNode& bound : network.nodes) {
    Step step{bound, {}, {}, {}};
    std::vector<Value> kinds;
    for (const std::string& name : bound.node.inputs) {
      const int32_t slot = name.empty() ? -1 : slots_.at(name);
      step.in.push_back(slot);
      if (slot >= 0) last_reader[slot] = steps_.size();
      kinds.push_back({at::Tensor(), slot >= 0 && !network.constants.contains(name)});
    }
    step.by_row = runs_by_row(bound, kinds);
    tapes_ = tapes_ && !step.by_row && !makes_sequences(bound.node);
    const bool is_sign = bound.node.op == "Sign" || bound.node.op == "Step";
    if (is_sign && !kinds.empty() && kinds[0].rows) step.sign = signs_++;
    steps_.push_back(std::move(step));  // before the outputs: they are ready after this step
    for (const std::string& name : bound.node.outputs) {
      // One of several outputs may be the same for all rows, and was folded.
      const bool unread = name.empty() || network.constants.contains(name);
      steps_.back().out.push_back(unread ? -1 : new_slot(name));
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

const std::vector<Value>& Program::constants_for(const at::Tensor& x) const {
  if (x.scalar_type() == at::kFloat && x.device().is_cpu()) return constants_;
  const std::lock_guard lock(copies_->mutex);
  const auto key = std::pair(x.scalar_type(), x.device().str());
  const auto known = copies_->of.find(key);
  if (known != copies_->of.end()) return known->second;
  std::vector<Value> copy = constants_;  // kept when it is complete: memory may run out
  std::vector<bool> read(copy.size(), false);
  for (const Step& step : steps_) {
    const bool resizes = step.bound.node.op == "Resize" || step.bound.node.op == "Upsample";
    for (size_t k = 1; resizes && k < step.in.size(); ++k) {
      if (step.in[k] >= 0) read[static_cast<size_t>(step.in[k])] = true;
    }
  }
  for (size_t i = 0; i < copy.size(); ++i) {
    // Shapes, indices, scales and single numbers are read on the host; rounded scales are others.
    at::Tensor& t = copy[i].t;
    if (!t.defined() || t.scalar_type() != at::kFloat || read[i]) continue;
    t = t.dim() == 0 ? t.to(x.scalar_type()) : t.to(x.options());
  }
  return copies_->of.emplace(key, std::move(copy)).first->second;
}

std::vector<Value> Program::run(const at::Tensor& x, const std::vector<int32_t>& wanted,
                                const Surrogate& surrogate, std::vector<float>* reach) const {
  const std::vector<Value>& constants = constants_for(x);
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
    Call call{step.bound.node, opset_, {in.data(), in.size()}, surrogate, x.scalar_type()};
    if (step.sign >= 0) {
      call.surrogate.sign = step.sign;
      if (reach && in[0].t.defined() && in[0].t.size(0) > 1) {
        reach->push_back(in[0].t.std(0).mean().item<float>());
      }
    }
    Values out = run_node(step.bound, call, step.by_row, path_);
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
