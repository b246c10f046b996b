#include "grapeshot/core/memory.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/worker.h"

namespace grapeshot {
namespace {

// What torch's allocators report to a profiler of this thread.
class Meter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now_ += size;
    peak_ = std::max(peak_, now_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] int64_t peak() const { return peak_; }

 private:
  int64_t now_ = 0, peak_ = 0;
};

}  // namespace

int64_t peak_tensor_bytes(const std::function<void()>& work) {
  const auto meter = std::make_shared<Meter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
  work();
  return meter->peak();
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const OutOfMemory*>(&error) || dynamic_cast<const std::bad_alloc*>(&error) ||
      dynamic_cast<const c10::OutOfMemoryError*>(&error)) {
    return true;
  }
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  if (!torch) return false;
  const std::string_view why = torch->what_without_backtrace();
  return why.find("can't allocate memory") != why.npos || why.find("not enough memory") != why.npos;
}

std::string out_of_memory_note(const Model& model, int64_t rows) {
  return str(model.name(), ": out of memory; going on with ", rows, " rows at once");
}

int64_t bytes_per_row(const Model& model, int64_t budget) {
  constexpr int64_t kFloat = 4;
  // The row itself, its box, step, gradient, parent and best point.
  const int64_t kept = 12 * kFloat * model.inputs();
  // Forward and backward, with what a layer needs besides.
  const int64_t counted = kept + 4 * kFloat * model.activation_values();
  if (counted * micro_batch(model) <= budget / 4) return counted;
  const at::Tensor x = at::zeros({1, model.inputs()});
  const int64_t measured = peak_tensor_bytes([&] {
    (void)model.gradient(x, Head::kOutputs, Surrogate::kLoose,
                         [](const at::Tensor& y) { return at::ones_like(y); });
  });
  return std::max(kept + measured, int64_t{1});
}

int64_t rows_within(const Model& model, int64_t budget, int64_t besides) {
  const int64_t of_row = bytes_per_row(model, budget) + besides;
  return std::clamp<int64_t>(budget / of_row, 1, micro_batch(model));
}

Room share_memory(const std::vector<const Model*>& models, int64_t bytes, int64_t cores) {
  Room room;
  const int64_t half = bytes / 2;
  room.lanes = cores;
  for (const Model* model : models) {
    const int64_t fit = half / bytes_per_row(*model, half / room.lanes);
    room.lanes = std::clamp<int64_t>(fit, 1, room.lanes);
  }
  room.threads = std::max<int64_t>(cores / room.lanes, 1);
  room.corpus_bytes = half / (static_cast<int64_t>(models.size()) + room.lanes);
  room.pass_bytes = half / room.lanes;
  return room;
}

}  // namespace grapeshot
