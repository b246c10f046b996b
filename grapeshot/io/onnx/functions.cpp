#include "grapeshot/io/onnx/functions.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "grapeshot/base/error.h"

namespace grapeshot::onnx {
namespace {

constexpr int kMaxDepth = 32;
constexpr int64_t kMostNodes = int64_t{1} << 18;

// `body` with what it reads from outside renamed.
std::shared_ptr<const Body> renamed(const Body& body,
                                    std::unordered_map<std::string, std::string> names) {
  for (const auto& [name, t] : body.constants) names.erase(name);
  for (const Port& port : body.inputs) names.erase(port.name);
  for (const Node& node : body.nodes) {
    for (const std::string& name : node.outputs) names.erase(name);
  }
  auto out = std::make_shared<Body>(body);
  for (Node& node : out->nodes) node = onnx::renamed(std::move(node), names);
  for (Port& port : out->outputs) {
    if (const auto it = names.find(port.name); it != names.end()) port.name = it->second;
  }
  return out;
}

// Attributes of the function's nodes that stand for one of the call's.
void resolve(Node& node, const Node& call, const Function& function) {
  std::vector<Attribute> kept;
  for (Attribute& a : node.attributes) {
    if (!a.ref.empty()) {
      const Attribute* given = call.find(a.ref);
      if (!given) {
        const auto it = std::ranges::find(function.defaults, a.ref, &Attribute::name);
        if (it == function.defaults.end()) continue;  // left out here, too
        given = &*it;
      }
      std::string name = std::move(a.name);
      a = *given;
      a.name = std::move(name);
    } else if (a.body) {
      auto body = std::make_shared<Body>(*a.body);
      for (Node& inner : body->nodes) resolve(inner, call, function);
      a.body = std::move(body);
    }
    kept.push_back(std::move(a));
  }
  node.attributes = std::move(kept);
}

class Inliner {
 public:
  Inliner(const std::vector<Function>& functions, const std::string& path)
      : functions_(functions), path_(path) {}

  std::vector<Node> run(std::vector<Node> nodes, int depth) {
    GRAPESHOT_CHECK(depth <= kMaxDepth, kUnsupported, path_,
                    ": functions call each other more than ", kMaxDepth, " deep");
    std::vector<Node> out;
    for (Node& node : nodes) {
      GRAPESHOT_CHECK(++count_ <= kMostNodes, kUnsupported, path_, ": functions mean more than ",
                      kMostNodes, " nodes");
      for (Attribute& a : node.attributes) {
        if (!a.body) continue;
        auto body = std::make_shared<Body>(*a.body);
        body->nodes = run(std::move(body->nodes), depth + 1);
        a.body = std::move(body);
      }
      const auto function = std::ranges::find_if(functions_, [&](const Function& f) {
        return f.name == node.op && f.domain == node.domain;
      });
      if (function == functions_.end()) {
        out.push_back(std::move(node));
        continue;
      }
      for (Node& inner : run(called(*function, node), depth + 1)) out.push_back(std::move(inner));
    }
    return out;
  }

 private:
  std::vector<Node> called(const Function& function, const Node& call) {
    GRAPESHOT_CHECK(call.inputs.size() <= function.inputs.size() &&
                        call.outputs.size() <= function.outputs.size(),
                    kParse, path_, ": node '", call.name, "' has ", call.inputs.size(),
                    " inputs and ", call.outputs.size(), " outputs, the function ", function.name,
                    " has ", function.inputs.size(), " and ", function.outputs.size());
    const std::string prefix = str(call.name, "/", ++calls_, "/");
    std::unordered_map<std::string, std::string> names;
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      names[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
    }
    for (const Node& node : function.nodes) {
      for (const std::string& name : node.outputs) {
        if (!name.empty()) names[name] = prefix + name;
      }
    }
    std::vector<Node> out;
    for (const Node& node : function.nodes) {
      Node inner = node;
      resolve(inner, call, function);
      inner = renamed(std::move(inner), names);
      inner.name = prefix + inner.name;
      out.push_back(std::move(inner));
    }
    // An output may be an input, or an output of the call may be left out.
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i].empty()) continue;
      Node pass;
      pass.op = "Identity";
      pass.name = prefix + function.outputs[i];
      const auto from = names.find(function.outputs[i]);
      pass.inputs = {from == names.end() ? function.outputs[i] : from->second};
      pass.outputs = {call.outputs[i]};
      out.push_back(std::move(pass));
    }
    return out;
  }

  const std::vector<Function>& functions_;
  const std::string& path_;
  int64_t count_ = 0, calls_ = 0;
};

}  // namespace

Node renamed(Node node, const std::unordered_map<std::string, std::string>& names) {
  for (std::vector<std::string>* list : {&node.inputs, &node.outputs, &node.captures}) {
    for (std::string& name : *list) {
      if (const auto it = names.find(name); it != names.end()) name = it->second;
    }
  }
  for (Attribute& a : node.attributes) {
    if (a.body) a.body = renamed(*a.body, names);
  }
  return node;
}

void inline_functions(Body& body, const std::vector<Function>& functions, const std::string& path) {
  body.nodes = Inliner(functions, path).run(std::move(body.nodes), 0);
}

}  // namespace grapeshot::onnx
