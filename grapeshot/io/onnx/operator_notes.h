// grapeshot/io/onnx/operator_notes.h: what documentation says about operators beside their rows.
#pragma once

#include <span>
#include <string_view>

namespace grapeshot::onnx {

/// An operator that is not implemented on purpose, after its domain and a dot where it has one.
struct ExcludedOperator {
  std::string_view name;
  std::string_view summary;  ///< why
};

/// By reason and then name.
[[nodiscard]] std::span<const ExcludedOperator> excluded_operators();

/// Whether a gradient flows through the operator called `name`, be it a straight-through one; false
/// for those whose outputs are whole numbers, truths, or fixed by shapes.
[[nodiscard]] bool passes_gradient(std::string_view name);

}  // namespace grapeshot::onnx
