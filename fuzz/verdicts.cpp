// fuzz/verdicts.cpp: expected verdicts and tools' results.
#include <cmath>

#include "fuzz/fuzz.h"
#include "grapeshot/io/vnncomp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const auto check = [](const std::vector<VerdictRow>& rows) {
    int64_t line = 0;
    for (const VerdictRow& row : rows) {
      fuzz::require(row.line > line, "lines count up");
      line = row.line;
      fuzz::require(!row.seconds || !std::isnan(*row.seconds), "a time is a number");
      fuzz::require(row.model.empty() || same_file_name(row.model, row.model),
                    "a name is like itself");
    }
  };
  const auto expected =
      fuzz::accepted([&] { return parse_expected(fuzz::bytes(data, size), fuzz::kPath); });
  const auto results =
      fuzz::accepted([&] { return parse_results(fuzz::bytes(data, size), fuzz::kPath); });
  if (expected) check(*expected);
  if (results) check(*results);
  // What has a header is read by both alike.
  if (expected && results)
    fuzz::require(expected->size() == results->size(), "rows are counted alike");
  return 0;
}
