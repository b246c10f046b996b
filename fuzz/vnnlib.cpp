// fuzz/vnnlib.cpp: VNN-LIB text; what is written of a property reads as the same property.
#include "grapeshot/io/vnnlib.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fuzz/fuzz.h"
#include "fuzz/property.h"

namespace {

using grapeshot::Box;
using grapeshot::Case;
using grapeshot::LinearRow;
using grapeshot::Property;
using grapeshot::Region;
using grapeshot::Term;

// A few kilobytes can ask for a gigabyte of cases; that is slow under the sanitizers and no
// finding.
constexpr grapeshot::VnnlibLimits kLimits{
    .cases = 1 << 10, .relations = 1 << 14, .rows = 1 << 13, .bounds = 1 << 16};

bool equal(const Box& a, const Box& b) {
  return a.lo == b.lo && a.hi == b.hi && a.nearest == b.nearest && a.empty == b.empty;
}

bool equal(const LinearRow& a, const LinearRow& b) {
  return a.bound == b.bound &&
         std::ranges::equal(a.terms, b.terms, [](const Term& s, const Term& t) {
           return s.output == t.output && s.coefficient == t.coefficient;
         });
}

bool equal(const Case& a, const Case& b) {
  return std::ranges::equal(a.rows, b.rows,
                            [](const LinearRow& s, const LinearRow& t) { return equal(s, t); });
}

// Boxes of different decimals can be one box of floats, which is written once.
std::vector<Region> joined(const Property& property) {
  std::vector<Region> out;
  for (const Region& region : property.regions) {
    const auto same =
        std::ranges::find_if(out, [&](const Region& r) { return equal(r.box, region.box); });
    if (same == out.end()) {
      out.push_back(region);
    } else {
      same->cases.insert(same->cases.end(), region.cases.begin(), region.cases.end());
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const auto property =
      fuzz::accepted([&] { return parse_vnnlib(fuzz::bytes(data, size), fuzz::kPath, kLimits); });
  if (!property) return 0;
  fuzz::check(*property);
  const std::string text = write_vnnlib(*property, "a comment\nof two lines");
  const Property again = parse_vnnlib(text, fuzz::kPath);
  fuzz::check(again);
  fuzz::require(again.inputs == property->inputs && again.outputs == property->outputs,
                "the written property declares the same variables");
  fuzz::require(std::ranges::equal(joined(*property), joined(again),
                                   [](const Region& a, const Region& b) {
                                     return equal(a.box, b.box) &&
                                            std::ranges::equal(a.cases, b.cases,
                                                               [](const Case& s, const Case& t) {
                                                                 return equal(s, t);
                                                               });
                                   }),
                "the written property has the same boxes and cases");
  return 0;
}
