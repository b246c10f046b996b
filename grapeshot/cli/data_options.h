// grapeshot/cli/data_options.h: --data and what goes with it, the same for every command that reads
// inputs.
#pragma once

#include <cstdint>
#include <string>

#include "grapeshot/io/data/data.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace grapeshot::cli {

struct DataOptions {
  std::string data, labels;  ///< places (io/data/data.h); labels may be a column of data's
  std::string format, layout, rows;
  int64_t limit = 0;
  double scale = 1.;
  std::string mean, std;  ///< numbers joined by commas
};

/// As core/options.h has it; without the two files.
template <class Options, class Visitor>
void describe_data(Options& options, Visitor&& visit) {
  visit("format", options.format,
        "What --data is in (grapeshot list data), where content and name do not say it");
  visit("layout", options.layout,
        "Axes of the images of --data, NCHW or NHWC, where the format does not say it: they are "
        "turned to the network's");
  visit("rows", options.rows, "Rows of --data, as 10:50 (10 to 49), 10:, :50 or 10");
  visit("limit", options.limit, "The first so many of these rows (0: all)");
  visit("data-scale", options.scale,
        "The network takes (value / data-scale - mean) / std; all other options are in the values "
        "of the file");
  visit("mean", options.mean,
        "One number, or one for each channel or input, joined by commas, after --data-scale");
  visit("std", options.std, "The same");
}

/// Declares --data, --labels and the rest; returns --data.
CLI::Option* add_data_options(CLI::App& app, DataOptions& options, const std::string& what);

/// The rows that are wanted, and the column of labels. Throws Error{kInvalidArgument} for --rows
/// and --limit that say none.
[[nodiscard]] data::Request request_of(const DataOptions& options);

/// The file that the labels are in.
[[nodiscard]] const std::string& labels_place(const DataOptions& options);

/// Whether --labels names a column of --data: there is no such file.
[[nodiscard]] bool labels_are_a_column(const DataOptions& options);

}  // namespace grapeshot::cli
