#include "grapeshot/io/onnx/element_type.h"

#include <algorithm>

#include "grapeshot/base/error.h"

namespace grapeshot::onnx {
namespace {

constexpr ElementType kTable[] = {
    {1, at::kFloat, "float", 32},
    {2, at::kByte, "uint8", 8},
    {3, at::kChar, "int8", 8},
    {4, at::kUInt16, "uint16", 16},
    {5, at::kShort, "int16", 16},
    {6, at::kInt, "int32", 32},
    {7, at::kLong, "int64", 64},
    {9, at::kBool, "bool", 8},
    {10, at::kHalf, "float16", 16},
    {11, at::kDouble, "double", 64},
    {12, at::kUInt32, "uint32", 32},
    {13, at::kUInt64, "uint64", 64},
    {16, at::kBFloat16, "bfloat16", 16},
    {17, at::kFloat8_e4m3fn, "float8e4m3fn", 8},
    {18, at::kFloat8_e4m3fnuz, "float8e4m3fnuz", 8},
    {19, at::kFloat8_e5m2, "float8e5m2", 8},
    {20, at::kFloat8_e5m2fnuz, "float8e5m2fnuz", 8},
    {21, at::ScalarType::UInt4, "uint4", 4},
    {22, at::ScalarType::Int4, "int4", 4},
    {23, at::ScalarType::Float4_e2m1fn_x2, "float4e2m1", 4},
    {24, at::kFloat8_e8m0fnu, "float8e8m0", 8},
    {25, at::ScalarType::UInt2, "uint2", 2},
    {26, at::ScalarType::Int2, "int2", 2},
};

}  // namespace

std::span<const ElementType> element_types() {
  return kTable;
}

const ElementType* find_element_type(int32_t code) {
  const auto* row = std::ranges::find(kTable, code, &ElementType::code);
  return row == std::end(kTable) ? nullptr : row;
}

const ElementType* find_element_type(at::ScalarType type) {
  const auto* row = std::ranges::find(kTable, type, &ElementType::type);
  return row == std::end(kTable) ? nullptr : row;
}

std::string element_name(int32_t code) {
  const ElementType* row = find_element_type(code);
  return row ? std::string(row->name) : str("element type ", code);
}

}  // namespace grapeshot::onnx
