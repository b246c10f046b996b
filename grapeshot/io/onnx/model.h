// grapeshot/io/onnx/model.h: ONNX files as Models.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "grapeshot/core/model.h"
#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

class OnnxModel final : public Model {
 public:
  /// Checks `graph`, runs it once with two rows and once row by row, and lowers it.
  /// Throws Error naming the file and the node: kUnsupported (all unsupported operators at once,
  /// an input that is not float32), kParse (dangling or cyclic graph), kInvalidArgument (shapes
  /// that do not fit, tensors of more than 2^26 values).
  explicit OnnxModel(const Graph& graph);
  /// The same for a network whose nodes have their functions already, constants not yet folded.
  explicit OnnxModel(Network network);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] int64_t inputs() const override { return inputs_; }
  [[nodiscard]] int64_t outputs() const override { return outputs_; }
  [[nodiscard]] bool has_logits() const override { return !network_.logits.empty(); }
  [[nodiscard]] bool has_surrogates() const override { return has_surrogates_; }
  [[nodiscard]] std::vector<float> reach(const at::Tensor& x) const override;
  [[nodiscard]] int64_t macs() const override { return recording_.macs; }
  [[nodiscard]] int64_t activation_values() const override { return recording_.activation_values; }
  [[nodiscard]] int64_t widest_layer() const override { return recording_.widest_node; }
  [[nodiscard]] int64_t steps() const override { return lowered_.program->steps(); }
  [[nodiscard]] const std::vector<Tap>& taps() const override { return taps_; }
  [[nodiscard]] const std::vector<SequenceTap>& recurrent_layers() const override {
    return recurrent_;
  }
  [[nodiscard]] const std::vector<SequenceTap>& attention_layers() const override {
    return attention_;
  }

  [[nodiscard]] at::Tensor forward(const at::Tensor& x, Head head) const override;
  [[nodiscard]] Gradient gradient(const at::Tensor& x, Head head, const Surrogate& surrogate,
                                  const Cotangent& cotangent) const override;
  [[nodiscard]] bool has_joint_gradient() const override {
    return fallback_.empty() && as_read_.program->tapes();
  }
  [[nodiscard]] Gradient joint_gradient(
      const at::Tensor& x, Head head, const Surrogate& surrogate, const std::vector<int64_t>& taps,
      const std::function<JointCotangent(const at::Tensor& y)>& cotangent) const override;
  [[nodiscard]] std::vector<at::Tensor> outgoing_weights() const override;
  [[nodiscard]] Trace trace(const at::Tensor& x, Head head, const Wanted& wanted) const override;
  [[nodiscard]] at::Tensor evaluate(const at::Tensor& x) const override;
  [[nodiscard]] std::optional<Bounds> bounds(const at::Tensor& lo, const at::Tensor& hi,
                                             Head head) const override;

  // What `doctor` and the tests want to know besides.

  /// The input's shape without the row axis, symbolic dimensions taken as 1.
  [[nodiscard]] std::vector<int64_t> input_shape() const override { return network_.input_shape; }
  [[nodiscard]] const std::vector<int64_t>& output_shape() const;
  /// The graph as read, constants folded.
  [[nodiscard]] const Network& network() const { return network_; }
  /// Nodes that run row by row, because a shape depends on the row: "'name' (Op)".
  [[nodiscard]] const std::vector<std::string>& islands() const { return recording_.islands; }
  /// Empty when a batch runs as one; else why the model runs row by row.
  [[nodiscard]] const std::string& fallback() const { return fallback_; }
  /// Several rows at once through the graph as read, in the dtype of x: what parity checks compare.
  [[nodiscard]] at::Tensor forward_unlowered(const at::Tensor& x) const;

  /// Puts exact values in place of some outputs y [K] at x [D], both in float64.
  using Settle = std::function<void(std::span<const double> x, std::span<double> y)>;
  /// From then on evaluate() calls `settle` for every row; for outputs that are a part of a
  /// specification, not of the network, and that rounding must not decide.
  void settle_with(Settle settle) { settle_ = std::move(settle); }
  /// The same for outputs of another runtime; nothing is done without settle_with().
  void settle(std::span<const double> x, std::span<double> y) const {
    if (settle_) settle_(x, y);
  }

 private:
  struct Compiled {
    std::unique_ptr<Program> program;
    int32_t output = 0, logits = 0;
  };

  [[nodiscard]] static Compiled compile(const Network& network);
  [[nodiscard]] at::Tensor run_batch(const Compiled& compiled, const at::Tensor& x, Head head,
                                     const Surrogate& surrogate) const;
  [[nodiscard]] at::Tensor run(const Compiled& compiled, const at::Tensor& x, Head head,
                               const Surrogate& surrogate) const;
  [[nodiscard]] int64_t width_of(Head head) const;
  /// By the tape of a program that has the tensors of `taps`.
  [[nodiscard]] Gradient taped_gradient(
      const Compiled& compiled, const at::Tensor& x, Head head, const Surrogate& surrogate,
      const std::vector<int64_t>& taps,
      const std::function<JointCotangent(const at::Tensor& y)>& cotangent) const;
  /// Appends what is wanted of one tap, whose tensor is `value`, for the inputs x.
  void record(const Value& value, size_t tap, const Wanted& wanted, const at::Tensor& x,
              Trace& trace) const;
  void check_rows();
  void find_taps();
  void find_sequences();
  /// The axes of a tap's tensor [N, ...] along which one neuron has several values.
  [[nodiscard]] std::vector<int64_t> space_of(size_t tap, const at::Tensor& t) const;
  /// A layer of recurrent_layers() as Trace has it.
  [[nodiscard]] at::Tensor states_of(const at::Tensor& t, size_t layer) const;

  std::string name_;
  int64_t inputs_ = 0, outputs_ = 0;
  Network network_;
  Recording recording_;
  Compiled as_read_, lowered_;
  std::vector<Tap> taps_;
  std::vector<bool> tap_is_map_;          ///< [B, C, space...]: a neuron is a channel
  std::vector<int64_t> tap_steps_;        ///< the axis of a recurrent layer's steps, else -1
  std::vector<bool> tap_never_negative_;  ///< its |a| is itself
  std::vector<SequenceTap> recurrent_, attention_;
  struct Direction {
    int64_t steps;        ///< their axis
    bool reversed, both;  ///< goes from the end; has one that does beside one that does not
  };
  std::vector<Direction> directions_;  ///< of recurrent_
  bool has_surrogates_ = false;
  std::string fallback_;
  Settle settle_;
};

/// Reads `path` or `path`.gz.
[[nodiscard]] std::unique_ptr<OnnxModel> load_model(const std::string& path);

}  // namespace grapeshot::onnx
