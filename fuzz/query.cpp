// fuzz/query.cpp: VNN-LIB 2.0 text; what is written of an assignment reads as the same one.
#include "grapeshot/io/query.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "fuzz/property.h"

namespace {

// As for VNN-LIB 1.0: a few kilobytes can ask for a gigabyte of cases.
constexpr grapeshot::VnnlibLimits kLimits{
    .cases = 1 << 10, .relations = 1 << 14, .rows = 1 << 13, .bounds = 1 << 16};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const std::string_view text = fuzz::bytes(data, size);
  (void)query::is_query(text);
  (void)query::is_assignment(text);
  const auto query = fuzz::accepted([&] { return query::parse_query(text, fuzz::kPath, kLimits); });
  if (!query || query->property.inputs + query->property.outputs > 4096) return 0;
  fuzz::check(query->property);
  fuzz::require(query->base_outputs + std::ssize(query->extras) == query->property.outputs,
                "extra outputs stand behind the others");
  const Box& box = query->property.regions[0].box;
  std::vector<double> x(box.lo.begin(), box.lo.end());
  std::vector<double> y(static_cast<size_t>(query->property.outputs), 0.25);
  query::settle_extras(*query, x, y);
  const Verdict verdict = judge(query->property, box.lo, y);
  if (verdict.region >= 0) {
    (void)query->describe(query->property.regions[static_cast<size_t>(verdict.region)]
                              .cases[static_cast<size_t>(verdict.case_index)]);
  }
  const std::string written = query::write_assignment(*query, box.lo, y);
  fuzz::require(query::is_assignment(written), "what is written is an assignment");
  const query::Assignment again = query::parse_assignment(*query, written, fuzz::kPath);
  y.resize(static_cast<size_t>(query->base_outputs));
  fuzz::require(again.x == x && again.y == y, "the written assignment reads as the same one");
  return 0;
}
