// tests/support/onnx_bytes.h: writes ONNX models as bytes, on purpose apart from what reads them.
//
// Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/io/onnx/graph.h"

namespace grapeshot::testing {

/// A Protocol Buffers message, field by field.
class Message {
 public:
  Message& number(uint32_t field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& text(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return text(field, value.bytes()); }
  Message& real(uint32_t field, float value) {
    key(field, 5);
    raw(value);
    return *this;
  }
  Message& real64(uint32_t field, double value) {
    key(field, 1);
    raw(value);
    return *this;
  }
  Message& packed(uint32_t field, const std::vector<int64_t>& values) {
    Message content;
    for (const int64_t value : values) content.varint(static_cast<uint64_t>(value));
    return text(field, content.bytes());
  }
  /// Numbers of fixed size, packed.
  template <class T>
  Message& fixed(uint32_t field, const std::vector<T>& values) {
    Message content;
    for (const T value : values) content.raw(value);
    return text(field, content.bytes());
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void key(uint32_t field, uint32_t wire) { varint(uint64_t{field} << 3 | wire); }
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  template <class T>
  void raw(T value) {
    char buffer[sizeof(T)];
    std::memcpy(buffer, &value, sizeof(T));
    bytes_.append(buffer, sizeof(T));
  }

  std::string bytes_;
};

inline int32_t element_code(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kByte:
      return 2;
    case at::kInt:
      return 6;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    case at::kDouble:
      return 11;
    default:
      return 0;
  }
}

/// A TensorProto with its numbers as raw bytes.
inline Message tensor_message(std::string_view name, const at::Tensor& t) {
  Message out;
  for (const int64_t dim : t.sizes()) out.number(1, dim);
  const at::Tensor flat = t.contiguous();
  out.number(2, element_code(t.scalar_type())).text(8, name);
  out.text(9, {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()});
  return out;
}

inline Message attribute_message(const onnx::Attribute& a) {
  Message out;
  out.text(1, a.name);
  if (a.i != 0) out.number(3, a.i).number(20, 2);
  if (a.f != 0.f) out.real(2, a.f).number(20, 1);
  if (!a.s.empty()) out.text(4, a.s).number(20, 3);
  if (!a.ints.empty()) out.packed(8, a.ints).number(20, 7);
  for (const float f : a.floats) out.real(7, f);
  if (a.tensor.defined()) out.message(5, tensor_message("", a.tensor)).number(20, 4);
  return out;
}

inline Message node_message(const onnx::Node& node) {
  Message out;
  for (const std::string& name : node.inputs) out.text(1, name);
  for (const std::string& name : node.outputs) out.text(2, name);
  out.text(3, node.name).text(4, node.op);
  if (!node.domain.empty()) out.text(7, node.domain);
  for (const onnx::Attribute& a : node.attributes) out.message(5, attribute_message(a));
  return out;
}

/// A ValueInfoProto of a float tensor; sizes below 0 become symbols.
inline Message port_message(const onnx::Port& port) {
  Message shape;
  for (const int64_t size : port.shape) {
    Message dim;
    size >= 0 ? dim.number(1, size) : dim.text(2, "N");
    shape.message(1, dim);
  }
  Message tensor;
  tensor.number(1, port.float32 ? 1 : 11);
  if (port.has_shape) tensor.message(2, shape);
  return Message().text(1, port.name).message(2, Message().message(1, tensor));
}

inline Message graph_message(const onnx::Graph& graph) {
  Message out;
  for (const onnx::Node& node : graph.nodes) out.message(1, node_message(node));
  out.text(2, "graph");
  for (const auto& [name, t] : graph.constants) out.message(5, tensor_message(name, t));
  for (const onnx::Port& port : graph.inputs) out.message(11, port_message(port));
  for (const onnx::Port& port : graph.outputs) out.message(12, port_message(port));
  return out;
}

/// A ModelProto around a GraphProto.
inline std::string model_bytes(const Message& graph, int64_t opset = 13) {
  return Message()
      .number(1, 8)
      .text(2, "grapeshot tests")
      .message(7, graph)
      .message(8, Message().text(1, "").number(2, opset))
      .bytes();
}

inline std::string model_bytes(const onnx::Graph& graph) {
  return model_bytes(graph_message(graph), graph.opset);
}

}  // namespace grapeshot::testing
