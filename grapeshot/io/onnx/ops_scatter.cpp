// grapeshot/io/onnx/ops_scatter.cpp: reading and writing at places that a tensor names.
#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

// Index tensors [B, M] for data [B, sizes...] and indices [B, M, k].
std::vector<at::Tensor> places(const at::Tensor& data, const at::Tensor& index) {
  std::vector<at::Tensor> out = {
      at::arange(index.size(0), at::TensorOptions(at::kLong)).unsqueeze(1)};
  for (int64_t k = 0; k < index.size(2); ++k) {
    out.push_back(wrapped(index.select(2, k), data.size(k + 1)));
  }
  return out;
}

c10::List<std::optional<at::Tensor>> optional_list(const std::vector<at::Tensor>& tensors) {
  c10::List<std::optional<at::Tensor>> out;
  for (const at::Tensor& t : tensors) out.push_back(t);
  return out;
}

std::string_view torch_reduction(std::string_view reduction) {
  const std::string_view name = reduction == "add"   ? "sum"
                                : reduction == "mul" ? "prod"
                                : reduction == "max" ? "amax"
                                : reduction == "min" ? "amin"
                                                     : "";
  GRAPESHOT_CHECK(!name.empty(), kUnsupported, "reduction is '", reduction, "'");
  return name;
}

Values gather_nd(const Call& call) {
  const Batch batch(call);
  const at::Tensor &data = batch.in[0], &index = batch.in[1];
  const int64_t shared = call.node.i("batch_dims", 0) + 1;
  GRAPESHOT_CHECK(shared >= 1 && index.dim() > shared && data.dim() > shared, kInvalidArgument,
                  "batch_dims is ", shared - 1, " for indices of rank ", index.dim() - 1);
  const int64_t k = index.size(-1);
  GRAPESHOT_CHECK(k + shared <= data.dim(), kInvalidArgument, "an index has ", k, " entries for ",
                  data.dim() - shared, " axes");
  const int64_t b = product(index.sizes().slice(0, static_cast<size_t>(shared)));
  std::vector<int64_t> sizes = index.sizes().vec();
  sizes.pop_back();
  const auto rest = data.sizes().slice(static_cast<size_t>(shared + k));
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  checked_count(sizes);
  const at::Tensor flat = shared > 1 ? data.flatten(0, shared - 1) : data;
  const int64_t m = index.numel() / std::max<int64_t>(b * k, 1);
  const auto where = optional_list(places(flat, index.reshape({b, m, k})));
  return {batch.value(at::index(flat, where).reshape(sizes))};
}

Values scatter_nd(const Call& call) {
  const Batch batch(call);
  const at::Tensor &data = batch.in[0], &index = batch.in[1], &updates = batch.in[2];
  const std::string_view reduction = call.node.s("reduction", "none");
  GRAPESHOT_CHECK(index.dim() >= 2, kInvalidArgument, "the indices have no axis");
  const int64_t b = data.size(0), k = index.size(-1);
  GRAPESHOT_CHECK(k + 1 <= data.dim(), kInvalidArgument, "an index has ", k, " entries for ",
                  data.dim() - 1, " axes");
  const int64_t m = product(index.sizes().slice(1, static_cast<size_t>(index.dim() - 2)));
  std::vector<int64_t> sizes = {b, m};
  const auto rest = data.sizes().slice(static_cast<size_t>(k + 1));
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  const std::vector<at::Tensor> at = places(data, index.reshape({b, m, k}));
  if (reduction == "none") {
    return {batch.value(at::index_put(data, optional_list(at), updates.reshape(sizes)))};
  }
  // The indexed axes as one, the rest as another.
  at::Tensor place = at::zeros({b, m}, at.back().options());
  for (int64_t i = 0; i < k; ++i) place = place * data.size(i + 1) + at[static_cast<size_t>(i) + 1];
  const int64_t width = product(rest);
  const at::Tensor flat = data.reshape({b, data.numel() / std::max<int64_t>(b * width, 1), width});
  const at::Tensor y =
      at::scatter_reduce(flat, 1, place.unsqueeze(2).expand({b, m, width}),
                         updates.reshape({b, m, width}), torch_reduction(reduction));
  return {batch.value(y.reshape(data.sizes()))};
}

Values gather_elements(const Call& call) {
  const Batch batch(call);
  const int64_t axis = normal_axis(call.node.i("axis", 0), batch.in[0].dim() - 1) + 1;
  const at::Tensor index = wrapped(batch.in[1], batch.in[0].size(axis));
  return {batch.value(at::gather(batch.in[0], axis, index))};
}

Values scatter_elements(const Call& call) {
  const Batch batch(call);
  const at::Tensor &data = batch.in[0], &updates = batch.in[2];
  const int64_t axis = normal_axis(call.node.i("axis", 0), data.dim() - 1) + 1;
  const at::Tensor index = wrapped(batch.in[1], data.size(axis));
  const std::string_view reduction = call.node.s("reduction", "none");
  if (reduction == "none") return {batch.value(at::scatter(data, axis, index, updates))};
  return {batch.value(at::scatter_reduce(data, axis, index, updates, torch_reduction(reduction)))};
}

constexpr Operator kTable[] = {
    {"GatherElements", 11, 2, kEveryInput, "Values along an axis by an index each.",
     gather_elements},
    {"GatherND", 11, 2, kEveryInput, "Slices by index vectors.", gather_nd},
    {"Scatter", 9, 3, kEveryInput, "ScatterElements, as it was called up to opset 10.",
     scatter_elements},
    {"ScatterElements", 11, 3, kEveryInput, "Values written along an axis by an index each.",
     scatter_elements},
    {"ScatterND", 11, 3, kEveryInput,
     "Slices written by index vectors, or joined with what is there.", scatter_nd},
};

}  // namespace

std::span<const Operator> scatter_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
