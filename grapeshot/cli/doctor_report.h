// grapeshot/cli/doctor_report.h: what `grapeshot doctor` has to say.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "grapeshot/core/property.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {

/// Of |a - b| / (1 + |b|): the project's contract of parity.
constexpr double kParity = 1e-4;

/// Lines for people, an object for programs, what does not hold, and what to know.
struct Report {
  std::vector<std::pair<std::string, std::string>> lines;
  std::vector<std::string> problems, notes;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();

  void line(std::string label, std::string text) {
    lines.emplace_back(std::move(label), std::move(text));
  }
};

/// What the examinations look at.
struct Patient {
  const onnx::OnnxModel& net;
  at::Tensor x;                        ///< [N, D] float64, N >= 1
  at::Tensor expected;                 ///< [N, K] float64 of another runtime, or undefined
  const Property* property = nullptr;  ///< whose boxes x was drawn in, or null
  bool given = false;                  ///< x are the user's own inputs
};

/// Operators, shapes, work, batches, lowering, times, parity with `expected`.
void examine_network(const Patient& patient, Report& report);

/// Gradients: whether they get to the inputs, zero, masked, exploding, saturated; the inputs'
/// ranges; and what the loop does about it.
void examine_gradients(const Patient& patient, Report& report);

/// The largest |a - b| / (1 + |b|); places where both are NaN or the same infinity agree.
[[nodiscard]] double difference(const at::Tensor& a, const at::Tensor& b);

/// Three significant digits.
[[nodiscard]] std::string short_text(double value);

}  // namespace grapeshot::cli
