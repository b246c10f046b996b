// grapeshot/io/data/cifar.cpp: the binary versions of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009).
//
// A file is nothing but records: one label byte (CIFAR-100: coarse, then fine), then 3 x 32 x 32
// bytes, red first.
#include <algorithm>
#include <string>

#include "grapeshot/base/error.h"
#include "grapeshot/io/data/formats_internal.h"

namespace grapeshot::data {
namespace {

constexpr int64_t kPixels = 3 * 32 * 32;

// Which byte of a record is the label, of so many, and how many classes there are.
struct Version {
  int64_t label, labels, classes;
};
constexpr Version kTen = {0, 1, 10}, kFine = {1, 2, 100}, kCoarse = {0, 2, 20};

bool is_version(std::string_view path, std::string_view head, int64_t size, const Version& v) {
  const bool named = path.ends_with(".bin");
  if (!named || size <= 0 || size % (v.labels + kPixels) != 0) return false;
  return static_cast<unsigned char>(head[static_cast<size_t>(v.label)]) < v.classes;
}

DataSet read_version(ByteSource& source, const std::string& path, const Request& request,
                     const Version& v) {
  const int64_t record = v.labels + kPixels;
  DataSet out;
  out.layout = Layout::kNchw;
  // Where the size is unknown, so is the number of rows: they are read until they end.
  std::string bytes;
  int64_t begin = std::max<int64_t>(request.begin, 0);
  const auto size = source.size();
  if (size) {
    GRAPESHOT_CHECK(*size % static_cast<uint64_t>(record) == 0, kParse, path, ": ", *size,
                    " bytes are no whole number of records of ", record, " bytes");
    Records rows = read_records(source, path, request, 0, *size / static_cast<uint64_t>(record),
                                static_cast<uint64_t>(record));
    bytes = std::move(rows.bytes);
    begin = rows.begin;
  } else {
    const auto most = static_cast<uint64_t>(std::max<int64_t>(request.end - begin, 0));
    source.skip(static_cast<uint64_t>(begin) * static_cast<uint64_t>(record));
    bytes = source.read(std::min(most, uint64_t{1} << 40) * static_cast<uint64_t>(record));
    GRAPESHOT_CHECK(bytes.size() % static_cast<size_t>(record) == 0, kParse, path,
                    ": ends at byte ", begin * record + std::ssize(bytes), ", inside a record of ",
                    record, " bytes");
    check_numbers(path, bytes.size(), 1);
  }
  const int64_t n = std::ssize(bytes) / record;
  out.shape = {n, 3, 32, 32};
  out.values.reserve(static_cast<size_t>(n * kPixels));
  const auto byte = [&](int64_t at) {
    return static_cast<unsigned char>(bytes[static_cast<size_t>(at)]);
  };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = byte(i * record + v.label);
    GRAPESHOT_CHECK(label < v.classes, kParse, path, ": byte ", (begin + i) * record + v.label,
                    ": label ", label, " is not one of 0 to ", v.classes - 1);
    out.labels.push_back(label);
    for (int64_t p = 0; p < kPixels; ++p) {
      out.values.push_back(static_cast<double>(byte(i * record + v.labels + p)));
    }
  }
  return out;
}

}  // namespace

bool is_cifar10(std::string_view path, std::string_view head, int64_t size) {
  return is_version(path, head, size, kTen);
}

DataSet read_cifar10(ByteSource& source, const std::string& path, const Request& request) {
  return read_version(source, path, request, kTen);
}

bool is_cifar100(std::string_view path, std::string_view head, int64_t size) {
  return is_version(path, head, size, kFine);
}

DataSet read_cifar100(ByteSource& source, const std::string& path, const Request& request) {
  return read_version(source, path, request, kFine);
}

DataSet read_cifar100_coarse(ByteSource& source, const std::string& path, const Request& request) {
  return read_version(source, path, request, kCoarse);
}

}  // namespace grapeshot::data
