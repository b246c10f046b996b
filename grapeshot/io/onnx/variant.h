// grapeshot/io/onnx/variant.h: a network with its weights as a smaller type would have them, to
// compare with the network itself.
//
// A variant is one function and one row of the table in variant.cpp. What is computed stays
// float32: differences come from the weights alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/model.h"

namespace grapeshot::onnx {

struct Variant {
  std::string_view name, summary;
  /// A float32 weight of at least two axes as the variant has it, float32.
  at::Tensor (*weight)(const at::Tensor& w);
};

[[nodiscard]] std::span<const Variant> variants();

/// load_model() with the weights of `variant`; "" is the network itself. Throws Error{kNotFound}
/// for an unknown one besides.
[[nodiscard]] std::unique_ptr<OnnxModel> load_variant(const std::string& path,
                                                      std::string_view variant);

}  // namespace grapeshot::onnx
