// grapeshot/io/data/arrays.cpp: formats that are arrays: NPY, NPZ, IDX.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "grapeshot/base/error.h"
#include "grapeshot/io/data/formats_internal.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/npz.h"

namespace grapeshot::data {
namespace {

DataSet as_set(NpyArray array) {
  DataSet out;
  // A single row has no axis of rows.
  if (array.shape.empty()) array.shape.push_back(1);
  out.shape = std::move(array.shape);
  out.values = std::move(array.values);
  return out;
}

// IDX keeps its numbers with the highest byte first.
template <class T>
double load(const char* bytes) {
  char turned[sizeof(T)];
  std::reverse_copy(bytes, bytes + sizeof(T), turned);
  T value;
  std::memcpy(&value, turned, sizeof(T));
  return static_cast<double>(value);
}

struct IdxType {
  char code;
  size_t size;
  double (*load)(const char*);
};

constexpr IdxType kIdxTypes[] = {
    {0x08, 1, load<uint8_t>}, {0x09, 1, load<int8_t>}, {0x0b, 2, load<int16_t>},
    {0x0c, 4, load<int32_t>}, {0x0d, 4, load<float>},  {0x0e, 8, load<double>},
};

}  // namespace

bool is_npy(std::string_view, std::string_view head, int64_t) {
  return head.starts_with("\x93NUMPY");
}

DataSet read_npy_set(ByteSource& source, const std::string& path, const Request& request) {
  return as_set(read_npy_rows(source, path, request.begin, request.end));
}

bool is_npz(std::string_view, std::string_view head, int64_t) {
  return head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06");
}

DataSet read_npz_set(ByteSource& source, const std::string& path, const Request& request) {
  // An archive's contents are listed at its end.
  const std::string bytes = source.read(std::numeric_limits<uint64_t>::max());
  return as_set(parse_npz_rows(bytes, path, request.array, request.begin, request.end));
}

bool is_idx(std::string_view, std::string_view head, int64_t) {
  if (head.size() < 8 || head[0] != 0 || head[1] != 0 || head[3] < 1) return false;
  return std::ranges::find(kIdxTypes, head[2], &IdxType::code) != std::end(kIdxTypes);
}

DataSet read_idx(ByteSource& source, const std::string& path, const Request& request) {
  const std::string magic = source.read(4);
  const bool fits = magic.size() == 4 && magic[0] == 0 && magic[1] == 0;
  GRAPESHOT_CHECK(fits, kParse, path, ": no IDX file: it does not begin with two zero bytes");
  const auto* type = std::ranges::find(kIdxTypes, magic[2], &IdxType::code);
  GRAPESHOT_CHECK(type != std::end(kIdxTypes), kParse, path,
                  ": byte 2: IDX has no elements of type ",
                  int{static_cast<unsigned char>(magic[2])});
  const size_t rank = static_cast<unsigned char>(magic[3]);
  constexpr size_t kMostAxes = 32;
  GRAPESHOT_CHECK(rank >= 1 && rank <= kMostAxes, kParse, path, ": byte 3: ", rank,
                  " axes; this reads 1 to ", kMostAxes);
  const std::string sizes = source.read(4 * rank);
  GRAPESHOT_CHECK(sizes.size() == 4 * rank, kParse, path, ": ends inside its header, at byte ",
                  4 + sizes.size());
  DataSet out;
  double width = 1.;
  for (size_t axis = 0; axis < rank; ++axis) {
    uint32_t size = 0;
    for (size_t b = 0; b < 4; ++b)
      size = size << 8 | static_cast<unsigned char>(sizes[4 * axis + b]);
    out.shape.push_back(size);
    if (axis > 0) width *= size;
  }
  GRAPESHOT_CHECK(width * static_cast<double>(type->size) < 1e15, kParse, path,
                  ": claims to hold rows of ", width, " values");
  const auto record = static_cast<uint64_t>(width) * type->size;
  const Records rows = read_records(source, path, request, 4 + 4 * rank,
                                    static_cast<uint64_t>(out.shape[0]), record);
  out.shape[0] = rows.count;
  out.values.reserve(rows.bytes.size() / type->size);
  for (size_t at = 0; at < rows.bytes.size(); at += type->size) {
    out.values.push_back(type->load(rows.bytes.data() + at));
  }
  return out;
}

}  // namespace grapeshot::data
