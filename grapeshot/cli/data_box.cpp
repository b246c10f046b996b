#include "grapeshot/cli/data_box.h"

#include <algorithm>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/directed.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"

namespace grapeshot::cli {

void fix(Box& box, size_t i, double x) {
  box.lo[i] = box.hi[i] = static_cast<float>(x);
  if (static_cast<double>(box.lo[i]) != x) box.nearest.push_back(static_cast<int32_t>(i));
}

DataBoxes::DataBoxes(const DataBoxOptions& options, const DataRows& rows) : rows_(rows) {
  if (!options.eps_file.empty()) read_radii(options.eps_file);
  const auto bound = [&](const std::string& list, std::string_view option) {
    return list.empty() ? at::Tensor() : rows.per_input(parse_numbers(list, option), option);
  };
  low_ = bound(options.low, "--low");
  high_ = bound(options.high, "--high");
  GRAPESHOT_CHECK(!low_.defined() || !high_.defined() || low_.le(high_).all().item<bool>(),
                  kInvalidArgument, "--low must not be above --high");
  check_rows();
}

void DataBoxes::read_radii(const std::string& place) {
  const data::DataSet set = data::read(place, {});
  std::vector<double> radii = set.values;
  if (!set.columns.empty() && !rows_.columns().empty()) {
    // By name, in whatever order.
    GRAPESHOT_CHECK(set.rows() == 1, kInvalidArgument, place, ": has ", set.rows(),
                    " rows below its names; one radius for each column is needed");
    radii.clear();
    for (const std::string& column : rows_.columns()) {
      const auto at = std::ranges::find(set.columns, column);
      GRAPESHOT_CHECK(at != set.columns.end(), kInvalidArgument, place,
                      ": has no radius for column '", printable(column), "'");
      radii.push_back(set.values[static_cast<size_t>(at - set.columns.begin())]);
    }
  }
  const bool valid = std::ranges::all_of(radii, [](double r) { return r >= 0. && r < 1e300; });
  GRAPESHOT_CHECK(valid && !radii.empty(), kInvalidArgument, place,
                  ": radii must be finite numbers of at least 0");
  radius_ = rows_.per_input(radii, place);
}

void DataBoxes::check_rows() const {
  const auto check = [&](const at::Tensor& outside, std::string_view where,
                         const at::Tensor& bound) {
    if (!outside.any().item<bool>()) return;
    const at::Tensor first = outside.nonzero()[0];
    const int64_t row = first[0].item<int64_t>(), i = first[1].item<int64_t>();
    const auto& columns = rows_.columns();
    throw Error(ErrorCode::kInvalidArgument,
                str(rows_.name(row), ": ",
                    columns.empty() ? str("input ", i)
                                    : str("column '", columns[static_cast<size_t>(i)], "'"),
                    " is ", rows_.values()[row][i].item<double>(), where, bound[i].item<double>()));
  };
  if (low_.defined()) check(rows_.values().lt(low_), ", below --low ", low_);
  if (high_.defined()) check(rows_.values().gt(high_), ", above --high ", high_);
}

Box DataBoxes::box(int64_t row, double eps) const {
  const int64_t d = rows_.values().size(1);
  const double* v = rows_.values().const_data_ptr<double>() + row * d;
  const double* x = rows_.x().const_data_ptr<double>() + row * d;
  const auto at = [](const at::Tensor& list, int64_t i, double absent) {
    return list.defined() ? list.const_data_ptr<double>()[i] : absent;
  };
  Box out;
  out.lo.resize(static_cast<size_t>(d));
  out.hi.resize(static_cast<size_t>(d));
  for (int64_t i = 0; i < d; ++i) {
    const auto index = static_cast<size_t>(i);
    const double radius = at(radius_, i, eps);
    double lo = add(v[i], -radius, Toward::kAbove), hi = add(v[i], radius, Toward::kBelow);
    lo = std::max(lo, at(low_, i, lo));
    hi = std::min(hi, at(high_, i, hi));
    if (radius == 0. || lo == hi) {
      fix(out, index, x[i]);
      continue;
    }
    out.lo[index] = rows_.lower(i, lo);
    out.hi[index] = rows_.upper(i, hi);
    out.empty = out.empty || out.lo[index] > out.hi[index];
  }
  return out;
}

}  // namespace grapeshot::cli
