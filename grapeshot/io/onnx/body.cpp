#include "grapeshot/io/onnx/body.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/bind.h"
#include "grapeshot/io/onnx/element_type.h"
#include "grapeshot/io/onnx/rounds.h"

namespace grapeshot::onnx {
namespace {

using Scope = std::unordered_map<std::string, Value>;

// What all nodes of a body share.
struct Setting {
  int64_t opset;
  Surrogate surrogate;
  at::ScalarType real;
  bool planning;
  const std::string& path;
};

Values run_nodes(const BoundBody& body, Scope scope, const Setting& setting) {
  for (const auto& [name, t] : body.constants) {
    scope[name] = {t.scalar_type() == at::kFloat ? t.to(setting.real) : t, false};
  }
  std::vector<Value> in;
  for (const BoundNode& bound : body.nodes) {
    in.clear();
    for (const std::string& name : bound.node.inputs) {
      const auto it = scope.find(name);
      GRAPESHOT_CHECK(name.empty() || it != scope.end(), kUnsupported, setting.path,
                      setting.path.empty() ? "" : ": ", "node '", bound.node.name, "' reads '",
                      name, "', which is not computed");
      in.push_back(name.empty() ? Value{} : it->second);
    }
    const Call call{bound.node,   setting.opset,    in, setting.surrogate,
                    setting.real, setting.planning, {}};
    // On a batch the node around it goes row by row instead, which is known when it is planned.
    GRAPESHOT_CHECK(!runs_by_row(bound, in), kUnsupported, "node '", bound.node.name, "' (",
                    bound.node.op, ") of a subgraph depends on the row");
    Values out = run_node(bound, call, false, setting.path);
    for (size_t i = 0; i < std::min(out.size(), bound.node.outputs.size()); ++i) {
      scope[bound.node.outputs[i]] = std::move(out[i]);
    }
  }
  Values out;
  for (const Port& port : body.outputs) {
    const auto it = scope.find(port.name);
    GRAPESHOT_CHECK(it != scope.end(), kUnsupported, setting.path, setting.path.empty() ? "" : ": ",
                    "output '", port.name, "' is not computed");
    out.push_back(it->second);
  }
  return out;
}

thread_local int64_t depth = 0, rounds = 0;

// "sequence of float", for messages.
std::string type_name(std::span<const Container> containers, const std::string& element) {
  std::string out;
  for (const Container each : containers) {
    out += each == Container::kSequence ? "sequence of " : "optional ";
  }
  return out + element;
}

// Whether `v` is what a port of these containers holds.
bool holds(const Value& v, std::span<const Container> containers, int32_t element) {
  if (containers.empty()) {
    const ElementType* type = v.t.defined() ? find_element_type(v.t.scalar_type()) : nullptr;
    return type && type->code == element;
  }
  const std::span<const Container> inside = containers.subspan(1);
  if (containers[0] == Container::kOptional) return !v.there() || holds(v, inside, element);
  return v.sequence && std::ranges::all_of(*v.sequence, [&](const Value& each) {
           return holds(each, inside, element);
         });
}

}  // namespace

Rounds::Rounds() {
  if (depth++ == 0) rounds = 0;
}

Rounds::~Rounds() {
  --depth;
}

void Rounds::count() {
  constexpr int64_t kMost = int64_t{1} << 14;
  GRAPESHOT_CHECK(rounds++ < kMost, kUnsupported, "its subgraphs run more than ", kMost, " times");
}

size_t own_inputs(const Call& call) {
  return call.in.size() - call.node.captures.size();
}

const BoundBody& find_body(const Call& call, std::string_view attribute) {
  const auto body = std::ranges::find(
      call.bodies, attribute, [](const auto& each) -> std::string_view { return each->attribute; });
  GRAPESHOT_CHECK(body != call.bodies.end(), kParse, "there is no ", attribute);
  return **body;
}

Values run_body(const Call& call, std::string_view attribute, std::span<const Value> inputs) {
  const BoundBody& bound = find_body(call, attribute);
  GRAPESHOT_CHECK(bound.inputs.size() == inputs.size(), kInvalidArgument, "its ", attribute,
                  " has ", bound.inputs.size(), " inputs, not ", inputs.size());
  Scope scope;
  const size_t own = own_inputs(call);
  for (size_t i = 0; i < call.node.captures.size(); ++i) {
    scope[call.node.captures[i]] = call.in[own + i];
  }
  for (size_t i = 0; i < inputs.size(); ++i) scope[bound.inputs[i]] = inputs[i];
  Rounds::count();
  static const std::string no_path;  // the node around it has one
  return run_nodes(bound, std::move(scope),
                   {call.opset, call.surrogate, call.real, call.planning, no_path});
}

Evaluator::Evaluator(const Graph& graph)
    : path_(graph.path), opset_(graph.opset), inputs_(graph.inputs), body_(bind_body(graph)) {}

Values Evaluator::operator()(std::span<const Value> inputs) const {
  GRAPESHOT_CHECK(inputs.size() == inputs_.size(), kInvalidArgument, path_, ": there are ",
                  inputs.size(), " inputs for ", inputs_.size(), " of the model");
  Scope scope;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = inputs_[i];
    GRAPESHOT_CHECK(holds(inputs[i], port.containers, port.element), kInvalidArgument, path_,
                    ": the value for input '", port.name, "' is no ",
                    type_name(port.containers, element_name(port.element)));
    scope[port.name] = inputs[i];
  }
  return run_nodes(body_, std::move(scope), {opset_, Surrogate::kLoose, at::kFloat, true, path_});
}

}  // namespace grapeshot::onnx
