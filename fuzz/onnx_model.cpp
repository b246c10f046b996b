// fuzz/onnx_model.cpp: small ONNX graphs, made into models and run.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include "fuzz/fuzz.h"
#include "grapeshot/io/onnx/graph.h"
#include "grapeshot/io/onnx/model.h"

namespace {

constexpr size_t kMaxNodes = 32;
constexpr int64_t kMaxValues = 1 << 16;  // of an input, and of all constants together

constexpr size_t kMaxTensorBytes = size_t{1} << 22;

// Refuses large tensors as a full machine does. A few bytes may ask for what the program allows,
// some 2^28 values, which takes seconds under the sanitizers and is no finding.
class SmallMachine final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    TORCH_CHECK(size <= kMaxTensorBytes, "a tensor of ", size, " bytes is too large to fuzz");
    return whole_->allocate(size);
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return whole_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }

 private:
  c10::Allocator* whole_ = c10::GetDefaultCPUAllocator();
};

bool set_up() {
  static SmallMachine machine;
  c10::SetCPUAllocator(&machine, 1);
  at::set_num_threads(1);
  return true;
}

// Whether a number may be a size, a scale or a repetition that takes long, but not so long that the
// program has to refuse it.
bool is_slow(double value) {
  return std::abs(value) > 0x1p13 && std::abs(value) < 0x1p40;
}

bool has_slow(const at::Tensor& tensor) {
  const at::Tensor size = tensor.to(at::kDouble).abs();
  return at::logical_and(size > 0x1p13, size < 0x1p40).any().item<bool>();
}

bool has_slow(const grapeshot::onnx::Node& node) {
  return std::ranges::any_of(node.attributes, [](const grapeshot::onnx::Attribute& a) {
    return is_slow(static_cast<double>(a.i)) || is_slow(a.f) ||
           std::ranges::any_of(a.ints, [](int64_t i) { return is_slow(static_cast<double>(i)); }) ||
           std::ranges::any_of(a.floats, [](float f) { return is_slow(f); }) ||
           (a.tensor.defined() && (a.tensor.numel() > kMaxValues || has_slow(a.tensor)));
  });
}

// Whether what the graph declares is small.
bool is_small(const grapeshot::onnx::Graph& graph) {
  if (graph.nodes.size() > kMaxNodes) return false;
  int64_t values = 0;
  for (const auto& [name, tensor] : graph.constants) {
    values += tensor.numel();
    if (values > kMaxValues || has_slow(tensor)) return false;
  }
  for (const auto& input : graph.inputs) {
    int64_t size = 1;
    for (const int64_t length : input.shape) {
      if (length > kMaxValues) return false;
      size *= length > 0 ? length : 1;
      if (size > kMaxValues) return false;
    }
    values += size;
  }
  return values <= kMaxValues &&
         std::ranges::none_of(graph.nodes, [](const auto& node) { return has_slow(node); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  static const bool ready = set_up();
  fuzz::require(ready, "a small machine with one thread");
  const auto graph =
      fuzz::accepted([&] { return onnx::parse_graph(fuzz::bytes(data, size), fuzz::kPath); });
  if (!graph || !is_small(*graph)) return 0;
  (void)fuzz::accepted([&] {
    const onnx::OnnxModel model(*graph);
    const at::Tensor x = at::zeros({3, model.inputs()});
    const at::Tensor y = model.forward(x, Head::kOutputs);
    fuzz::require(y.dim() == 2 && y.size(0) == 3 && y.size(1) == model.outputs(),
                  "a row of outputs for every row of inputs");
    return y;
  });
  return 0;
}
