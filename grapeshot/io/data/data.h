// grapeshot/io/data/data.h: data sets: inputs by rows, perhaps with their labels and names, from
// the files that people have them in.
//
// A format is one function and one row of the table in data.cpp; `grapeshot list data` prints them.
// Values are those of the file, in its own units and order. No more of a file is read than the
// wanted rows need, and sizes that a file claims are held against what is there before memory is
// taken.
//
// Shapes: N rows; D... the dimensions of one input. Without Torch.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/io/stream.h"

namespace grapeshot::data {

/// The order of an image's axes.
enum class Layout {
  kUnknown,
  kNchw,  ///< channels, height, width
  kNhwc,  ///< height, width, channels
};

struct DataSet {
  std::vector<int64_t> shape;        ///< [N, D...]
  std::vector<double> values;        ///< product(shape) of them
  std::vector<int64_t> labels;       ///< [N], or none
  Layout layout = Layout::kUnknown;  ///< of D..., where the format says it
  std::vector<std::string> columns;  ///< names of the D inputs, or none
  std::vector<std::string> names;    ///< of the N rows, or none
  int64_t first = 0;                 ///< number of the first row in the file

  [[nodiscard]] int64_t rows() const { return shape.empty() ? 0 : shape[0]; }
};

/// What of a data set is wanted.
struct Request {
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();  ///< rows; a set may have fewer
  std::string label_column;  ///< of a CSV file, which then is none of the inputs; "": none
  std::string array;         ///< of an .npz archive; "": the only one
};

struct Format {
  std::string_view name, summary;
  /// Whether a file of that name, its first bytes and its size is one; `size` is -1 where unknown.
  bool (*recognises)(std::string_view path, std::string_view head, int64_t size);
  /// Throws kParse "path: ..." or "path:line: ..." for what is malformed.
  DataSet (*read)(ByteSource& source, const std::string& path, const Request& request);
};

[[nodiscard]] std::span<const Format> formats();

/// A path and, of "data.npz:x", the name of the array; the whole text is the path of a file of that
/// name.
struct Place {
  std::string path, array;
};
[[nodiscard]] Place find_place(const std::string& text);

/// The same text with an absolute path.
[[nodiscard]] std::string absolute_place(const std::string& text);

/// The rows of a file, or of a folder of images, in the format of that name; without one, in the
/// one that recognises it. Throws kNotFound for an unknown format or file, kInvalidArgument for a
/// file of none, kParse as Format::read, each naming the file.
[[nodiscard]] DataSet read(const std::string& place, const Request& request,
                           std::string_view format = "");

/// The labels [N] of the rows of `set`, from the file of labels at `place`: a data set of one value
/// a row, which must be whole, or a CSV file of names and labels where the rows have names.
[[nodiscard]] std::vector<int64_t> read_labels(const std::string& place, const DataSet& set,
                                               const Request& request);

/// SHA-256 of the file, or of the names and contents of the wanted images of a folder.
[[nodiscard]] std::string fingerprint(const std::string& place, const Request& request);

}  // namespace grapeshot::data
