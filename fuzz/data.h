// fuzz/data.h: what the fuzz targets of data sets ask of a format.
#pragma once

#include <algorithm>
#include <string_view>

#include "fuzz/fuzz.h"
#include "grapeshot/base/table.h"
#include "grapeshot/io/data/data.h"

namespace grapeshot::fuzz {

/// Reads `bytes` in the format `name`, all rows and then some: what is accepted fits its shape, and
/// a part of it is that part of the whole.
inline void read_as(std::string_view name, std::string_view bytes) {
  const data::Format& format = find_row(data::formats(), name, "data format");
  const auto part = [&](int64_t begin, int64_t end) {
    data::Request request;
    request.begin = begin;
    request.end = end;
    return accepted([&] {
      MemorySource source(bytes);
      return format.read(source, kPath, request);
    });
  };
  const auto all = part(0, data::Request().end);
  if (!all) return;
  // A size of zero first: the others may be as large as they like then.
  bool empty = false;
  for (const int64_t size : all->shape) {
    require(size >= 0, "a dimension is a size");
    empty = empty || size == 0;
  }
  int64_t count = empty ? 0 : 1;
  if (!empty)
    for (const int64_t size : all->shape) count *= size;
  require(count == std::ssize(all->values), "the values fill the shape");
  const int64_t n = all->rows();
  require(all->labels.empty() || std::ssize(all->labels) == n, "a label for every row");
  const auto some = part(1, 3);
  require(some.has_value(), "a part of what is accepted is accepted");
  const int64_t begin = std::min<int64_t>(1, n), end = std::min<int64_t>(3, n);
  require(some->rows() == end - begin, "as many rows as are there");
  const int64_t width = n == 0 ? 0 : count / n;
  const auto same = [&](size_t i) {
    const double a = some->values[i], b = all->values[static_cast<size_t>(begin * width) + i];
    return a == b || (a != a && b != b);
  };
  for (size_t i = 0; i < some->values.size(); ++i) require(same(i), "the same rows");
}

}  // namespace grapeshot::fuzz
