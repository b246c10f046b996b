// grapeshot/io/onnx/proto.h: protobuf for this folder; include it instead of protozero.
#pragma once

#include <string>
#include <vector>

// A malformed file must be an error, neither an abort nor a silent wrong read.
namespace grapeshot::onnx {
[[noreturn]] void throw_malformed();
}
#define protozero_assert(x) ((x) ? static_cast<void>(0) : ::grapeshot::onnx::throw_malformed())
#include <protozero/pbf_reader.hpp>

namespace grapeshot::onnx {

inline void throw_malformed() {
  throw protozero::unknown_pbf_wire_type_exception();
}

inline std::string text(protozero::pbf_reader& reader) {
  const auto view = reader.get_view();
  return {view.data(), view.size()};
}

// Repeated numbers come packed or one by one; both must be read.
template <class T, class Packed, class One>
void append(protozero::pbf_reader& reader, std::vector<T>& out, Packed packed, One one) {
  if (reader.has_wire_type(protozero::pbf_wire_type::length_delimited)) {
    for (const auto value : packed()) out.push_back(static_cast<T>(value));
  } else {
    out.push_back(static_cast<T>(one()));
  }
}

inline void append_int64(protozero::pbf_reader& reader, std::vector<int64_t>& out) {
  append(
      reader, out, [&] { return reader.get_packed_int64(); }, [&] { return reader.get_int64(); });
}

inline void append_int32(protozero::pbf_reader& reader, std::vector<int32_t>& out) {
  append(
      reader, out, [&] { return reader.get_packed_int32(); }, [&] { return reader.get_int32(); });
}

inline void append_float(protozero::pbf_reader& reader, std::vector<float>& out) {
  append(
      reader, out, [&] { return reader.get_packed_float(); }, [&] { return reader.get_float(); });
}

inline void append_double(protozero::pbf_reader& reader, std::vector<double>& out) {
  append(
      reader, out, [&] { return reader.get_packed_double(); }, [&] { return reader.get_double(); });
}

}  // namespace grapeshot::onnx
