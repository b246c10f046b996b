// grapeshot/io/npy.h: NumPy's .npy files (format 1.0 to 3.0), C order, numbers only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/io/stream.h"

namespace grapeshot {

/// An array in row-major order. Integers and float64 are kept as double, which is exact below 2^53.
struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// Accepts little-endian float32/64, (u)int8..64 and bool, C or Fortran order; throws
/// kParse "path: ..." for anything else or a damaged file.
[[nodiscard]] NpyArray parse_npy(std::string_view bytes, const std::string& path);

/// The same of a file; throws as read_file does besides.
[[nodiscard]] NpyArray read_npy(const std::string& path);

/// Rows `begin` to `end` of the first axis, fewer where there are fewer; reads no further than they
/// reach, but for Fortran order. A scalar is returned as it is.
[[nodiscard]] NpyArray read_npy_rows(ByteSource& source, const std::string& path, int64_t begin,
                                     int64_t end);

/// The bytes of such a file. `values` has product(shape) entries.
[[nodiscard]] std::string encode_npy(std::span<const float> values, std::span<const int64_t> shape);
[[nodiscard]] std::string encode_npy(std::span<const double> values,
                                     std::span<const int64_t> shape);
[[nodiscard]] std::string encode_npy(std::span<const uint8_t> values,
                                     std::span<const int64_t> shape);

/// Writes float32 (float64), atomically. `values` has product(shape) entries.
void write_npy(const std::string& path, std::span<const float> values,
               std::span<const int64_t> shape);
void write_npy_float64(const std::string& path, std::span<const double> values,
                       std::span<const int64_t> shape);

}  // namespace grapeshot
