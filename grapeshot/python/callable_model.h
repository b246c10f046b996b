// grapeshot/python/callable_model.h: a Python function of a batch as a Model.
//
// The function runs with the interpreter's lock, one call at a time; the lanes that call it hold
// nothing else meanwhile. What it raises ends the campaign and reaches the caller of the command.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "grapeshot/core/model.h"

namespace grapeshot::python {

/// What python/grapeshot/_callable.py hands over. Shapes as in core/model.h; x is [N, shape...].
struct [[gnu::visibility("hidden")]] Functions {
  /// x -> y [N, K], without history, in the dtype of x.
  pybind11::object outputs;
  /// (x, cotangent: y -> dL/dy) -> (y, dL/dx [N, D]); None where there is no gradient.
  pybind11::object gradient;
};

class [[gnu::visibility("hidden")]] CallableModel final : public Model {
 public:
  /// `float64`: the function takes such inputs too. If not, what confirms a counterexample is
  /// float32 alone, in a batch of one.
  CallableModel(std::string name, std::vector<int64_t> shape, int64_t outputs, Functions functions,
                bool float64);
  ~CallableModel() override;

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] int64_t inputs() const override { return inputs_; }
  [[nodiscard]] int64_t outputs() const override { return outputs_; }
  [[nodiscard]] std::vector<int64_t> input_shape() const override { return shape_; }
  [[nodiscard]] bool has_logits() const override { return false; }
  [[nodiscard]] bool has_surrogates() const override { return false; }
  /// Nobody knows; a call costs much whatever its rows.
  [[nodiscard]] int64_t macs() const override { return 0; }
  [[nodiscard]] int64_t activation_values() const override { return 8 * (inputs_ + outputs_); }
  [[nodiscard]] const std::vector<Tap>& taps() const override { return taps_; }
  [[nodiscard]] bool has_gradient() const { return has_gradient_; }

  [[nodiscard]] at::Tensor forward(const at::Tensor& x, Head head) const override;
  [[nodiscard]] Gradient gradient(const at::Tensor& x, Head head, const Surrogate& surrogate,
                                  const Cotangent& cotangent) const override;
  [[nodiscard]] Trace trace(const at::Tensor& x, Head head, const Wanted& wanted) const override;
  [[nodiscard]] at::Tensor evaluate(const at::Tensor& x) const override;

 private:
  [[nodiscard]] at::Tensor shaped(const at::Tensor& x) const;

  std::string name_;
  std::vector<int64_t> shape_;
  int64_t inputs_, outputs_;
  Functions functions_;
  bool float64_, has_gradient_;
  std::vector<Tap> taps_;  // none
};

}  // namespace grapeshot::python
