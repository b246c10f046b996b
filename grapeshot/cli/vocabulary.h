// grapeshot/cli/vocabulary.h: words for what a finding does to embeddings: --vocabulary, --words.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "grapeshot/core/property.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {

class Vocabulary {
 public:
  /// `table`: an npy file [V, E], an embedding a row, for the first of the model's inputs whose
  /// last axis is E. `words`: V lines, or "" for numbers. Throws Error{kInvalidArgument} naming the
  /// file that does not fit.
  Vocabulary(const std::string& table, const std::string& words, const onnx::OnnxModel& model);

  /// The tokens of the input x [D] whose nearest word (Euclidean, the first of equals) is not that
  /// of `original`, {"token", "was", "is"}, and those that are dropped, whose "is" is null.
  [[nodiscard]] nlohmann::ordered_json changes(const at::Tensor& original, const at::Tensor& x,
                                               const Box& box) const;

 private:
  [[nodiscard]] std::vector<int64_t> nearest(const at::Tensor& x) const;
  [[nodiscard]] std::string word(int64_t row) const;

  at::Tensor table_;                     ///< float64 [V, E]
  std::vector<std::string> words_;       ///< or none
  std::vector<onnx::PortSlice> inputs_;  ///< of the model
  int64_t begin_ = 0, size_ = 0;         ///< of the embeddings among the inputs
};

}  // namespace grapeshot::cli
