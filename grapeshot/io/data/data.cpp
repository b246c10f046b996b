#include "grapeshot/io/data/data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/data/formats_internal.h"
#include "grapeshot/io/file.h"

namespace grapeshot::data {
namespace {

namespace fs = std::filesystem;

// What content alone tells comes first, what goes by name last.
constexpr Format kTable[] = {
    {"npy", "NumPy's arrays, .npy: [N, ...].", is_npy, read_npy_set},
    {"npz", "NumPy's archives of arrays, .npz; DATA.npz:x is the array x.", is_npz, read_npz_set},
    {"idx", "IDX, as MNIST comes (train-images-idx3-ubyte): [N, ...].", is_idx, read_idx},
    {"images",
     "PNG and JPEG files of 8 bits a channel: a folder of them, perhaps of class folders, or one.",
     is_image, read_image},
    {"cifar10", "CIFAR-10's binary files, .bin, with their labels.", is_cifar10, read_cifar10},
    {"cifar100", "CIFAR-100's binary files, .bin, with the 100 fine labels.", is_cifar100,
     read_cifar100},
    {"cifar100-coarse", "The same with the 20 coarse labels; only by --format.",
     [](std::string_view, std::string_view, int64_t) { return false; }, read_cifar100_coarse},
    {"csv", "A table with a line of names above its numbers, .csv or .tsv.", is_csv, read_csv},
};

constexpr size_t kHead = 1024;  // bytes that tell a format

const Format& recognise(FileSource& source) {
  const auto size = source.size() ? static_cast<int64_t>(*source.size()) : -1;
  const std::string_view head = source.head(kHead);
  for (const Format& format : kTable) {
    if (format.recognises(source.path(), head, size)) return format;
  }
  GRAPESHOT_CHECK(!head.empty(), kParse, source.path(), ": is empty");
  std::string known;
  for (const Format& format : kTable) known += str(known.empty() ? "" : ", ", format.name);
  throw Error(ErrorCode::kInvalidArgument,
              str(source.path(), ": its content and name are those of no known format (", known,
                  "); --format says which it is in"));
}

}  // namespace

std::span<const Format> formats() {
  return kTable;
}

Place find_place(const std::string& text) {
  std::error_code ignored;
  const size_t colon = text.rfind(".npz:");
  if (colon == std::string::npos || fs::exists(text, ignored)) return {text, ""};
  return {text.substr(0, colon + 4), text.substr(colon + 5)};
}

std::string absolute_place(const std::string& text) {
  const Place place = find_place(text);
  std::error_code ignored;
  const bool folder = fs::is_directory(place.path, ignored);
  const std::string path =
      fs::absolute(folder ? place.path : resolve_file(place.path)).lexically_normal().string();
  return place.array.empty() ? path : str(path, ":", place.array);
}

DataSet read(const std::string& text, const Request& request, std::string_view format) {
  const Format* chosen = format.empty() ? nullptr : &find_row(formats(), format, "data format");
  const Place place = find_place(text);
  std::error_code ignored;
  if (fs::is_directory(place.path, ignored)) {
    GRAPESHOT_CHECK(!chosen || chosen->read == read_image, kInvalidArgument, place.path,
                    ": is a folder, which only the format images reads");
    return read_folder(place.path, request);
  }
  FileSource source(place.path);
  if (chosen == nullptr) chosen = &recognise(source);
  Request whole = request;
  whole.array = place.array;
  DataSet out = chosen->read(source, source.path(), whole);
  out.first = std::max<int64_t>(request.begin, 0);
  return out;
}

std::string fingerprint(const std::string& text, const Request& request) {
  const std::string path = find_place(text).path;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return sha256_file(path);
  std::string all;
  for (const ImageFile& file : list_images(path, request).files) {
    all += str(file.name, " ", sha256_file((fs::path(path) / file.name).string()), "\n");
  }
  return sha256(all);
}

void check_numbers(const std::string& path, uint64_t rows, uint64_t width) {
  const uint64_t most = (max_file_mib() << 20) / sizeof(double);
  GRAPESHOT_CHECK(width == 0 || rows <= most / width, kParse, path, ": ", rows, " rows of ", width,
                  " numbers take more than ", max_file_mib(),
                  " MiB; --rows and --limit take some of them, --max-file-mib allows more");
}

Records read_records(ByteSource& source, const std::string& path, const Request& request,
                     uint64_t head, uint64_t rows, uint64_t record) {
  const auto size = source.size();
  const auto ends = [&](uint64_t at) {
    throw Error(ErrorCode::kParse, str(path, ": ends at byte ", at, "; its ", rows, " rows of ",
                                       record, " bytes after byte ", head, " do not end there"));
  };
  // In doubles, which cannot overflow: what is that large is not there.
  const double claimed =
      static_cast<double>(head) + static_cast<double>(rows) * static_cast<double>(record);
  if (size && static_cast<double>(*size) < claimed) ends(*size);
  GRAPESHOT_CHECK(!size || static_cast<double>(*size) <= claimed, kParse, path, ": ",
                  *size - (head + rows * record), " bytes follow its last row");
  Records out;
  out.begin = static_cast<int64_t>(
      std::min(rows, static_cast<uint64_t>(std::max<int64_t>(request.begin, 0))));
  const auto end = std::clamp(static_cast<uint64_t>(std::max<int64_t>(request.end, 0)),
                              static_cast<uint64_t>(out.begin), rows);
  const uint64_t count = end - static_cast<uint64_t>(out.begin);
  check_numbers(path, count, record);
  GRAPESHOT_CHECK(claimed < 9e18, kParse, path, ": claims to hold ", rows, " rows of ", record,
                  " bytes");
  source.skip(static_cast<uint64_t>(out.begin) * record);
  out.bytes = source.read(count * record);
  if (out.bytes.size() != count * record) {
    ends(head + static_cast<uint64_t>(out.begin) * record + out.bytes.size());
  }
  GRAPESHOT_CHECK(end < rows || size || source.read(1).empty(), kParse, path,
                  ": more bytes follow its last row");
  out.count = static_cast<int64_t>(count);
  return out;
}

namespace {

// Labels by the names of rows, from lines "name,label" below a header or none.
std::vector<int64_t> labels_by_name(FileSource& source, const DataSet& set) {
  const std::string& path = source.path();
  std::map<std::string, int64_t> known;
  for_each_line(source, path, [&](const std::vector<std::string>& fields, int64_t line) {
    const std::string where = str(path, ":", line);
    GRAPESHOT_CHECK(fields.size() == 2, kParse, where,
                    ": expected two fields, the name of an image and its label, found ",
                    fields.size());
    int64_t label = -1;
    const char* end = fields[1].data() + fields[1].size();
    const auto [stop, error] = std::from_chars(fields[1].data(), end, label);
    const bool whole = error == std::errc{} && stop == end;
    if (!whole && line == 1) return true;  // names of columns
    GRAPESHOT_CHECK(whole, kParse, where, ": '", printable(fields[1]),
                    "' is no label; a class is a number from 0 on");
    GRAPESHOT_CHECK(known.emplace(fields[0], label).second, kParse, where, ": '",
                    printable(fields[0]), "' has a label already");
    return true;
  });
  std::vector<int64_t> out;
  for (const std::string& name : set.names) {
    const auto label = known.find(name);
    GRAPESHOT_CHECK(label != known.end(), kInvalidArgument, path, ": has no label for ", name);
    out.push_back(label->second);
  }
  return out;
}

}  // namespace

std::vector<int64_t> read_labels(const std::string& place, const DataSet& set,
                                 const Request& request) {
  if (!set.names.empty()) {
    FileSource source(find_place(place).path);
    const Format& format = recognise(source);
    if (format.read == read_csv) return labels_by_name(source, set);
  }
  Request rows;
  rows.begin = request.begin;
  rows.end = request.end;
  const DataSet labels = read(place, rows);
  GRAPESHOT_CHECK(std::ssize(labels.values) == set.rows(), kInvalidArgument, place, ": ",
                  labels.values.size(), " labels for ", set.rows(), " rows of data");
  std::vector<int64_t> out;
  for (const double v : labels.values) {
    GRAPESHOT_CHECK(v == std::floor(v) && std::abs(v) < 9e15, kInvalidArgument, place, ": ", v,
                    " is not a label");
    out.push_back(static_cast<int64_t>(v));
  }
  return out;
}

}  // namespace grapeshot::data
