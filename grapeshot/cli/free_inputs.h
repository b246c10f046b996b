// grapeshot/cli/free_inputs.h: what of a row of --data may change: --frozen, --mask, --drop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grapeshot/cli/data_rows.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/core/property.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {

/// What --frozen says: a file of 0 or 1 for every input, of each row or of all, or names of columns
/// of the rows joined by commas. [D] or [rows, D]. Throws Error{kInvalidArgument, kNotFound} naming
/// the file or the name that does not fit.
[[nodiscard]] std::vector<uint8_t> read_frozen(const std::string& frozen, const DataRows& rows);

class FreeInputs {
 public:
  /// For rows of files.data. `files.frozen`: as read_frozen() has it; 1 never changes.
  /// `files.mask`: an input of the model that says of every token, 1 or 0, whether it is there.
  /// Throws Error{kInvalidArgument} naming the file, or the model, that does not fit.
  FreeInputs(const ProblemFiles& files, const Model& model, const DataRows& rows);

  /// Takes from the box of data row `row`, `x` [D], what may not change: frozen inputs, bits of the
  /// mask, and what belongs to tokens that are not there. Up to `files.drop` of the bits that are 1
  /// may be 0 instead, so that one at least stays. Throws Error{kInvalidArgument} naming file and
  /// row for a bit that is neither 0 nor 1.
  void restrict(int64_t row, std::span<const double> x, Box& box) const;

 private:
  struct Covered {
    int64_t begin, per_token;  ///< inputs of token t: begin + t * per_token, and on
  };

  void find_mask(const onnx::OnnxModel& model);

  const ProblemFiles& files_;
  int64_t inputs_;
  std::vector<uint8_t> frozen_;  ///< [D] or [rows, D], or empty
  int64_t bits_begin_ = 0, bits_ = 0;
  std::vector<Covered> covered_;
};

}  // namespace grapeshot::cli
