#include "grapeshot/cli/free_inputs.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/data_box.h"
#include "grapeshot/cli/open_model.h"

namespace grapeshot::cli {
namespace {

bool is_bit(double v) {
  return v == 0. || v == 1.;
}

}  // namespace

std::vector<uint8_t> read_frozen(const std::string& frozen, const DataRows& rows) {
  const int64_t d = rows.values().size(1);
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(data::find_place(frozen).path, ignored) ||
                       std::filesystem::exists(frozen + ".gz", ignored);
  std::vector<uint8_t> out;
  if (!is_file && !rows.columns().empty()) {
    out.assign(static_cast<size_t>(d), 0);
    for (const std::string_view name : split_at(',', frozen)) {
      const auto at = std::ranges::find(rows.columns(), name);
      GRAPESHOT_CHECK(at != rows.columns().end(), kNotFound, "--frozen: '", printable(name),
                      "' is no column of the data, and '", printable(frozen), "' no file");
      out[static_cast<size_t>(at - rows.columns().begin())] = 1;
    }
    return out;
  }
  const data::DataSet given = data::read(frozen, {});
  const auto size = static_cast<int64_t>(given.values.size());
  GRAPESHOT_CHECK(size == d || size == rows.size() * d, kInvalidArgument, frozen, ": ", size,
                  " values; one for each of ", d, " inputs, or of ", rows.size(),
                  " rows of them, are needed");
  GRAPESHOT_CHECK(std::ranges::all_of(given.values, is_bit), kInvalidArgument, frozen,
                  ": holds other values than 0 (free) and 1 (frozen)");
  const at::Tensor bits =
      rows.in_network_order(at::tensor(given.values, at::kDouble).view({-1, d}));
  out.assign(bits.const_data_ptr<double>(), bits.const_data_ptr<double>() + bits.numel());
  return out;
}

FreeInputs::FreeInputs(const ProblemFiles& files, const Model& model, const DataRows& rows)
    : files_(files), inputs_(model.inputs()) {
  if (!files.frozen.empty()) frozen_ = read_frozen(files.frozen, rows);
  if (!files.mask.empty()) find_mask(need_onnx(model, "--mask"));
}

void FreeInputs::find_mask(const onnx::OnnxModel& model) {
  const std::vector<onnx::PortSlice>& inputs = model.network().inputs;
  std::string known;
  for (const onnx::PortSlice& each : inputs) known += str(known.empty() ? "" : ", ", each.name);
  const auto mask = std::ranges::find(inputs, files_.mask, &onnx::PortSlice::name);
  GRAPESHOT_CHECK(mask != inputs.end(), kInvalidArgument, model.name(), ": has no input '",
                  files_.mask, "', which --mask names; its inputs: ", known);
  GRAPESHOT_CHECK(mask->size > 0, kInvalidArgument, model.name(), ": its input '", files_.mask,
                  "', which --mask names, is empty");
  bits_begin_ = mask->begin;
  bits_ = mask->size;
  for (const onnx::PortSlice& each : inputs) {
    const bool begins = each.shape.size() >= mask->shape.size() &&
                        std::equal(mask->shape.begin(), mask->shape.end(), each.shape.begin());
    if (each.name != mask->name && begins) covered_.push_back({each.begin, each.size / bits_});
  }
  GRAPESHOT_CHECK(!covered_.empty(), kInvalidArgument, model.name(), ": --mask ", files_.mask,
                  ": no other input has a shape that begins with that of the mask, so that its ",
                  bits_, " bits belong to no tokens");
}

void FreeInputs::restrict(int64_t row, std::span<const double> x, Box& box) const {
  std::vector<bool> fixed(x.size(), false);
  const size_t from = std::ssize(frozen_) > inputs_ ? static_cast<size_t>(row) * x.size() : 0;
  for (size_t i = 0; i < x.size() && !frozen_.empty(); ++i) fixed[i] = frozen_[from + i] != 0;
  int64_t there = 0;
  std::vector<int32_t> droppable;
  for (int64_t t = 0; t < bits_; ++t) {
    const auto bit = static_cast<size_t>(bits_begin_ + t);
    GRAPESHOT_CHECK(is_bit(x[bit]), kInvalidArgument, files_.data, ": row ", row, ": bit ", t,
                    " of the mask '", files_.mask, "' is ", x[bit], ", neither 0 nor 1");
    if (x[bit] == 1.) {
      ++there;
      if (!fixed[bit]) droppable.push_back(static_cast<int32_t>(bit));
    } else {
      for (const Covered& each : covered_) {
        const auto begin = fixed.begin() + each.begin + t * each.per_token;
        std::fill_n(begin, each.per_token, true);
      }
    }
    fixed[bit] = true;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (fixed[i]) fix(box, i, x[i]);
  }
  box.empty = false;
  for (size_t i = 0; i < x.size(); ++i) box.empty = box.empty || box.lo[i] > box.hi[i];
  box.most_dropped = std::clamp<int64_t>(there - 1, 0, files_.drop);
  if (box.most_dropped > 0) box.droppable = std::move(droppable);
}

}  // namespace grapeshot::cli
