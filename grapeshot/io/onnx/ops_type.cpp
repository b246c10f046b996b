// grapeshot/io/onnx/ops_type.cpp: operators that change the element type.
#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/element_type.h"
#include "grapeshot/io/onnx/low_float.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

const ElementType& type_of(int64_t code) {
  const ElementType* type = find_element_type(static_cast<int32_t>(code));
  GRAPESHOT_CHECK(type && type->code == code, kUnsupported, "element type ", code,
                  " is not supported");
  return *type;
}

Value converted_to(const Call& call, at::ScalarType type) {
  const Value& x = call.in[0];
  return {converted(x.t, type, call.node.i("saturate", 1) != 0, call.node.s("round_mode", "up")),
          x.rows};
}

Values cast(const Call& call) {
  const at::ScalarType type = type_of(call.node.i("to", 0)).type;
  return {converted_to(call, type == at::kFloat ? call.real : type)};
}

Values cast_like(const Call& call) {
  return {converted_to(call, call.in[1].t.scalar_type())};
}

Values bit_cast(const Call& call) {
  const Value& x = call.in[0];
  const ElementType& to = type_of(call.node.i("to", 0));
  const ElementType* from = find_element_type(x.t.scalar_type());
  GRAPESHOT_CHECK(from && from->bits == to.bits && to.type != at::kBool && from->type != at::kBool,
                  kInvalidArgument, "bits of ", from ? from->name : "another type",
                  " cannot be those of ", to.name);
  // Numbers of fewer than eight bits are kept with their sign.
  if (to.bits < 8) return {Value{to_few_bits(bits_of(x.t), to.type), x.rows}};
  return {Value{x.t.contiguous().view(to.type), x.rows}};
}

constexpr Operator kTable[] = {
    {"BitCast", 26, 1, kEveryInput, "The same bits as another element type of the same size.",
     bit_cast, Types::kExact},
    {"Cast", 6, 1, kEveryInput, "Another element type: all but strings and complex numbers.", cast,
     Types::kExact},
    {"CastLike", 15, 2, kEveryInput, "The element type of another tensor.", cast_like,
     Types::kExact},
};

}  // namespace

std::span<const Operator> type_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
