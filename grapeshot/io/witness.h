// grapeshot/io/witness.h: counterexamples as files: VNN-COMP's text format, or .npy.
//
// Text is a list of pairs, ((X_0 0.5) (X_1 -0.25) ... (Y_0 1.0) ...), with or without `sat` in
// front and parentheses around it all; comments run from ; to the end of the line.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace grapeshot {

/// Inputs and, where the file has them, outputs, as the float64 nearest to what is written; NaN and
/// infinity are kept, for they may be written.
struct Witness {
  std::vector<double> x, y;
};

/// Throws kParse "path:line:column: ..." for text of another form, a variable given twice, or a gap
/// in the numbering.
[[nodiscard]] Witness parse_witness(std::string_view text, const std::string& path);

/// Reads `path` or `path`.gz, .npy (any shape: the inputs) or text by its first bytes. Throws as
/// read_file, read_npy and parse_witness do.
[[nodiscard]] Witness read_witness(const std::string& path);

/// VNN-COMP's text, `sat` on the first line; numbers in the shortest form that reads back as the
/// same float64, so that a float32 stays exactly itself.
[[nodiscard]] std::string write_witness(std::span<const float> x, std::span<const double> y);

/// A number of a witness: a decimal, and besides nan, inf, .5 and 5. which other tools write.
[[nodiscard]] std::optional<double> parse_witness_number(std::string_view text);

/// The shortest decimal that reads back as the same float64.
[[nodiscard]] std::string shortest_decimal(double value);

}  // namespace grapeshot
