#include "grapeshot/io/onnx/bind.h"

#include <algorithm>
#include <memory>
#include <span>
#include <unordered_set>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/functions.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

// Larger networks than this exist in damaged files only.
constexpr int64_t kMostInputs = int64_t{1} << 28;

// The nodes that the outputs need, each after the nodes that it reads.
class Order {
 public:
  explicit Order(const Graph& graph) : graph_(graph) {
    for (const Port& port : graph.inputs) inputs_.insert(port.name);
    for (const Node& node : graph.nodes) {
      for (const std::string& name : node.outputs) {
        if (name.empty()) continue;
        const auto complain = [&](std::string_view what) {
          throw Error(ErrorCode::kParse, str(graph_.path, ": node '", node.name, "' writes '", name,
                                             "', which ", what, " too"));
        };
        if (inputs_.contains(name)) complain("is an input,");
        if (graph.constants.contains(name)) complain("is an initializer,");
        if (!writer_.emplace(name, &node).second) complain("another node writes");
      }
    }
  }

  std::vector<const Node*> run() {
    for (const Port& port : graph_.outputs) {
      visit(port.name, nullptr);
      finish();
    }
    return std::move(order_);
  }

 private:
  void visit(const std::string& name, const Node* reader) {
    if (name.empty() || graph_.constants.contains(name) || inputs_.contains(name)) return;
    const auto it = writer_.find(name);
    GRAPESHOT_CHECK(it != writer_.end(), kParse, graph_.path, ": ",
                    reader ? str("node '", reader->name, "' reads '") : std::string("the output '"),
                    name, "'", reader ? ", which nothing writes" : " is written by no node");
    const auto known = done_.find(it->second);
    if (known == done_.end()) {
      done_[it->second] = false;
      stack_.emplace_back(it->second, 0);
    } else {
      GRAPESHOT_CHECK(known->second, kParse, graph_.path, ": node '", it->second->name,
                      "' depends on its own output");
    }
  }

  // An explicit stack, since a damaged file may nest as deep as it likes.
  void finish() {
    while (!stack_.empty()) {
      auto& [node, next] = stack_.back();
      const Node* reader = node;
      if (next < node->inputs.size()) {
        visit(reader->inputs[next++], reader);
      } else if (next < node->inputs.size() + node->captures.size()) {
        visit(reader->captures[next++ - reader->inputs.size()], reader);
      } else {
        done_[node] = true;
        order_.push_back(node);
        stack_.pop_back();
      }
    }
  }

  const Graph& graph_;
  std::unordered_set<std::string> inputs_;
  std::unordered_map<std::string, const Node*> writer_;
  std::unordered_map<const Node*, bool> done_;
  std::vector<std::pair<const Node*, size_t>> stack_;
  std::vector<const Node*> order_;
};

// Functions for nodes and those of their subgraphs; all operators that are missing are named at
// once.
class Binder {
 public:
  Binder(int64_t opset, const std::string& path) : opset_(opset), path_(path) {}

  std::vector<BoundNode> run(const std::vector<const Node*>& nodes) {
    std::vector<BoundNode> out = bind_all(nodes);
    GRAPESHOT_CHECK(missing_.empty(), kUnsupported, path_, ": ", named_.size(),
                    named_.size() == 1 ? " operator is" : " operators are",
                    " not supported at opset ", opset_, ": ", missing_,
                    "; `grapeshot list operators` shows what is");
    return out;
  }

 private:
  std::vector<BoundNode> bind_all(const std::vector<const Node*>& nodes) {
    std::vector<BoundNode> out;
    for (const Node* node : nodes) {
      if (const Operator* op = find_operator(*node, opset_)) {
        check_ports(*node, op->inputs);
        out.push_back(bound(*node, *op, out.size()));
      } else if (named_.insert(node->domain + node->op).second) {
        missing_ +=
            str(missing_.empty() ? "" : ", ", node->domain.empty() ? "" : node->domain + ".",
                node->op, " (node '", node->name, "')");
      }
    }
    return out;
  }

  void check_ports(const Node& node, int64_t needed) const {
    const auto there = std::ranges::find(node.inputs, "") - node.inputs.begin();
    GRAPESHOT_CHECK(there >= needed, kParse, path_, ": node '", node.name, "' (", node.op, ") has ",
                    there, " inputs, it needs ", needed);
    GRAPESHOT_CHECK(!node.outputs.empty(), kParse, path_, ": node '", node.name, "' (", node.op,
                    ") has no output");
  }

  BoundNode bound(const Node& node, const Operator& op, size_t position) {
    BoundNode out{node, op.run, op.batched, {}, op.types};
    // What the passes write there for themselves, and an output that is left out.
    std::erase_if(out.node.attributes, [](const Attribute& a) { return a.name == "relu"; });
    std::string& first = out.node.outputs[0];
    if (first.empty()) first = str("#left out/", node.name, "/", position + 1);
    if (is_branch(node)) {
      for (const std::string_view name : {"then_branch", "else_branch"}) {
        const Attribute* a = node.find(name);
        GRAPESHOT_CHECK(a && a->body, kParse, path_, ": node '", node.name, "' (If) has no ", name);
      }
    }
    for (const Attribute& a : node.attributes) {
      if (!a.body) continue;
      auto body = std::make_shared<BoundBody>(bound_body(*a.body));
      body->attribute = a.name;
      out.bodies.push_back(std::move(body));
    }
    out.node.inputs.insert(out.node.inputs.end(), node.captures.begin(), node.captures.end());
    return out;
  }

  BoundBody bound_body(const Body& body) {
    BoundBody out;
    std::vector<const Node*> nodes;
    for (const Node& node : body.nodes) nodes.push_back(&node);
    out.nodes = bind_all(nodes);
    out.constants = body.constants;
    for (const Port& port : body.inputs) out.inputs.push_back(port.name);
    out.outputs = body.outputs;
    return out;
  }

  int64_t opset_;
  const std::string& path_;
  std::string missing_;
  std::unordered_set<std::string> named_;
};

// One of several inputs out of all of them: [N, D] -> [N, shape...].
Values take_input(const Call& call) {
  const at::Tensor& all = call.in[0].t;
  const int64_t begin = call.node.i("begin", 0), size = call.node.i("size", 0);
  return {reshaped({all.slice(1, begin, begin + size), true}, call.node.ints("shape", {}))};
}

// Several outputs flat, one after the other: -> [N, K].
Values join_outputs(const Call& call) {
  const int64_t n = row_count(call.in);
  std::vector<at::Tensor> parts;
  for (const Value& v : call.in) {
    const at::Tensor t = v.t.to(call.real);
    parts.push_back(n < 0 ? t.flatten() : as_rows({t, v.rows}, n).reshape({n, product(v.shape())}));
  }
  return {Value{at::cat(parts, n < 0 ? 0 : 1), n >= 0}};
}

Attribute integer(std::string name, int64_t value) {
  Attribute a;
  a.name = std::move(name);
  a.i = value;
  return a;
}

// A name that no tensor of the file has.
std::string free_name(const Graph& graph, std::string name) {
  const auto taken = [&] {
    return graph.constants.contains(name) ||
           std::ranges::any_of(graph.inputs, [&](const Port& p) { return p.name == name; }) ||
           std::ranges::any_of(graph.nodes, [&](const Node& node) {
             return std::ranges::count(node.outputs, name) > 0;
           });
  };
  while (taken()) name.push_back('\'');
  return name;
}

// Sizes of the inputs; a symbolic dimension is 1.
void describe_inputs(const Graph& graph, Network& network) {
  int64_t total = 0;
  for (const Port& input : graph.inputs) {
    GRAPESHOT_CHECK(input.float32, kUnsupported, graph.path, ": input '", input.name,
                    "' is not float32");
    GRAPESHOT_CHECK(input.has_shape, kUnsupported, graph.path, ": input '", input.name,
                    "' has no shape");
    PortSlice slice{input.name, {}, total, 1, input.shape};
    for (const int64_t size : input.shape) {
      slice.shape.push_back(std::max<int64_t>(size, 1));
      GRAPESHOT_CHECK(!__builtin_mul_overflow(slice.size, slice.shape.back(), &slice.size) &&
                          slice.size <= kMostInputs - total,
                      kUnsupported, graph.path, ": input '", input.name, "' has more than ",
                      kMostInputs, " values");
    }
    total += slice.size;
    network.inputs.push_back(std::move(slice));
  }
}

void join_inputs(const Graph& graph, Network& network) {
  if (network.inputs.size() == 1) {
    network.input = network.inputs[0].name;
    network.input_shape = network.inputs[0].shape;
    return;
  }
  network.input = free_name(graph, "inputs");
  const PortSlice& last = network.inputs.back();
  network.input_shape = {last.begin + last.size};
  for (const PortSlice& input : network.inputs) {
    BoundNode take{Node{}, take_input};
    take.node.op = "Input";
    take.node.name = input.name;
    take.node.inputs = {network.input};
    take.node.outputs = {input.name};
    Attribute shape;
    shape.name = "shape";
    shape.ints = input.shape;
    take.node.attributes = {integer("begin", input.begin), integer("size", input.size), shape};
    network.nodes.push_back(std::move(take));
  }
}

}  // namespace

bool is_branch(const Node& node) {
  return node.op == "If" && node.domain.empty();
}

std::vector<BoundNode> taken_branch(Network& network, const Node& node, bool condition) {
  const Body& body = *node.find(condition ? "then_branch" : "else_branch")->body;
  GRAPESHOT_CHECK(body.outputs.size() == node.outputs.size(), kParse, network.path, ": node '",
                  node.name, "' (If) has ", node.outputs.size(), " outputs, its branch ",
                  body.outputs.size());
  std::unordered_map<std::string, std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty()) names.emplace(name, str(node.outputs[0], "/", node.name, "/", name));
  };
  for (const auto& [name, t] : body.constants) add(name);
  for (const Node& inner : body.nodes) std::ranges::for_each(inner.outputs, add);
  for (const auto& [name, t] : body.constants) network.constants[names.at(name)] = t;
  std::unordered_set<std::string> written;
  for (const Node& inner : body.nodes) {
    for (const std::string& name : inner.outputs) {
      GRAPESHOT_CHECK(
          name.empty() || (written.insert(name).second && !body.constants.contains(name)), kParse,
          network.path, ": node '", inner.name, "' writes '", name,
          "', which another node or an initializer gives too");
    }
  }
  std::vector<Node> nodes;
  for (const Node& inner : body.nodes) nodes.push_back(renamed(inner, names));
  // The branch's outputs under the names of the node's own.
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string& from = body.outputs[i].name;
    Node pass;
    pass.op = "Identity";
    pass.name = node.name;
    pass.inputs = {names.contains(from) ? names.at(from) : from};
    pass.outputs = {node.outputs[i]};
    nodes.push_back(std::move(pass));
  }
  std::vector<const Node*> pointers;
  for (const Node& each : nodes) pointers.push_back(&each);
  return Binder(network.opset, network.path).run(pointers);
}

BoundBody bind_body(const Graph& graph) {
  BoundBody out;
  out.nodes = Binder(graph.opset, graph.path).run(Order(graph).run());
  out.constants = graph.constants;
  for (const Port& port : graph.inputs) out.inputs.push_back(port.name);
  out.outputs = graph.outputs;
  return out;
}

Network bind(const Graph& graph) {
  GRAPESHOT_CHECK(!graph.inputs.empty() && !graph.outputs.empty(), kUnsupported, graph.path,
                  ": the model has ", graph.inputs.size(), " inputs and ", graph.outputs.size(),
                  " outputs; it needs one of each at least");
  Network network;
  network.path = graph.path;
  network.opset = graph.opset;
  network.constants = graph.constants;
  describe_inputs(graph, network);
  join_inputs(graph, network);
  for (BoundNode& bound : Binder(graph.opset, graph.path).run(Order(graph).run())) {
    network.nodes.push_back(std::move(bound));
  }
  for (const Port& output : graph.outputs) network.outputs.push_back({output.name, {}, 0, 0, {}});
  network.output = graph.outputs[0].name;
  if (graph.outputs.size() > 1) {
    BoundNode join{Node{}, join_outputs};
    join.node.op = "Outputs";
    join.node.name = "outputs";
    for (const Port& output : graph.outputs) join.node.inputs.push_back(output.name);
    network.output = free_name(graph, "outputs");
    join.node.outputs = {network.output};
    network.nodes.push_back(std::move(join));
  }
  return network;
}

}  // namespace grapeshot::onnx
