// grapeshot/cli/data_rows.h: rows of a data set as a network takes them, and the way back.
//
// Shapes: N rows, D inputs of the network, in its order. Units: *data units* are the numbers of the
// file, *network units* are (value / scale - mean) / std of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/cli/data_options.h"
#include "grapeshot/core/model.h"

namespace grapeshot::cli {

class DataRows {
 public:
  /// Reads the wanted rows. A file without an axis of rows is a single row. NaN and infinity pass.
  /// Throws Error naming the file that is malformed, or whose rows `model` does not take: images
  /// are turned from NCHW to NHWC and back, but neither resized nor converted.
  DataRows(const DataOptions& options, const Model& model);

  [[nodiscard]] int64_t size() const { return values_.size(0); }
  /// float64 [N, D] in data units; in network units.
  [[nodiscard]] const at::Tensor& values() const { return values_; }
  [[nodiscard]] const at::Tensor& x() const { return x_; }
  /// [N], or none: of --labels or of the data set itself. -1 is none as well.
  [[nodiscard]] const std::vector<int64_t>& labels() const { return labels_; }
  /// Names of the D inputs, or none.
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  /// "x.npy[12]"; of images their path below the folder.
  [[nodiscard]] std::string name(int64_t row) const;
  /// The number in the file, of row 0, 1, ... here.
  [[nodiscard]] int64_t number(int64_t row) const { return first_ + row; }

  /// Whether network units and order are the data's.
  [[nodiscard]] bool plain() const { return same_units() && turn_ == Turn::kNone; }
  [[nodiscard]] bool same_units() const { return !mean_.defined(); }
  /// Network units of data value `v` of input `i`, rounded up (down): the bounds of a box are
  /// rounded inwards.
  [[nodiscard]] float lower(int64_t i, double v) const;
  [[nodiscard]] float upper(int64_t i, double v) const;
  /// Network units of one data unit, where it is the same for all inputs and offsets are too.
  [[nodiscard]] std::optional<double> common_step() const;
  /// Data units of inputs [..., D] of the network; float64, in the network's order.
  [[nodiscard]] at::Tensor to_data(const at::Tensor& x) const;
  /// Rows [n, D] in the data's order as the network takes them.
  [[nodiscard]] at::Tensor in_network_order(const at::Tensor& rows) const;
  /// The inputs `row` [D] in the data's order and shape.
  [[nodiscard]] at::Tensor in_data_order(const at::Tensor& row) const;

  /// [D] float64 in the network's order, of one number, one for each channel or one for each input
  /// of the data. Throws Error{kInvalidArgument} naming `option` for other counts.
  [[nodiscard]] at::Tensor per_input(const std::vector<double>& numbers,
                                     std::string_view option) const;

 private:
  enum class Turn { kNone, kToNchw, kToNhwc };

  void place(const data::DataSet& set, const DataOptions& options, const Model& model);
  void place_image(const data::DataSet& set, data::Layout layout,
                   const std::vector<int64_t>& network, const Model& model);
  void normalise(const DataOptions& options);
  void read_labels(const data::DataSet& set, const DataOptions& options,
                   const data::Request& request);

  std::string place_;
  std::vector<int64_t> inner_;  ///< shape of a row of the data
  data::Layout layout_ = data::Layout::kUnknown;
  Turn turn_ = Turn::kNone;
  at::Tensor values_, x_;
  double scale_ = 1.;
  at::Tensor mean_, std_;  ///< [D] in the network's order; undefined: 0 and 1, scale 1
  std::vector<int64_t> labels_;
  std::vector<std::string> columns_, names_;
  int64_t first_ = 0;
};

/// The labels of all rows, -1 where there is none. Throws Error{kInvalidArgument} naming the file
/// for one that is no output of `outputs`.
[[nodiscard]] std::vector<int64_t> labels_of(const DataRows& rows, const DataOptions& options,
                                             int64_t outputs);

/// "0.5,0.25" as numbers; throws Error{kInvalidArgument} naming `option` for anything else.
[[nodiscard]] std::vector<double> parse_numbers(const std::string& text, std::string_view option);

}  // namespace grapeshot::cli
