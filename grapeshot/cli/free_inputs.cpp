#include "grapeshot/cli/free_inputs.h"

#include <algorithm>
#include <string>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/io/npy.h"

namespace grapeshot::cli {
namespace {

// A box without width; float32 is what the network gets.
void fix(Box& box, size_t i, double x) {
  box.lo[i] = box.hi[i] = static_cast<float>(x);
  if (static_cast<double>(box.lo[i]) != x) box.nearest.push_back(static_cast<int32_t>(i));
}

bool is_bit(double v) {
  return v == 0. || v == 1.;
}

}  // namespace

FreeInputs::FreeInputs(const ProblemFiles& files, const Model& model, int64_t rows)
    : files_(files), inputs_(model.inputs()) {
  if (!files.frozen.empty()) {
    const NpyArray given = read_npy(files.frozen);
    const auto size = static_cast<int64_t>(given.values.size());
    GRAPESHOT_CHECK(size == inputs_ || size == rows * inputs_, kInvalidArgument, files.frozen, ": ",
                    size, " values; one for each of ", inputs_, " inputs, or of ", rows,
                    " rows of them, are needed");
    GRAPESHOT_CHECK(std::ranges::all_of(given.values, is_bit), kInvalidArgument, files.frozen,
                    ": holds other values than 0 (free) and 1 (frozen)");
    frozen_.assign(given.values.begin(), given.values.end());
  }
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
