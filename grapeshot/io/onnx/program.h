// grapeshot/io/onnx/program.h: nodes in order, with their constants, ready to run on a batch of
// rows.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {

/// A node with the function that runs it: an ONNX operator or what a lowering pass put in its
/// place.
struct BoundNode {
  Node node;
  OperatorFn run = nullptr;
  uint32_t batched = kEveryInput;  ///< as Operator::batched
  /// Its subgraphs, one for each of its attributes that is one, in their order. What they read from
  /// outside is among the node's inputs, after those that the file says, in the order of
  /// Node::captures.
  std::vector<std::shared_ptr<const BoundBody>> bodies = {};
  Types types = Types::kLike;  ///< as Operator::types
};

/// Part of a network's flat input or output: what the file calls one input or output.
struct PortSlice {
  std::string name;
  std::vector<int64_t> shape;  ///< without the row axis
  int64_t begin = 0, size = 0;
  std::vector<int64_t> declared = {};  ///< an input's shape in the file, -1 where it is symbolic
};

/// A network whose tensors are still connected by name.
struct Network {
  std::string path;  ///< for messages
  int64_t opset = 0;
  std::vector<BoundNode> nodes;  ///< in an order in which every input is there when it is read
  std::unordered_map<std::string, at::Tensor> constants;
  std::string input, output;
  std::string logits;  ///< what a final softmax is applied to; empty when there is none
  std::vector<int64_t> input_shape;
  /// Where the file has several: `input` and `output` are all of them, flat, in the file's order,
  /// as VNN-LIB 1.0 numbers them. Output sizes are known once constants are folded.
  std::vector<PortSlice> inputs, outputs;
};

/// What one run with two rows tells about a tensor of the network.
struct TensorInfo {
  std::vector<int64_t> shape;  ///< without the row axis; the first row's where `ragged`
  bool rows = false, ragged = false;
};

struct Recording {
  std::unordered_map<std::string, TensorInfo> tensors;
  int64_t macs = 0;                  ///< multiply-adds of one row
  int64_t activation_values = 0;     ///< values computed for one row
  int64_t widest_node = 0;           ///< values that one node reads and writes for one row, at most
  std::vector<std::string> islands;  ///< nodes that run row by row, "'name' (Op)"
};

/// Runs `network` on `x` ([N, input_shape...]), turns nodes that depend on no input into constants
/// and an If into the branch that its condition takes, and returns the shapes of all tensors.
/// Throws Error naming the node that does not fit.
[[nodiscard]] Recording fold_constants(Network& network, const at::Tensor& x);

/// Runs one node, row by row where `by_row` says so or an input is ragged; an error names the file,
/// the node and its operator.
[[nodiscard]] Values run_node(const BoundNode& bound, const Call& call, bool by_row,
                              const std::string& path);

/// [N, shape...] of a tensor that may not depend on the input at all as [N, K], K = `width`; throws
/// kUnsupported naming `path` where its shape depends on the row.
[[nodiscard]] at::Tensor flat_rows(const Value& v, int64_t n, int64_t width, at::ScalarType real,
                                   const std::string& path);

/// Whether an input that may not depend on the network's input does.
[[nodiscard]] bool runs_by_row(const BoundNode& bound, std::span<const Value> in);

class Program {
 public:
  explicit Program(const Network& network);

  /// The tensors named `wanted` ([N, shape...] each, constants as they are) for x [N,
  /// input_shape...], of any floating type, on any device. Stops as soon as the last of them is
  /// there. Thread-safe. `reach`, when given, gets what Model::reach() says.
  [[nodiscard]] std::vector<Value> run(const at::Tensor& x, const std::vector<int32_t>& wanted,
                                       const Surrogate& surrogate,
                                       std::vector<float>* reach = nullptr) const;

  /// dL/dx [N, input_shape...] for dL/d(wanted), which `cotangents` says of the tensors `wanted` as
  /// run() gives them; undefined for one that L does not depend on. It is not called when no
  /// gradient flows from x to any of them. Returns `wanted`'s tensors too. For a program that
  /// tapes().
  [[nodiscard]] std::pair<std::vector<Value>, at::Tensor> gradient(
      const at::Tensor& x, const std::vector<int32_t>& wanted, const Surrogate& surrogate,
      const std::function<std::vector<at::Tensor>(const std::vector<Value>& values)>& cotangents)
      const;
  /// Whether no step runs row by row.
  [[nodiscard]] bool tapes() const { return tapes_; }

  /// The slot to ask `run` for; throws kInternal when no tensor has that name.
  [[nodiscard]] int32_t slot(const std::string& tensor) const;
  [[nodiscard]] bool has(const std::string& tensor) const { return slots_.contains(tensor); }

  [[nodiscard]] int64_t steps() const { return static_cast<int64_t>(steps_.size()); }

 private:
  struct Step {
    BoundNode bound;
    std::vector<int32_t> in, out;  ///< slots, -1 for an input that is left out
    std::vector<int32_t> last;     ///< slots that no later step reads
    bool by_row = false;
    int64_t sign = -1;  ///< its number among the signs of rows
  };

  [[nodiscard]] const std::vector<Value>& constants_for(const at::Tensor& x) const;

  std::string path_;
  int64_t opset_;
  int32_t input_ = 0;
  std::vector<Step> steps_;
  int64_t signs_ = 0;
  bool tapes_ = true;
  std::vector<int32_t> ready_after_;  ///< per slot the number of steps after which it is there
  std::unordered_map<std::string, int32_t> slots_;
  std::vector<Value> constants_;  ///< by slot, undefined where a step writes
  // The same of other types, and on other devices.
  struct Copies {
    std::mutex mutex;
    std::map<std::pair<at::ScalarType, std::string>, std::vector<Value>> of;
  };
  std::unique_ptr<Copies> copies_ = std::make_unique<Copies>();
};

}  // namespace grapeshot::onnx
