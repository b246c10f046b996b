#include "grapeshot/cli/data_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/options.h"

namespace grapeshot::cli {
namespace {

// More rows than any file has, and far from where products overflow.
constexpr int64_t kMostRows = 1'000'000'000'000;

int64_t row_number(std::string_view text, int64_t absent, const std::string& rows) {
  if (text.empty()) return absent;
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool fits = error == std::errc{} && end == text.data() + text.size() && value >= 0;
  GRAPESHOT_CHECK(fits && value <= kMostRows, kInvalidArgument, "--rows: '", printable(rows),
                  "' is none of 10:50, 10:, :50 and 10; rows count from 0");
  return value;
}

}  // namespace

CLI::Option* add_data_options(CLI::App& app, DataOptions& options, const std::string& what) {
  CLI::Option* data = app.add_option(
      "--data", options.data, what + ": a file or folder of a format of `grapeshot list data`");
  app.add_option("--labels", options.labels,
                 "Their classes, -1 for the model's own prediction: a file [N], or a column of a "
                 "CSV file (default: those in --data, or none)")
      ->needs(data);
  describe_data(options, [&](std::string_view name, auto& member, std::string_view help) {
    add_described(app, name, member, help);
    app.get_option("--" + std::string(name))->needs(data);
  });
  return data;
}

bool labels_are_a_column(const DataOptions& options) {
  if (options.labels.empty()) return false;
  std::error_code ignored;
  const std::string path = data::find_place(options.labels).path;
  const bool is_file =
      std::filesystem::exists(path, ignored) || std::filesystem::exists(path + ".gz", ignored);
  // What looks like a file is one that is missing.
  constexpr std::string_view kEndings[] = {".npy", ".npz", ".csv", ".tsv", ".bin", ".gz", "ubyte"};
  const auto ends = [&](std::string_view ending) { return path.ends_with(ending); };
  return !is_file && path.find('/') == std::string::npos && std::ranges::none_of(kEndings, ends);
}

const std::string& labels_place(const DataOptions& options) {
  return options.labels.empty() || labels_are_a_column(options) ? options.data : options.labels;
}

data::Request request_of(const DataOptions& options) {
  data::Request out;
  if (!options.rows.empty()) {
    const std::string_view rows = options.rows;
    const size_t colon = rows.find(':');
    GRAPESHOT_CHECK(rows != ":", kInvalidArgument, "--rows: ':' names no row");
    out.begin = row_number(rows.substr(0, colon), 0, options.rows);
    out.end = colon == std::string_view::npos
                  ? out.begin + 1
                  : row_number(rows.substr(colon + 1), kMostRows, options.rows);
    GRAPESHOT_CHECK(out.begin < out.end, kInvalidArgument, "--rows: '", printable(options.rows),
                    "' names no row");
  }
  GRAPESHOT_CHECK(options.limit >= 0, kInvalidArgument, "--limit must be at least 0");
  if (options.limit > 0)
    out.end = std::min(out.end, out.begin + std::min(options.limit, kMostRows));
  if (labels_are_a_column(options)) out.label_column = options.labels;
  return out;
}

}  // namespace grapeshot::cli
