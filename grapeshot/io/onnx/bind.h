// grapeshot/io/onnx/bind.h: from a file's nodes to functions that run them.
#pragma once

#include <vector>

#include "grapeshot/io/onnx/body.h"
#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

/// The nodes that the outputs need, in order, with their functions; constants not yet folded.
/// Several inputs or outputs become one (Network::inputs). Throws as OnnxModel does.
[[nodiscard]] Network bind(const Graph& graph);

/// Attributes of a node that runs a network of its own: its multiply-adds, the values it computes,
/// and those that one of its layers reads and writes at most, of one row.
constexpr const char* kCountedMacs = "grapeshot.macs";
constexpr const char* kCountedValues = "grapeshot.values";
constexpr const char* kCountedWidest = "grapeshot.widest";

/// The same nodes on values as they are, for Evaluator.
[[nodiscard]] BoundBody bind_body(const Graph& graph);

/// Whether the node is an If, which fold_constants replaces by the branch taken where no row
/// changes its condition.
[[nodiscard]] bool is_branch(const Node& node);

/// The nodes of the branch that `condition` takes, under names that no other tensor has, ending in
/// what writes the outputs of `node`; its constants are added to `network`.
[[nodiscard]] std::vector<BoundNode> taken_branch(Network& network, const Node& node,
                                                  bool condition);

}  // namespace grapeshot::onnx
