// grapeshot/io/onnx/body.h: subgraphs, and whole graphs on values as they are.
//
// If, Loop and Scan run their subgraphs through here; so does evaluate(), for which a graph is a
// subgraph that reads nothing from outside. Values are found by name, in the order of the file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

/// A subgraph whose nodes have their functions.
struct BoundBody {
  std::string attribute;  ///< of the node that it belongs to, "then_branch"
  std::vector<BoundNode> nodes;
  std::unordered_map<std::string, at::Tensor> constants;
  std::vector<std::string> inputs;
  std::vector<Port> outputs;
};

/// The subgraph of the node being run that `attribute` is, on `inputs`, one for each of its own;
/// what it reads from outside is taken from the call. Throws kInvalidArgument where the numbers of
/// inputs differ, kParse where there is no such attribute, and kUnsupported where one of its nodes
/// has to run row by row (then the operator itself has to), or after 2^14 rounds.
[[nodiscard]] Values run_body(const Call& call, std::string_view attribute,
                              std::span<const Value> inputs);

/// The subgraph itself; throws kParse where there is none.
[[nodiscard]] const BoundBody& find_body(const Call& call, std::string_view attribute);

/// How many of the call's inputs the file names; the others are what its subgraphs read from
/// outside.
[[nodiscard]] size_t own_inputs(const Call& call);

/// A graph on values without a row axis, of any element type, exactly as they are: what the onnx
/// package's test cases are compared with. No lowering, no constants folded.
class Evaluator {
 public:
  /// Throws as OnnxModel does for operators that are not supported and for dangling or cyclic
  /// graphs; inputs may be of any type.
  explicit Evaluator(const Graph& graph);

  /// One value for each of the graph's inputs and outputs. Throws kInvalidArgument for an input
  /// that is of another type than the graph says, and Error naming the node that does not fit.
  /// Thread-safe.
  [[nodiscard]] Values operator()(std::span<const Value> inputs) const;

 private:
  std::string path_;
  int64_t opset_;
  std::vector<Port> inputs_;
  BoundBody body_;
};

}  // namespace grapeshot::onnx
