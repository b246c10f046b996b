// grapeshot/io/vnncomp.h: what VNN-COMP says of instances: expected verdicts and tools' results.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace grapeshot {

/// A row of an expected.csv or of a tool's results.csv.
struct VerdictRow {
  std::string category;     ///< of a results.csv without a header
  std::string model, spec;  ///< as the file says
  std::string verdict;      ///< sat, unsat, unknown, timeout, error, ... ("violated" and "holds" of
                            ///< 2021 are sat and unsat here)
  std::string tool;         ///< who was fastest, or empty
  std::optional<double> seconds;  ///< its time
  int64_t line = 0;               ///< in the file, from 1
};

/// expected.csv: a header that names the columns onnx, vnnlib and verdict, perhaps best_tool and
/// best_time_s. Throws kParse "path:line: ..." for a missing column or a short row.
[[nodiscard]] std::vector<VerdictRow> parse_expected(std::string_view text,
                                                     const std::string& path);

/// A tool's results.csv as VNN-COMP's scripts write it, without a header: category, onnx, vnnlib,
/// prepare time, result, run time. A first row with a header is read as parse_expected does.
[[nodiscard]] std::vector<VerdictRow> parse_results(std::string_view text, const std::string& path);

/// Whether two paths of a model or specification end alike: one is the other or its end after a
/// slash, and .gz does not count. "./benchmarks/acasxu/onnx/a.onnx" and "onnx/a.onnx" do.
[[nodiscard]] bool same_file_name(std::string_view a, std::string_view b);

}  // namespace grapeshot
