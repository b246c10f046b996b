// grapeshot/io/onnxruntime.h: a network run by ONNX Runtime, when its library is there.
//
// The library is loaded at run time from the wheel or wherever it is installed: nothing is needed
// to build, and Python is never started. Only the C interface's function table is used, whose
// entries keep their places from version to version.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace grapeshot {

/// The library to load: $GRAPESHOT_ONNXRUNTIME if set, else the newest
/// onnxruntime/capi/libonnxruntime.so* beside LibTorch's own wheel, in $VIRTUAL_ENV or on the
/// loader's path; empty when there is none.
[[nodiscard]] std::string find_onnxruntime();

/// One model on the CPU with one thread and default optimisations. Thread-safe.
class OnnxRuntime {
 public:
  /// `path` is an ONNX file, or one that gzip has packed; where there are `bytes`, they are the
  /// model and `path` is for messages. Throws Error{kSystem} when `library` cannot be loaded,
  /// kInvalidArgument with ONNX Runtime's own words when it refuses the model.
  OnnxRuntime(const std::string& library, const std::string& path, std::string_view bytes = {});
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  /// All outputs, flat, in the file's order, for one flat input row, several inputs one after the
  /// other in the file's order; symbolic sizes are 1. Outputs are float32 or whole numbers.
  /// Several `rows` one after the other: only where takes_batches().
  [[nodiscard]] std::vector<double> run(std::span<const float> x, int64_t rows = 1) const;

  /// Whether it has one input and one output, and how many rows the input has is left open.
  [[nodiscard]] bool takes_batches() const;
  /// Of one row, all together.
  [[nodiscard]] int64_t inputs() const;
  [[nodiscard]] const std::string& version() const { return version_; }

 private:
  struct Session;
  std::unique_ptr<Session> session_;
  std::string name_, version_;
};

}  // namespace grapeshot
