// grapeshot/cli/other_runtime.h: ONNX Runtime as what `diff --against onnxruntime` compares with.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "grapeshot/core/model.h"
#include "grapeshot/diff/runtime_oracle.h"
#include "grapeshot/io/onnxruntime.h"

namespace grapeshot::cli {

/// As after --against, and in findings.
constexpr std::string_view kOnnxRuntime = "onnxruntime";
/// The `kind` of such a finding in finding.json.
constexpr std::string_view kRuntimes = "runtimes";

class OtherRuntime {
 public:
  /// Runs the file at `path`, absolute. Throws Error{kInvalidArgument} where there is no library,
  /// it cannot be loaded or refuses the file, and for a file of other sizes than `model`.
  OtherRuntime(const Model& model, std::string path);

  /// [n, K] float64 of x [n, D] float32: in one call where the file leaves the number of rows open
  /// and gives in a batch what it gives alone, else row by row.
  [[nodiscard]] at::Tensor outputs(const at::Tensor& x) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] const std::string& version() const { return runtime_->version(); }

 private:
  std::string path_, sha256_;
  int64_t outputs_;
  std::unique_ptr<OnnxRuntime> runtime_;
  mutable std::optional<bool> batches_;  // unknown before the first batch
};

/// What finding.json says of a disagreement.
[[nodiscard]] nlohmann::ordered_json to_json(const diff::Comparison& c, double tolerance,
                                             const OtherRuntime& other);

/// "class 3 here, class 5 in onnxruntime 1.2; the largest difference is 0.1 of the largest output".
[[nodiscard]] std::string describe(const diff::Comparison& c, const OtherRuntime& other);

}  // namespace grapeshot::cli
