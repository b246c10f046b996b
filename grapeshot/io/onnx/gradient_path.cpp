#include "grapeshot/io/onnx/gradient_path.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "grapeshot/base/error.h"

namespace grapeshot::onnx {
namespace {

bool is_floating(int64_t element_type) {
  return element_type == 1 || element_type == 10 || element_type == 11 || element_type == 16;
}

// Operators whose outputs are indices or truth values.
bool cuts(const Node& node) {
  static const std::unordered_set<std::string_view> kCut = {
      "And",  "ArgMax", "ArgMin",      "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN",
      "Less", "Not",    "LessOrEqual", "Or",    "OneHot",  "Shape",          "Size",  "Xor"};
  return kCut.contains(node.op) || (node.op == "Cast" && !is_floating(node.i("to", 1)));
}

}  // namespace

GradientPath gradient_path(const Network& network) {
  std::unordered_map<std::string, const Node*> writer;
  for (const BoundNode& bound : network.nodes) {
    for (const std::string& name : bound.node.outputs) writer[name] = &bound.node;
  }
  GradientPath path;
  std::unordered_set<std::string> seen = {network.output};
  std::deque<std::string> open = {network.output};
  while (!open.empty()) {
    const std::string name = open.front();
    open.pop_front();
    if (name == network.input) path.reaches = true;
    const auto it = writer.find(name);
    if (it == writer.end()) continue;
    if (cuts(*it->second)) {
      path.cut.push_back(str("'", it->second->name, "' (", it->second->op, ")"));
      continue;
    }
    for (const std::string& input : it->second->inputs) {
      if (!input.empty() && seen.insert(input).second) open.push_back(input);
    }
  }
  return path;
}

}  // namespace grapeshot::onnx
