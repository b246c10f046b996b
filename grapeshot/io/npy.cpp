#include "grapeshot/io/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/file.h"

static_assert(std::endian::native == std::endian::little);

namespace grapeshot {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 32;

template <class T>
double load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

struct ElementType {
  std::string_view name;  // as in the header's 'descr'
  size_t size;
  double (*load)(const char*);
};

constexpr std::array kElementTypes = {
    ElementType{"<f4", 4, load<float>},    ElementType{"<f8", 8, load<double>},
    ElementType{"|u1", 1, load<uint8_t>},  ElementType{"|i1", 1, load<int8_t>},
    ElementType{"<u2", 2, load<uint16_t>}, ElementType{"<i2", 2, load<int16_t>},
    ElementType{"<u4", 4, load<uint32_t>}, ElementType{"<i4", 4, load<int32_t>},
    ElementType{"<u8", 8, load<uint64_t>}, ElementType{"<i8", 8, load<int64_t>},
    ElementType{"|b1", 1, load<uint8_t>},
};

/// The Python dictionary literal in front of the numbers, e.g.
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Header {
 public:
  Header(const std::string& path, std::string_view text) : path_(path), rest_(text) {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran = boolean();
      } else if (key == "shape") {
        shape = integers();
        has_shape_ = true;
      } else {
        fail(str("unknown header key '", printable(key), "'"));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (descr.empty() || !has_shape_) fail("the header lacks 'descr' or 'shape'");
  }

  std::string_view descr;
  bool fortran = false;
  std::vector<int64_t> shape;

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kParse, str(path_, ": not a readable .npy file: ", what));
  }

  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
  }

  bool accept(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(str("the header lacks a '", c, "'"));
  }

  std::string_view quoted() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("the header has a string without an end");
    const std::string_view out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return out;
  }

  bool boolean() {
    skip_blanks();
    const bool value = rest_.starts_with("True");
    if (!value && !rest_.starts_with("False")) fail("'fortran_order' is neither True nor False");
    rest_.remove_prefix(value ? 4 : 5);
    return value;
  }

  std::vector<int64_t> integers() {
    std::vector<int64_t> out;
    expect('(');
    while (!accept(')')) {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc{} || value < 0 || out.size() == kMaxRank)
        fail("the shape is malformed");
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      out.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  const std::string& path_;
  std::string_view rest_;
  bool has_shape_ = false;
};

constexpr size_t kShortPrefix = 10;  ///< in front of the header's text, two bytes more from 2.0 on

/// Where the header's text lies, from the bytes in front of it.
struct HeaderPlace {
  size_t begin, length;
};

HeaderPlace find_header(const std::string& path, std::string_view bytes) {
  GRAPESHOT_CHECK(bytes.starts_with(kMagic), kParse, path,
                  ": not a .npy file; write one with numpy.save");
  const auto byte = [&](size_t at) { return size_t{static_cast<unsigned char>(bytes[at])}; };
  const bool has_version = bytes.size() >= 8;
  const size_t start = has_version && byte(6) == 1 ? kShortPrefix : kShortPrefix + 2;
  GRAPESHOT_CHECK(bytes.size() >= start, kParse, path, ": the file ends inside its header");
  GRAPESHOT_CHECK(byte(6) >= 1 && byte(6) <= 3, kParse, path, ": .npy format ", byte(6),
                  " is not known; this reads 1 to 3");
  size_t length = byte(8) | byte(9) << 8;
  if (start > kShortPrefix) length |= byte(10) << 16 | byte(11) << 24;
  return {start, length};
}

/// Splits the file into header text and data.
std::pair<std::string_view, std::string_view> split(const std::string& path,
                                                    std::string_view bytes) {
  const HeaderPlace place = find_header(path, bytes);
  GRAPESHOT_CHECK(place.length <= bytes.size() - place.begin, kParse, path,
                  ": the file ends inside its header");
  return {bytes.substr(place.begin, place.length), bytes.substr(place.begin + place.length)};
}

const ElementType& element_type(const std::string& path, std::string_view descr) {
  const auto type = std::ranges::find(kElementTypes, descr, &ElementType::name);
  GRAPESHOT_CHECK(type != kElementTypes.end(), kParse, path, ": elements of type '",
                  printable(descr),
                  "' are not supported; save float32, float64, bool or integers of 8 to 64 bits");
  return *type;
}

std::vector<double> load_all(const ElementType& type, std::string_view data) {
  std::vector<double> out;
  out.reserve(data.size() / type.size);
  for (size_t at = 0; at < data.size(); at += type.size) out.push_back(type.load(data.data() + at));
  return out;
}

/// Number of elements, or -1 when it does not fit `limit`.
int64_t count_elements(std::span<const int64_t> shape, int64_t limit) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size == 0) return 0;
    if (count > limit / size) return -1;
    count *= size;
  }
  return count;
}

/// Reorders from first-index-fastest to last-index-fastest.
std::vector<double> to_row_major(const std::vector<double>& values,
                                 std::span<const int64_t> shape) {
  std::vector<double> out(values.size());
  std::vector<int64_t> index(shape.size(), 0);
  for (double& value : out) {
    size_t from = 0;
    for (size_t axis = shape.size(); axis-- > 0;)
      from = from * static_cast<size_t>(shape[axis]) + static_cast<size_t>(index[axis]);
    value = values[from];
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  return out;
}

template <class T>
std::string encode(std::string_view descr, std::span<const T> values,
                   std::span<const int64_t> shape) {
  const int64_t count = count_elements(shape, std::ssize(values));
  GRAPESHOT_CHECK(count == std::ssize(values), kInvalidArgument, values.size(),
                  " values do not fill the shape");
  std::string header = str("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t size : shape) header += str(size, ", ");
  header += "), }";
  constexpr size_t kPrefix = 10, kAlignment = 64;
  header.append(kAlignment - 1 - (kPrefix + header.size()) % kAlignment, ' ');
  header += '\n';

  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

}  // namespace

std::string encode_npy(std::span<const float> values, std::span<const int64_t> shape) {
  return encode("<f4", values, shape);
}

std::string encode_npy(std::span<const double> values, std::span<const int64_t> shape) {
  return encode("<f8", values, shape);
}

std::string encode_npy(std::span<const uint8_t> values, std::span<const int64_t> shape) {
  return encode("|u1", values, shape);
}

NpyArray parse_npy(std::string_view bytes, const std::string& path) {
  const auto [text, data] = split(path, bytes);
  Header header(path, text);
  const ElementType& type = element_type(path, header.descr);
  const auto stored = static_cast<int64_t>(data.size() / type.size);
  const int64_t count = count_elements(header.shape, stored);
  GRAPESHOT_CHECK(count >= 0, kParse, path, ": the file ends before its last number");
  GRAPESHOT_CHECK(static_cast<size_t>(count) * type.size == data.size(), kParse, path, ": ",
                  data.size() - static_cast<size_t>(count) * type.size,
                  " bytes follow the last number");
  NpyArray out{.shape = std::move(header.shape), .values = load_all(type, data)};
  if (header.fortran) out.values = to_row_major(out.values, out.shape);
  return out;
}

namespace {

/// Rows of an array whose first axis changes slowest.
NpyArray keep_rows(NpyArray array, int64_t begin, int64_t end) {
  if (array.shape.empty()) return array;
  const int64_t n = array.shape[0];
  begin = std::min(begin, n);
  end = std::clamp(end, begin, n);
  const int64_t width = n == 0 ? 0 : std::ssize(array.values) / n;
  array.values.erase(array.values.begin() + end * width, array.values.end());
  array.values.erase(array.values.begin(), array.values.begin() + begin * width);
  array.shape[0] = end - begin;
  return array;
}

}  // namespace

NpyArray read_npy_rows(ByteSource& source, const std::string& path, int64_t begin, int64_t end) {
  std::string bytes = source.read(kShortPrefix);
  if (bytes.size() == kShortPrefix && bytes[6] != 1) bytes += source.read(2);
  const HeaderPlace place = find_header(path, bytes);
  bytes += source.read(place.length);
  const auto [text, nothing] = split(path, bytes);
  Header header(path, text);
  const ElementType& type = element_type(path, header.descr);
  const bool all = begin <= 0 && (header.shape.empty() || end >= header.shape[0]);
  if (all || header.fortran || header.shape.empty()) {
    bytes += source.read(std::numeric_limits<uint64_t>::max());
    return keep_rows(parse_npy(bytes, path), begin, end);
  }
  const auto most = static_cast<int64_t>((max_file_mib() << 20) / type.size);
  const int64_t width = count_elements(std::span(header.shape).subspan(1), most);
  GRAPESHOT_CHECK(width >= 0, kParse, path, ": a row of it is larger than ", max_file_mib(),
                  " MiB; --max-file-mib allows more");
  begin = std::min(begin, header.shape[0]);
  end = std::clamp(end, begin, header.shape[0]);
  header.shape[0] = end - begin;
  const int64_t count = count_elements(header.shape, most);
  GRAPESHOT_CHECK(count >= 0, kParse, path, ": these rows are larger than ", max_file_mib(),
                  " MiB; --max-file-mib allows more");
  // Neither product overflows: where one would, the file is shorter than that.
  const uint64_t row = static_cast<uint64_t>(width) * type.size;
  const bool there = row == 0 || static_cast<uint64_t>(begin) < (uint64_t{1} << 62) / row;
  if (there) source.skip(static_cast<uint64_t>(begin) * row);
  const uint64_t wanted = static_cast<uint64_t>(count) * type.size;
  const std::string data = there ? source.read(wanted) : std::string();
  GRAPESHOT_CHECK(data.size() == wanted, kParse, path, ": the file ends before its last number");
  return {.shape = std::move(header.shape), .values = load_all(type, data)};
}

NpyArray read_npy(const std::string& path) {
  return parse_npy(read_file(path), path);
}

void write_npy(const std::string& path, std::span<const float> values,
               std::span<const int64_t> shape) {
  write_file(path, encode_npy(values, shape));
}

void write_npy_float64(const std::string& path, std::span<const double> values,
                       std::span<const int64_t> shape) {
  write_file(path, encode_npy(values, shape));
}

}  // namespace grapeshot
