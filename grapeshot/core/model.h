// grapeshot/core/model.h: a network as a function of a batch of inputs.
//
// Shapes: x [N, D] float32, the model's inputs flattened row by row (D = product of its input
// shape, in ONNX order); y [N, K], its outputs flattened. Rows do not influence each other: a
// reader of models checks that before it hands one out. N may be 0.
// Threads: all const members may run at the same time from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace grapeshot {

/// How Sign, Round, Floor pass a gradient on, which is zero almost everywhere otherwise.
struct Surrogate {
  enum Kind {
    kLoose,     ///< straight through
    kBounded,   ///< straight through where |x| <= the row's mean |x| (Sign), 0 elsewhere
    kWindowed,  ///< straight through where |x| <= the row's window of that Sign, 0 elsewhere
  };

  Surrogate(Kind how = kLoose) : kind(how) {}  // NOLINT(google-explicit-constructor)
  /// `each` is float32 [N, S] for N rows and the model's S signs, in the order of Model::reach().
  explicit Surrogate(at::Tensor each) : kind(kWindowed), windows(std::move(each)) {}

  /// For rows [begin, end).
  [[nodiscard]] Surrogate slice(int64_t begin, int64_t end) const {
    return kind == kWindowed ? Surrogate(windows.slice(0, begin, end)) : *this;
  }

  Kind kind;
  at::Tensor windows;
  int64_t sign = 0;  ///< of the S, set on the way through the network
};

/// What a pass returns: the outputs, or what a final softmax is applied to. Losses saturate behind
/// a softmax, verdicts that only compare outputs do not need it.
enum class Head { kOutputs, kLogits };

/// Where neurons are counted (Pei et al., DeepXplore, 2017; per channel as max |a|).
struct Tap {
  std::string name;        ///< the ONNX tensor
  bool rectifier = false;  ///< the output of an activation function
  bool redundant = false;  ///< its only reader is an activation, which is a tap as well
  int64_t neurons = 0;     ///< channels of a convolution, units of a linear layer
};

/// A layer whose values are looked at one by one: step by step, or head by head.
struct SequenceTap {
  std::string name;            ///< the ONNX tensor
  std::vector<int64_t> shape;  ///< of one row
};

/// The taps to record, and what of each.
struct Wanted {
  Wanted() = default;
  Wanted(std::initializer_list<int64_t> of) : taps(of) {}
  Wanted(std::vector<int64_t> of) : taps(std::move(of)) {}  // NOLINT(google-explicit-constructor)

  std::vector<int64_t> taps;
  bool largest = true;    ///< Trace::activations
  bool means = false;     ///< Trace::means
  bool extremes = false;  ///< Trace::extremes
  // Of all layers that have them.
  bool states = false;     ///< Trace::states
  bool attention = false;  ///< Trace::attention

  [[nodiscard]] bool nothing() const { return taps.empty() && !states && !attention; }
};

struct Trace {
  at::Tensor y;  ///< [N, K]
  // Per requested tap, where wanted.
  std::vector<at::Tensor> activations = {};  ///< [N, neurons], max |a| over space
  std::vector<at::Tensor> means = {};        ///< [N, neurons], mean a over space
  std::vector<at::Tensor> extremes = {};     ///< [N, 2], least and largest a of the layer
  // Per layer, where wanted.
  std::vector<at::Tensor> states = {};     ///< [N, steps, units] of Model::recurrent_layers()
  std::vector<at::Tensor> attention = {};  ///< [N, heads, queries, keys] of attention_layers()
};

/// dL/dy [N, K] for the outputs y [N, K] of a gradient pass.
using Cotangent = std::function<at::Tensor(const at::Tensor& y)>;

/// The slopes of a loss of the outputs and of neurons: dL/dy [N, K], and dL/da [N, neurons] for the
/// means (Trace::means) of every tap that was named.
struct JointCotangent {
  at::Tensor y;
  std::vector<at::Tensor> means;
};

struct Gradient {
  at::Tensor y;  ///< [N, K] at x, without history
  at::Tensor x;  ///< dL/dx [N, D]
};

struct Bounds {
  at::Tensor lo, hi;  ///< [N, K]
};

class Model {
 public:
  virtual ~Model() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual int64_t inputs() const = 0;   ///< D
  [[nodiscard]] virtual int64_t outputs() const = 0;  ///< K
  /// Whether Head::kLogits differs from Head::kOutputs.
  [[nodiscard]] virtual bool has_logits() const = 0;
  /// Whether gradients pass through Sign, Round or Floor.
  [[nodiscard]] virtual bool has_surrogates() const = 0;
  /// How far the argument of every Sign moves from row to row of x [N, D]: its standard deviation,
  /// mean over its entries. Empty for models without.
  [[nodiscard]] virtual std::vector<float> reach(const at::Tensor& /*x*/) const { return {}; }
  /// Multiply-adds of one row, and float32 values that a gradient pass keeps of one row.
  [[nodiscard]] virtual int64_t macs() const = 0;
  [[nodiscard]] virtual int64_t activation_values() const = 0;
  /// Values that one layer reads and writes for one row, at most.
  [[nodiscard]] virtual int64_t widest_layer() const { return activation_values(); }

  /// The shape of one input, whose product is inputs(); a plain vector where nothing is known.
  [[nodiscard]] virtual std::vector<int64_t> input_shape() const { return {inputs()}; }
  /// Calls that one forward pass makes, whatever its number of rows.
  [[nodiscard]] virtual int64_t steps() const { return 1; }

  /// One forward pass of the lowered graph, without history.
  [[nodiscard]] virtual at::Tensor forward(const at::Tensor& x, Head head) const = 0;

  /// One forward and one backward pass: the gradient with respect to the inputs only.
  [[nodiscard]] virtual Gradient gradient(const at::Tensor& x, Head head,
                                          const Surrogate& surrogate,
                                          const Cotangent& cotangent) const = 0;

  /// The same for a loss of the outputs and of neurons of `taps`, whose slopes `cotangent` says for
  /// the outputs. The neurons count for nothing without such a gradient.
  [[nodiscard]] virtual bool has_joint_gradient() const { return false; }
  [[nodiscard]] virtual Gradient joint_gradient(
      const at::Tensor& x, Head head, const Surrogate& surrogate,
      const std::vector<int64_t>& /*taps*/,
      const std::function<JointCotangent(const at::Tensor& y)>& cotangent) const {
    return gradient(x, head, surrogate, [&](const at::Tensor& y) { return cotangent(y).y; });
  }

  /// Per tap the mean of the weights that read every neuron, [neurons], added up over the layers
  /// that do; undefined where none with constant weights does.
  [[nodiscard]] virtual std::vector<at::Tensor> outgoing_weights() const { return {}; }

  /// All taps, in graph order.
  [[nodiscard]] virtual const std::vector<Tap>& taps() const = 0;

  /// Recurrent layers, [steps, units], in graph order: the hidden states in the order in which they
  /// are computed, all directions and ONNX's own batch among the units. Those whose sequences end
  /// early (sequence_lens) are left out.
  [[nodiscard]] virtual const std::vector<SequenceTap>& recurrent_layers() const;
  /// Attention weights, [heads, queries, keys]: what a softmax over the keys multiplies values with
  /// that depend on the input.
  [[nodiscard]] virtual const std::vector<SequenceTap>& attention_layers() const;

  /// One forward pass, BatchNormalization unfolded, so that the activations are those of the file,
  /// with what is `wanted` of taps.
  [[nodiscard]] virtual Trace trace(const at::Tensor& x, Head head, const Wanted& wanted) const = 0;

  /// What the outputs (of the graph as read, before a final softmax for kLogits) can be for inputs
  /// in the boxes lo, hi [N, D], by interval arithmetic: rounding is left out, so that they guide a
  /// search and prove nothing. Nothing where an operator has no interval form.
  [[nodiscard]] virtual std::optional<Bounds> bounds(const at::Tensor& /*lo*/,
                                                     const at::Tensor& /*hi*/,
                                                     Head /*head*/) const {
    return std::nullopt;
  }

  /// The graph as read, node by node and one row at a time, in the dtype of `x` (float32 or
  /// float64): the evaluation that confirms what the batched passes proposed.
  [[nodiscard]] virtual at::Tensor evaluate(const at::Tensor& x) const = 0;
};

inline const std::vector<SequenceTap>& Model::recurrent_layers() const {
  static const std::vector<SequenceTap> none;
  return none;
}

inline const std::vector<SequenceTap>& Model::attention_layers() const {
  return Model::recurrent_layers();
}

}  // namespace grapeshot
