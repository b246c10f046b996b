// grapeshot/io/data/formats_internal.h: the formats of data.h and what they share.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/io/data/data.h"

namespace grapeshot::data {

// One for each row of the table.
bool is_npy(std::string_view path, std::string_view head, int64_t size);
DataSet read_npy_set(ByteSource& source, const std::string& path, const Request& request);
bool is_npz(std::string_view path, std::string_view head, int64_t size);
DataSet read_npz_set(ByteSource& source, const std::string& path, const Request& request);
bool is_idx(std::string_view path, std::string_view head, int64_t size);
DataSet read_idx(ByteSource& source, const std::string& path, const Request& request);
bool is_cifar10(std::string_view path, std::string_view head, int64_t size);
DataSet read_cifar10(ByteSource& source, const std::string& path, const Request& request);
bool is_cifar100(std::string_view path, std::string_view head, int64_t size);
DataSet read_cifar100(ByteSource& source, const std::string& path, const Request& request);
DataSet read_cifar100_coarse(ByteSource& source, const std::string& path, const Request& request);
bool is_csv(std::string_view path, std::string_view head, int64_t size);
DataSet read_csv(ByteSource& source, const std::string& path, const Request& request);
bool is_image(std::string_view path, std::string_view head, int64_t size);
DataSet read_image(ByteSource& source, const std::string& path, const Request& request);

/// The wanted images of a folder, sorted by name: path below the folder, class.
struct ImageFile {
  std::string name;
  int64_t label = -1;  ///< the number of its class folder, -1 without class folders
};
struct ImageFolder {
  std::vector<ImageFile> files;
  int64_t first = 0;  ///< number of the first among all images of the folder
};
ImageFolder list_images(const std::string& folder, const Request& request);
DataSet read_folder(const std::string& folder, const Request& request);

/// Rows of a file of `rows` records of `record` bytes after `head` bytes, of which so many are
/// wanted. Throws kParse with the byte at which the file ends too early, or what follows its end.
struct Records {
  std::string bytes;
  int64_t begin = 0, count = 0;
};
Records read_records(ByteSource& source, const std::string& path, const Request& request,
                     uint64_t head, uint64_t rows, uint64_t record);

/// Throws kParse naming the file when that many numbers, at eight bytes each, are more than
/// max_file_mib().
void check_numbers(const std::string& path, uint64_t rows, uint64_t width);

/// Fields of one line of a CSV file; whether to go on.
using TakeLine = std::function<bool(const std::vector<std::string>& fields, int64_t line)>;
/// Calls `take` for every line with fields, in their order; `line` counts from 1. Fields are
/// separated by what separates the most of the first line: commas, semicolons or tabs.
/// Throws kParse "path:line: ..." for quotes that do not match.
void for_each_line(ByteSource& source, const std::string& path, const TakeLine& take);

}  // namespace grapeshot::data
