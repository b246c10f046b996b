// grapeshot/io/onnx/functions.h: functions that a model defines, written out where they are called.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "grapeshot/io/onnx/graph.h"

namespace grapeshot::onnx {

/// A FunctionProto: a node of its domain and name means its nodes.
struct Function {
  std::string domain, name;
  int64_t opset = 0;  ///< of ai.onnx, 0 where the function names none
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> defaults;  ///< of attributes that a call may leave out
  std::vector<Node> nodes;
};

/// The node with tensors under other names where `names` has them, in its subgraphs too.
[[nodiscard]] Node renamed(Node node, const std::unordered_map<std::string, std::string>& names);

/// Writes out all calls of `functions` in `body` and its subgraphs. Throws Error{kUnsupported} for
/// functions that call each other more than 32 deep, or mean more than 2^18 nodes, as damaged files
/// may have it; kParse for a call with more inputs or outputs than the function has.
void inline_functions(Body& body, const std::vector<Function>& functions, const std::string& path);

}  // namespace grapeshot::onnx
