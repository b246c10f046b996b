#include "grapeshot/cli/data_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <ATen/ATen.h>

#include "grapeshot/base/directed.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"

namespace grapeshot::cli {
namespace {

using data::Layout;
using Shape = std::vector<int64_t>;

std::string text(const Shape& shape) {
  std::string out;
  for (const int64_t size : shape) out += str(out.empty() ? "" : " x ", size);
  return out;
}

// The axes of an image, if it can be one: without axes of size 1 in front of three.
Shape image_axes(Shape shape) {
  while (shape.size() > 3 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

Shape channels_first(const Shape& s) {
  return {s[2], s[0], s[1]};
}

Shape channels_last(const Shape& s) {
  return {s[1], s[2], s[0]};
}

Layout parse_layout(const std::string& name) {
  if (name.empty()) return Layout::kUnknown;
  if (name == "NCHW") return Layout::kNchw;
  GRAPESHOT_CHECK(name == "NHWC", kInvalidArgument, "--layout: '", printable(name),
                  "' is neither NCHW nor NHWC");
  return Layout::kNhwc;
}

}  // namespace

std::vector<double> parse_numbers(const std::string& text, std::string_view option) {
  std::vector<double> out;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    double value = 0.;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, value);
    GRAPESHOT_CHECK(error == std::errc{} && stop == rest.data() + end && std::isfinite(value),
                    kInvalidArgument, option, ": '", printable(text),
                    "' is not a list of numbers joined by commas");
    out.push_back(value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

std::vector<int64_t> labels_of(const DataRows& rows, const DataOptions& options, int64_t outputs) {
  std::vector<int64_t> labels = rows.labels();
  if (labels.empty()) labels.assign(static_cast<size_t>(rows.size()), -1);
  for (const int64_t label : labels) {
    GRAPESHOT_CHECK(label >= -1 && label < outputs, kInvalidArgument, labels_place(options), ": ",
                    label, " is not a label from 0 to ", outputs - 1, ", nor -1 for none");
  }
  return labels;
}

DataRows::DataRows(const DataOptions& options, const Model& model) : place_(options.data) {
  const data::Request request = request_of(options);
  data::DataSet set = data::read(options.data, request, options.format);
  GRAPESHOT_CHECK(set.rows() > 0 || request.begin == 0, kInvalidArgument, place_, ": has no row ",
                  request.begin);
  const auto size = static_cast<int64_t>(set.values.size());
  if (set.rows() * model.inputs() != size && size == model.inputs()) {
    set.shape.insert(set.shape.begin(), 1);  // a row without an axis of rows
  }
  place(set, options, model);
  const auto n = static_cast<int64_t>(set.rows());
  values_ =
      in_network_order(at::from_blob(set.values.data(), {n, model.inputs()}, at::kDouble).clone());
  first_ = set.first;
  normalise(options);
  read_labels(set, options, request);
  columns_ = std::move(set.columns);
  names_ = std::move(set.names);
}

// Whether the rows are inputs of the network, and in which order.
void DataRows::place(const data::DataSet& set, const DataOptions& options, const Model& model) {
  const auto size = static_cast<int64_t>(set.values.size());
  const int64_t d = model.inputs(), n = set.rows();
  inner_.assign(set.shape.begin() + 1, set.shape.end());
  layout_ = parse_layout(options.layout);
  GRAPESHOT_CHECK(
      set.layout == Layout::kUnknown || layout_ == Layout::kUnknown || set.layout == layout_,
      kInvalidArgument, "--layout: ", place_, " is ", set.layout == Layout::kNchw ? "NCHW" : "NHWC",
      " by its format");
  if (layout_ == Layout::kUnknown) layout_ = set.layout;
  const Shape network = image_axes(model.input_shape());
  if (layout_ != Layout::kUnknown) {
    place_image(set, layout_, network, model);
    return;
  }
  if (!set.columns.empty()) {
    std::string names;
    for (const std::string& each : set.columns) names += str(names.empty() ? "" : ", ", each);
    const bool labelled = !set.labels.empty();
    GRAPESHOT_CHECK(std::ssize(set.columns) == d, kInvalidArgument, place_, ": has ",
                    set.columns.size(), labelled ? " columns besides the label (" : " columns (",
                    printable(names, 200), "), ", model.name(), " has ", d,
                    labelled ? " inputs" : " inputs; --labels names a column that is none");
  }
  GRAPESHOT_CHECK(n * d == size, kInvalidArgument, place_, ": ", size, " values in ", n,
                  n == 1 ? " row; " : " rows; ", model.name(), " has ", d, " inputs a row");
  const Shape own = image_axes(inner_);
  if (own.size() != 3 || network.size() != 3 || own == network) return;
  // The same numbers in another order would be read as another image.
  const bool turned = (channels_first(own) == network && own[2] > 1) ||
                      (channels_last(own) == network && own[0] > 1);
  GRAPESHOT_CHECK(!turned, kInvalidArgument, place_, ": its rows are ", text(own), ", ",
                  model.name(), " takes ", text(network),
                  "; say by --layout whether the data are NCHW or NHWC");
}

void DataRows::place_image(const data::DataSet& set, Layout layout, const Shape& network,
                           const Model& model) {
  const Shape own = image_axes(inner_);
  GRAPESHOT_CHECK(own.size() == 3, kInvalidArgument, "--layout: rows of ", place_, " are ",
                  text(own), ", no images of three axes");
  inner_ = own;
  const Shape first = layout == Layout::kNchw ? own : channels_first(own);
  const Shape last = channels_last(first);
  const bool flat = network.size() < 3;  // by convention as NCHW, which convolutions take
  const bool as_first = flat ? first[0] * first[1] * first[2] == model.inputs() : first == network;
  GRAPESHOT_CHECK(as_first || last == network, kInvalidArgument, place_,
                  set.names.empty() ? "" : str(": ", set.names[0]), ": is ", last[0], " x ",
                  last[1], " pixels of ", last[2], last[2] == 1 ? " channel; " : " channels; ",
                  model.name(), " takes ", text(flat ? model.input_shape() : network),
                  "; images are neither resized nor converted");
  if (layout == Layout::kNhwc && as_first) turn_ = Turn::kToNchw;
  if (layout == Layout::kNchw && !as_first) turn_ = Turn::kToNhwc;
}

at::Tensor DataRows::in_network_order(const at::Tensor& rows) const {
  if (turn_ == Turn::kNone) return rows;
  const at::Tensor images = rows.reshape({rows.size(0), inner_[0], inner_[1], inner_[2]});
  const at::Tensor turned =
      turn_ == Turn::kToNchw ? images.permute({0, 3, 1, 2}) : images.permute({0, 2, 3, 1});
  return turned.reshape({rows.size(0), -1}).contiguous();
}

at::Tensor DataRows::in_data_order(const at::Tensor& row) const {
  if (turn_ == Turn::kToNchw) {
    return row.reshape({inner_[2], inner_[0], inner_[1]}).permute({1, 2, 0}).contiguous();
  }
  if (turn_ == Turn::kToNhwc) {
    return row.reshape({inner_[1], inner_[2], inner_[0]}).permute({2, 0, 1}).contiguous();
  }
  return row.reshape(inner_).contiguous();
}

at::Tensor DataRows::per_input(const std::vector<double>& numbers, std::string_view option) const {
  const auto count = std::ssize(numbers);
  const int64_t d = values_.size(1);
  const at::Tensor given = at::tensor(numbers, at::kDouble);
  if (count == 1) return given.expand({d}).contiguous();
  if (count == d) return in_network_order(given.unsqueeze(0)).squeeze(0);
  const Shape own = image_axes(inner_);
  bool first = layout_ == Layout::kNchw, last = layout_ == Layout::kNhwc;
  if (layout_ == Layout::kUnknown && own.size() == 3) {
    first = own[0] == count;
    last = own[2] == count;
    GRAPESHOT_CHECK(!(first && last), kInvalidArgument, option, ": the first axis of ", place_,
                    " has ", count,
                    " entries and the last one too; --layout says which are "
                    "channels");
  }
  const bool fits = (first && own[0] == count) || (last && own[2] == count);
  GRAPESHOT_CHECK(fits, kInvalidArgument, option, ": ", count, " numbers; one, or one for each of ",
                  d, " inputs or each channel of ", place_, " is needed");
  const at::Tensor shaped = given.view(first ? Shape{-1, 1, 1} : Shape{1, 1, -1});
  return in_network_order(shaped.expand(own).reshape({1, d})).squeeze(0);
}

void DataRows::normalise(const DataOptions& options) {
  const auto numbers = [&](const std::string& list, std::string_view option, double absent) {
    return per_input(list.empty() ? std::vector<double>{absent} : parse_numbers(list, option),
                     option);
  };
  GRAPESHOT_CHECK(options.scale > 0. && std::isfinite(options.scale), kInvalidArgument,
                  "--data-scale must be a finite number above 0");
  const at::Tensor mean = numbers(options.mean, "--mean", 0.);
  const at::Tensor std = numbers(options.std, "--std", 1.);
  GRAPESHOT_CHECK(std.gt(0.).all().item<bool>(), kInvalidArgument,
                  "--std: all numbers must be above 0");
  x_ = values_;
  if (options.scale == 1. && mean.eq(0.).all().item<bool>() && std.eq(1.).all().item<bool>()) {
    return;
  }
  scale_ = options.scale;
  mean_ = mean;
  std_ = std;
  x_ = (values_ / scale_ - mean_) / std_;
}

void DataRows::read_labels(const data::DataSet& set, const DataOptions& options,
                           const data::Request& request) {
  labels_ = set.labels;
  if (options.labels.empty()) return;
  if (request.label_column.empty()) {
    labels_ = data::read_labels(options.labels, set, request);
    return;
  }
  GRAPESHOT_CHECK(!set.columns.empty(), kNotFound, options.labels,
                  ": no such file, and no column of ", place_, ", which is no table");
}

float DataRows::lower(int64_t i, double v) const {
  if (!same_units()) {
    v = add(divide(v, scale_, Toward::kAbove), -mean_.const_data_ptr<double>()[i], Toward::kAbove);
    v = divide(v, std_.const_data_ptr<double>()[i], Toward::kAbove);
  }
  return to_float(v, Toward::kAbove);
}

float DataRows::upper(int64_t i, double v) const {
  if (!same_units()) {
    v = add(divide(v, scale_, Toward::kBelow), -mean_.const_data_ptr<double>()[i], Toward::kBelow);
    v = divide(v, std_.const_data_ptr<double>()[i], Toward::kBelow);
  }
  return to_float(v, Toward::kBelow);
}

std::optional<double> DataRows::common_step() const {
  if (same_units()) return 1.;
  const bool common = mean_.eq(mean_[0]).all().item<bool>() && std_.eq(std_[0]).all().item<bool>();
  return common ? std::optional(1. / (scale_ * std_[0].item<double>())) : std::nullopt;
}

at::Tensor DataRows::to_data(const at::Tensor& x) const {
  const at::Tensor exact = x.to(at::kDouble);
  return same_units() ? exact : (exact * std_ + mean_) * scale_;
}

std::string DataRows::name(int64_t row) const {
  const std::string file = std::filesystem::path(place_).filename().string();
  if (!names_.empty()) return names_[static_cast<size_t>(row)];
  return str(file, "[", number(row), "]");
}

}  // namespace grapeshot::cli
