// grapeshot/io/onnx/ops_index.cpp: operators that pick, join, pad and rearrange values.
#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/parts.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

at::Tensor index_tensor(const std::vector<int64_t>& index) {
  return at::tensor(index, at::TensorOptions(at::kLong));
}

Values concat(const Call& call) {
  const Value& first = call.in[0];
  const int64_t rank = first.rank();
  GRAPESHOT_CHECK(call.node.find("axis"), kInvalidArgument, "there is no axis");
  const int64_t axis = normal_axis(call.node.i("axis", 1), rank);
  const int64_t rows = row_count(call.in);
  if (call.planning) {
    std::vector<int64_t> sizes = first.shape().vec();
    for (const Value& v : call.in.subspan(1)) {
      if (v.t.defined() && v.rank() == rank) sizes[static_cast<size_t>(axis)] += v.size(axis);
    }
    checked_count(sizes);
  }
  std::vector<at::Tensor> parts;
  for (const Value& v : call.in) {
    GRAPESHOT_CHECK(v.t.defined() && v.rank() == rank, kInvalidArgument,
                    "the inputs have different numbers of axes");
    parts.push_back(rows < 0 ? v.t : as_rows(v, rows));
  }
  return {Value{at::cat(parts, axis + (rows >= 0)), rows >= 0}};
}

Values gather(const Call& call) {
  const Value &data = call.in[0], &index = call.in[1];
  const int64_t axis = normal_axis(call.node.i("axis", 0), data.rank());
  const at::Tensor i = wrapped(index.t, data.size(axis));
  const at::IntArrayRef before = data.shape().slice(0, static_cast<size_t>(axis)),
                        after = data.shape().slice(static_cast<size_t>(axis) + 1);
  std::vector<int64_t> sizes = before.vec();
  sizes.insert(sizes.end(), index.shape().begin(), index.shape().end());
  sizes.insert(sizes.end(), after.begin(), after.end());
  checked_count(sizes);
  if (!index.rows) {
    if (i.dim() == 0) return {Value{data.t.select(axis + data.rows, i.item<int64_t>()), data.rows}};
    const at::Tensor y = data.t.index_select(axis + data.rows, i.flatten().to(data.t.device()));
    if (data.rows) sizes.insert(sizes.begin(), data.t.size(0));
    return {Value{y.reshape(sizes), data.rows}};
  }
  // [N, A, before..., after...] at [N, M], where M counts the indices of a row.
  const int64_t n = index.t.size(0);
  const at::Tensor flat = i.reshape({n, index.t.numel() / std::max<int64_t>(n, 1)});
  const at::Tensor row = at::arange(n, flat.options()).unsqueeze(1);
  at::Tensor y = as_rows(data, n).movedim(axis + 1, 1).index({row, flat}).movedim(1, axis + 1);
  sizes.insert(sizes.begin(), n);
  return {Value{y.reshape(sizes), true}};
}

// Starts, ends, axes and steps are attributes up to opset 9, then inputs.
Values slice(const Call& call) {
  const Value& x = call.in[0];
  const bool as_attributes = call.opset < 10;
  const auto list = [&](const char* name, size_t input) {
    if (as_attributes) return call.node.ints(name, {});
    return call.has(input) ? constant_ints(call, input) : std::vector<int64_t>{};
  };
  const std::vector<int64_t> starts = list("starts", 1), ends = list("ends", 2);
  std::vector<int64_t> axes = list("axes", 3);
  const std::vector<int64_t> steps = as_attributes ? std::vector<int64_t>{} : list("steps", 4);
  for (size_t k = 0; axes.size() < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  GRAPESHOT_CHECK(starts.size() == ends.size() && axes.size() == starts.size() &&
                      (steps.empty() || steps.size() == starts.size()),
                  kInvalidArgument, "starts, ends, axes and steps have different lengths");
  at::Tensor y = x.t;
  for (size_t k = 0; k < starts.size(); ++k) {
    const int64_t axis = normal_axis(axes[k], x.rank()) + x.rows;
    const int64_t size = y.size(axis), step = steps.empty() ? 1 : steps[k];
    GRAPESHOT_CHECK(step != 0 && step != std::numeric_limits<int64_t>::min(), kInvalidArgument,
                    "a step of ", step, " is impossible");
    int64_t start = starts[k] < 0 ? starts[k] + size : starts[k];
    int64_t end = ends[k] < 0 ? ends[k] + size : ends[k];
    if (step > 0) {
      start = std::clamp<int64_t>(start, 0, size);
      y = y.slice(axis, start, std::clamp<int64_t>(end, start, size),
                  std::min(step, std::max<int64_t>(size, 1)));
      continue;
    }
    start = std::clamp<int64_t>(start, -1, size - 1);
    end = std::clamp<int64_t>(end, -1, start);
    std::vector<int64_t> index;
    for (int64_t i = start; i > end; i += std::max(step, -size)) index.push_back(i);
    y = y.index_select(axis, index_tensor(index).to(y.device()));
  }
  return {Value{y, x.rows}};
}

Values split(const Call& call) {
  const Value& x = call.in[0];
  const int64_t axis = normal_axis(call.node.i("axis", 0), x.rank()) + x.rows;
  const int64_t size = x.t.size(axis);
  std::vector<int64_t> parts = call.node.ints("split", {});
  if (call.has(1)) parts = constant_ints(call, 1);
  if (parts.empty()) {
    const int64_t outputs = static_cast<int64_t>(call.node.outputs.size());
    const int64_t n = call.node.i("num_outputs", outputs);
    GRAPESHOT_CHECK(n > 0 && n <= outputs, kInvalidArgument, "num_outputs is ", n, " of ", outputs);
    const int64_t each = (size + n - 1) / n;
    for (int64_t i = 0; i < n; ++i) {
      parts.push_back(std::clamp<int64_t>(size - i * each, 0, each));
    }
  }
  check_parts(parts, size);
  Values out;
  for (const at::Tensor& part : x.t.split_with_sizes(parts, axis)) {
    out.push_back(Value{part, x.rows});
  }
  return out;
}

// Positions -before ... size + after - 1 of an axis, mapped back into it.
std::vector<int64_t> padded_index(int64_t size, int64_t before, int64_t after,
                                  std::string_view mode) {
  GRAPESHOT_CHECK(size > 0, kInvalidArgument, "an axis without values cannot be padded by its own");
  std::vector<int64_t> out;
  for (int64_t i = -before; i < size + after; ++i) {
    if (mode == "edge") {
      out.push_back(std::clamp<int64_t>(i, 0, size - 1));
    } else {
      GRAPESHOT_CHECK(mode == "wrap" || (before < size && after < size), kInvalidArgument,
                      "an axis of ", size, " cannot be reflected by ", std::max(before, after));
      const int64_t period = mode == "wrap" ? size : std::max<int64_t>(2 * (size - 1), 1);
      const int64_t k = ((i % period) + period) % period;
      out.push_back(k < size ? k : period - k);
    }
  }
  return out;
}

Values pad(const Call& call) {
  const Value& x = call.in[0];
  const bool as_attributes = call.opset < 11;
  const std::vector<int64_t> pads =
      as_attributes ? call.node.ints("pads", {}) : constant_ints(call, 1);
  std::vector<int64_t> axes;
  if (call.has(3)) {
    axes = constant_ints(call, 3);
  } else {
    for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  GRAPESHOT_CHECK(pads.size() == 2 * axes.size(), kInvalidArgument, "there are ", pads.size(),
                  " pads for ", axes.size(), " axes");
  std::set<size_t> seen;
  std::vector<int64_t> torch_order(2 * static_cast<size_t>(x.rank()), 0), sizes = x.shape().vec();
  for (size_t k = 0; k < axes.size(); ++k) {
    constexpr int64_t kMost = int64_t{1} << 31;
    const auto axis = static_cast<size_t>(normal_axis(axes[k], x.rank()));
    const int64_t before = pads[k], after = pads[k + axes.size()];
    GRAPESHOT_CHECK(std::min(before, after) >= -kMost && std::max(before, after) <= kMost,
                    kInvalidArgument, "pads must be within +-", kMost);
    GRAPESHOT_CHECK(seen.insert(axis).second, kInvalidArgument, "axis ", axis, " is named twice");
    torch_order[2 * (sizes.size() - 1 - axis)] = before;
    torch_order[2 * (sizes.size() - 1 - axis) + 1] = after;
    sizes[axis] += before + after;
  }
  checked_count(sizes);
  const std::string_view mode = call.node.s("mode", "constant");
  if (mode == "constant") {
    at::Scalar value = as_attributes ? at::Scalar(call.node.f("value", 0.f)) : at::Scalar(0.);
    if (!as_attributes && call.has(2)) {
      GRAPESHOT_CHECK(call.in[2].t.numel() == 1, kInvalidArgument, "the value is no single number");
      // Where the value is computed, so is its gradient.
      const at::Tensor& number = call.in[2].t;
      if (c10::GradMode::is_enabled() && number.requires_grad()) {
        const at::Tensor inside = at::constant_pad_nd(at::ones_like(x.t), torch_order);
        const at::Tensor y = at::constant_pad_nd(x.t, torch_order);
        return {Value{y + (1 - inside) * number.reshape({}), x.rows}};
      }
      value = number.item();
    }
    return {Value{at::constant_pad_nd(x.t, torch_order, value), x.rows}};
  }
  GRAPESHOT_CHECK(mode == "reflect" || mode == "edge" || mode == "wrap", kUnsupported, "mode is '",
                  mode, "'");
  at::Tensor y = x.t;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const auto k = 2 * static_cast<size_t>(x.rank() - 1 - axis);
    if (torch_order[k] == 0 && torch_order[k + 1] == 0) continue;
    const std::vector<int64_t> index =
        padded_index(x.size(axis), torch_order[k], torch_order[k + 1], mode);
    y = y.index_select(axis + x.rows, index_tensor(index).to(y.device()));
  }
  return {Value{y, x.rows}};
}

Values tile(const Call& call) {
  const Value& x = call.in[0];
  std::vector<int64_t> repeats = constant_ints(call, 1);
  GRAPESHOT_CHECK(static_cast<int64_t>(repeats.size()) == x.rank(), kInvalidArgument, "there are ",
                  repeats.size(), " repeats for ", x.rank(), " axes");
  checked_count(repeats);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    sizes.push_back(repeats[static_cast<size_t>(i)]);
    sizes.push_back(x.size(i));
  }
  checked_count(sizes);
  if (x.rows) repeats.insert(repeats.begin(), 1);
  return {Value{x.t.repeat(repeats), x.rows}};
}

Values one_hot(const Call& call) {
  const Value& index = call.in[0];
  const auto depth = constant_integer(call, 1);
  const at::Tensor& values = call.in[2].t;
  GRAPESHOT_CHECK(values.numel() == 2, kInvalidArgument, "the values are ", values.numel(),
                  ", not off and on");
  const int64_t axis = normal_axis(call.node.i("axis", -1), index.rank() + 1);
  std::vector<int64_t> sizes = index.shape().vec(), along(sizes.size() + 1, 1);
  sizes.push_back(depth);
  checked_count(sizes);
  along[static_cast<size_t>(axis)] = depth;
  const at::Tensor i = wrapped(index.t, depth).unsqueeze(axis + index.rows);
  const at::Tensor hot = i == at::arange(depth, i.options()).reshape(along);
  const at::Tensor flat = values.flatten();
  return {Value{at::where(hot, flat[1], flat[0]), index.rows}};
}

Values trilu(const Call& call) {
  const Value& x = call.in[0];
  const int64_t k = call.has(1) ? constant_integer(call, 1) : 0;
  GRAPESHOT_CHECK(x.rank() >= 2, kInvalidArgument, "the input has fewer than two axes");
  const bool upper = call.node.i("upper", 1) != 0;
  return {Value{upper ? at::triu(x.t, k) : at::tril(x.t, k), x.rows}};
}

// [N, C, H, W] <-> [N, C / b^2, H b, W b].
Values depth_to_space(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const int64_t b = call.node.i("blocksize", 0);
  GRAPESHOT_CHECK(x.dim() == 4 && b > 0 && b < (1 << 15) && x.size(1) % (b * b) == 0,
                  kInvalidArgument, "blocksize ", b, " does not fit a shape of ", x.sizes());
  const int64_t n = x.size(0), c = x.size(1) / (b * b), h = x.size(2), w = x.size(3);
  const bool depth_first = call.node.s("mode", "DCR") == "DCR";
  const at::Tensor y = depth_first ? x.reshape({n, b, b, c, h, w}).permute({0, 3, 4, 1, 5, 2})
                                   : x.reshape({n, c, b, b, h, w}).permute({0, 1, 4, 2, 5, 3});
  return {unfold_rows(y.reshape({n, c, h * b, w * b}), call.in[0])};
}

Values space_to_depth(const Call& call) {
  const at::Tensor x = fold_rows(call.in[0]);
  const int64_t b = call.node.i("blocksize", 0);
  GRAPESHOT_CHECK(x.dim() == 4 && b > 0 && x.size(2) % b == 0 && x.size(3) % b == 0,
                  kInvalidArgument, "blocksize ", b, " does not fit a shape of ", x.sizes());
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2) / b, w = x.size(3) / b;
  const at::Tensor y = x.reshape({n, c, h, b, w, b}).permute({0, 3, 5, 1, 2, 4});
  return {unfold_rows(y.reshape({n, c * b * b, h, w}), call.in[0])};
}

constexpr Operator kTable[] = {
    {"Concat", 4, 1, kEveryInput, "Tensors one after the other along an axis.", concat},
    {"DepthToSpace", 1, 1, kFirstInput, "Channels to blocks of pixels.", depth_to_space},
    {"Gather", 1, 2, kEveryInput, "Slices along an axis by index.", gather},
    {"OneHot", 9, 3, kFirstInput, "Indices as vectors of off and one on.", one_hot},
    {"Pad", 2, 1, kFirstInput, "Padding: constant, reflect, edge or wrap.", pad},
    {"Slice", 1, 1, kFirstInput, "Ranges along axes, any step.", slice},
    {"SpaceToDepth", 1, 1, kFirstInput, "Blocks of pixels to channels.", space_to_depth},
    {"Split", 2, 1, kFirstInput, "Parts along an axis.", split},
    {"Tile", 6, 2, kFirstInput, "Repeated along its axes.", tile},
    {"Trilu", 14, 1, kFirstInput, "The upper or lower triangle of matrices.", trilu},
};

}  // namespace

std::span<const Operator> index_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
