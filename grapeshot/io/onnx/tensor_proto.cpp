#include "grapeshot/io/onnx/tensor_proto.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/element_type.h"

namespace grapeshot::onnx {
namespace {

using protozero::pbf_reader;

// Field numbers of onnx.proto, https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
namespace tensor_field {
constexpr uint32_t kDims = 1, kType = 2, kFloat = 4, kInt32 = 5, kInt64 = 7, kName = 8, kRaw = 9,
                   kDouble = 10, kUint64 = 11, kExternal = 13, kLocation = 14;
}
namespace entry_field {
constexpr uint32_t kKey = 1, kValue = 2;
}

std::string known_types() {
  std::string out;
  for (const ElementType& each : element_types()) out += str(out.empty() ? "" : ", ", each.name);
  return out;
}

// Where a TensorProto keeps its numbers when it does not carry them.
struct External {
  std::string location;
  uint64_t offset = 0, length = 0;
  bool has_length = false;
};

// Everything a TensorProto may carry its numbers in.
struct TensorFields {
  std::string name;
  std::vector<int64_t> dims;
  int32_t type = 0;
  int32_t location = 0;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int32_t> ints;
  std::vector<int64_t> longs;
  std::vector<uint64_t> unsigned_longs;
  protozero::data_view raw;
  bool has_raw = false;
  std::vector<std::pair<std::string, std::string>> external;
};

std::pair<std::string, std::string> read_entry(pbf_reader reader) {
  std::pair<std::string, std::string> out;
  while (reader.next()) {
    if (reader.tag() == entry_field::kKey) {
      out.first = text(reader);
    } else if (reader.tag() == entry_field::kValue) {
      out.second = text(reader);
    } else {
      reader.skip();
    }
  }
  return out;
}

TensorFields read_fields(pbf_reader reader) {
  using namespace tensor_field;
  TensorFields t;
  while (reader.next()) {
    switch (reader.tag()) {
      case kDims:
        append_int64(reader, t.dims);
        break;
      case kType:
        t.type = reader.get_int32();
        break;
      case kFloat:
        append_float(reader, t.floats);
        break;
      case kInt32:
        append_int32(reader, t.ints);
        break;
      case kInt64:
        append_int64(reader, t.longs);
        break;
      case kDouble:
        append_double(reader, t.doubles);
        break;
      case kUint64:
        append(
            reader, t.unsigned_longs, [&] { return reader.get_packed_uint64(); },
            [&] { return reader.get_uint64(); });
        break;
      case kName:
        t.name = text(reader);
        break;
      case kRaw:
        t.raw = reader.get_view(), t.has_raw = true;
        break;
      case kExternal:
        t.external.push_back(read_entry(reader.get_message()));
        break;
      case kLocation:
        t.location = reader.get_int32();
        break;
      default:
        reader.skip();
    }
  }
  return t;
}

External external_of(const TensorFields& t, const std::string& what) {
  External out;
  const auto number = [&](const std::pair<std::string, std::string>& entry) {
    uint64_t value = 0;
    const std::string& digits = entry.second;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    GRAPESHOT_CHECK(error == std::errc{} && end == digits.data() + digits.size(), kParse, what,
                    ": its external data has the ", entry.first, " '", digits,
                    "', which is no number of bytes");
    return value;
  };
  for (const auto& entry : t.external) {
    if (entry.first == "location") out.location = entry.second;
    if (entry.first == "offset") out.offset = number(entry);
    if (entry.first == "length") out.length = number(entry), out.has_length = true;
  }
  GRAPESHOT_CHECK(!out.location.empty(), kParse, what, ": its external data names no file");
  return out;
}

// The file that `location` names; a model may not reach outside its own folder.
std::filesystem::path external_file(const std::string& location, const std::string& path,
                                    const std::string& what) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(fs::path(path)).parent_path(), error);
  const fs::path file = fs::weakly_canonical(folder / location, error);
  const fs::path inside = file.lexically_relative(folder);
  GRAPESHOT_CHECK(location.find('\0') == std::string::npos && !inside.empty() &&
                      *inside.begin() != ".." && *inside.begin() != ".",
                  kParse, what, ": its external data '", location,
                  "' lies outside the model's folder");
  const fs::file_status status = fs::status(file, error);
  GRAPESHOT_CHECK(fs::exists(status), kNotFound, what, ": its external data '", location,
                  "' is not in the model's folder");
  GRAPESHOT_CHECK(fs::is_regular_file(status), kParse, what, ": its external data '", location,
                  "' is not a file");
  return file;
}

at::Tensor read_external(const TensorFields& t, const ElementType& type, uint64_t bytes,
                         const std::string& path, const std::string& what, uint64_t& total) {
  const External external = external_of(t, what);
  const std::filesystem::path file = external_file(external.location, path, what);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(file, error);
  GRAPESHOT_CHECK(!error, kSystem, what, ": '", external.location, "' cannot be read (",
                  error.message(), ")");
  const uint64_t length = external.has_length ? external.length : bytes;
  GRAPESHOT_CHECK(length == bytes, kParse, what, " has ", length,
                  " bytes of external data, its shape asks for ", bytes);
  GRAPESHOT_CHECK(external.offset <= size && length <= size - external.offset, kParse, what,
                  ": its external data ends at byte ", external.offset + length, " of '",
                  external.location, "', which has ", size, " bytes");
  total += length;
  GRAPESHOT_CHECK(total >> 20 < max_file_mib(), kParse, what,
                  ": the model's external data holds more than ", max_file_mib(),
                  " MiB; --max-file-mib allows more");
  at::Tensor out = at::empty(t.dims, at::TensorOptions(type.type));
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(external.offset));
  if (bytes > 0) in.read(static_cast<char*>(out.data_ptr()), static_cast<std::streamsize>(bytes));
  GRAPESHOT_CHECK(in.good(), kSystem, what, ": '", external.location, "' cannot be read");
  return out;
}

// Numbers of four bits and fewer, several a byte with the lowest bits first, as one a byte.
at::Tensor unpacked(const uint8_t* bytes, const TensorFields& t, const ElementType& type) {
  at::Tensor out = at::empty(t.dims, at::TensorOptions(at::kByte));
  const int64_t per_byte = 8 / type.bits;
  const unsigned mask = (1u << type.bits) - 1, sign = 1u << (type.bits - 1);
  const bool is_signed = c10::isSignedType(type.type);
  auto* to = out.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    unsigned bits = (bytes[i / per_byte] >> (i % per_byte * type.bits)) & mask;
    if (is_signed && (bits & sign) != 0) bits |= ~mask;
    to[i] = static_cast<uint8_t>(bits);
  }
  return out.view(type.type);
}

at::Tensor make_tensor(const TensorFields& t, const std::string& path, const std::string& what,
                       uint64_t& external) {
  const ElementType* type = find_element_type(t.type);
  GRAPESHOT_CHECK(type, kUnsupported, what, " has element type ", t.type, "; ", known_types(),
                  " can be read");
  int64_t count = 1, bytes = 8;  // torch computes strides even where a 0 empties the tensor
  for (const int64_t dim : t.dims) {
    GRAPESHOT_CHECK(dim >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes),
                    kParse, what, " has an impossible dimension ", dim);
    count *= dim;
  }
  const bool packed = type->bits < 8;
  const auto bits = static_cast<uint64_t>(type->bits), values = static_cast<uint64_t>(count);
  const uint64_t size = packed ? (values * bits + 7) / 8 : values * (bits / 8);
  if (t.location != 0) {
    GRAPESHOT_CHECK(!packed, kUnsupported, what, " has external data of ", type->name);
    return read_external(t, *type, size, path, what, external);
  }
  const auto check_count = [&](size_t there, uint64_t asked) {
    GRAPESHOT_CHECK(there == asked, kParse, what, " has ", there, " values, its shape asks for ",
                    asked);
  };
  const auto copy = [&](const auto& numbers, at::ScalarType stored) {
    check_count(numbers.size(), values);
    auto* data = const_cast<void*>(static_cast<const void*>(numbers.data()));
    const at::Tensor view = at::from_blob(data, t.dims, at::TensorOptions(stored));
    return stored == type->type ? view.clone() : view.to(type->type);
  };
  if (t.has_raw) {
    GRAPESHOT_CHECK(t.raw.size() == size, kParse, what, " has ", t.raw.size(),
                    " bytes, its shape asks for ", count, " values of ", type->bits, " bits");
    if (packed) return unpacked(reinterpret_cast<const uint8_t*>(t.raw.data()), t, *type);
    at::Tensor out = at::empty(t.dims, at::TensorOptions(type->type));
    if (count > 0) std::memcpy(out.data_ptr(), t.raw.data(), t.raw.size());
    return out;
  }
  switch (type->type) {
    case at::kFloat:
      return copy(t.floats, at::kFloat);
    case at::kDouble:
      return copy(t.doubles, at::kDouble);
    case at::kLong:
      return copy(t.longs, at::kLong);
    case at::kUInt32:
    case at::kUInt64:
      return copy(t.unsigned_longs, at::kUInt64);
    default:
      break;
  }
  if (packed) {  // the bytes of raw data, one an integer
    check_count(t.ints.size(), size);
    const std::vector<uint8_t> raw(t.ints.begin(), t.ints.end());
    return unpacked(raw.data(), t, *type);
  }
  if (!c10::isFloatingType(type->type)) return copy(t.ints, at::kInt);
  // Kept as the bits of integers of the same size.
  check_count(t.ints.size(), values);
  auto* data = const_cast<int32_t*>(t.ints.data());
  const at::Tensor stored = at::from_blob(data, t.dims, at::TensorOptions(at::kInt));
  return stored.to(type->bits == 8 ? at::kByte : at::kShort).view(type->type);
}

// A bool byte other than 0 and 1 is undefined behaviour in C++.
at::Tensor normalised(at::Tensor t) {
  if (t.scalar_type() != at::kBool || t.numel() == 0) return t;
  return at::from_blob(t.data_ptr(), t.sizes(), at::TensorOptions(at::kByte)).ne(0);
}

}  // namespace

NamedTensor read_tensor(pbf_reader reader, const std::string& path, const std::string& place,
                        uint64_t& external, NotANumber nan) {
  TensorFields fields = read_fields(reader);
  const std::string what =
      str(path, ": ", place, fields.name.empty() ? "" : str(" '", fields.name, "'"));
  at::Tensor t = normalised(make_tensor(fields, path, what, external));
  if (nan == NotANumber::kRefused && t.is_floating_point() && t.element_size() > 1) {
    const auto odd = t.isnan().sum().item<int64_t>();
    GRAPESHOT_CHECK(odd == 0, kParse, what, " has ", odd, " NaN among its ", t.numel(), " values");
  }
  return {std::move(fields.name), std::move(t)};
}

}  // namespace grapeshot::onnx
