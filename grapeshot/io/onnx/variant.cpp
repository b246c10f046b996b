#include "grapeshot/io/onnx/variant.h"

#include <ATen/ATen.h>

#include "grapeshot/base/table.h"
#include "grapeshot/io/file.h"

namespace grapeshot::onnx {
namespace {

at::Tensor through_half(const at::Tensor& w) {
  return w.to(at::kHalf).to(at::kFloat);
}

at::Tensor through_bfloat16(const at::Tensor& w) {
  return w.to(at::kBFloat16).to(at::kFloat);
}

// Symmetric, one scale a tensor: whole numbers from -127 to 127.
at::Tensor through_int8(const at::Tensor& w) {
  const auto most = w.abs().max().item<double>();
  if (!(most > 0.)) return w;
  const double scale = most / 127.;
  return (w / scale).round().clamp(-127., 127.) * scale;
}

// The smallest half of its entries are 0.
at::Tensor pruned(const at::Tensor& w) {
  const int64_t half = w.numel() / 2;
  if (half == 0) return w;
  const auto least = std::get<0>(w.abs().flatten().kthvalue(half)).item<double>();
  return w.masked_fill(w.abs() <= least, 0.);
}

constexpr Variant kTable[] = {
    {"float16", "Weights rounded to float16.", through_half},
    {"bfloat16", "Weights rounded to bfloat16.", through_bfloat16},
    {"int8", "Weights as int8 with one scale a tensor.", through_int8},
    {"pruned", "The smaller half of every weight tensor set to 0.", pruned},
};

}  // namespace

std::span<const Variant> variants() {
  return kTable;
}

std::unique_ptr<OnnxModel> load_variant(const std::string& path, std::string_view variant) {
  if (variant.empty()) return load_model(path);
  const Variant& row = find_row(variants(), variant, "variant");
  Graph graph = parse_graph(read_file(path), path);
  for (auto& [name, t] : graph.constants) {
    if (t.scalar_type() == at::kFloat && t.dim() >= 2 && t.numel() > 0) t = row.weight(t);
  }
  return std::make_unique<OnnxModel>(graph);
}

}  // namespace grapeshot::onnx
