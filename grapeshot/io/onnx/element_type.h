// grapeshot/io/onnx/element_type.h: the element types of ONNX, one torch type for each.
//
// torch computes with few of them. Those of four bits and fewer, which it only has names for, are
// kept one number a byte: unsigned ones and float4 as their bits, signed ones as int8.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace grapeshot::onnx {

struct ElementType {
  int32_t code;  ///< TensorProto.DataType
  at::ScalarType type;
  std::string_view name;  ///< as ONNX writes it, "float8e4m3fn"
  int bits;               ///< of one number in a file's raw data
};

/// All that can be read; strings and complex numbers are not among them.
[[nodiscard]] std::span<const ElementType> element_types();

/// The row of a code, or null.
[[nodiscard]] const ElementType* find_element_type(int32_t code);
/// The row of a torch type, or null.
[[nodiscard]] const ElementType* find_element_type(at::ScalarType type);

/// "float", or "element type 8".
[[nodiscard]] std::string element_name(int32_t code);

}  // namespace grapeshot::onnx
