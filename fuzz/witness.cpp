// fuzz/witness.cpp: counterexamples as text; a float32 that is written reads as itself.
#include "grapeshot/io/witness.h"

#include <cmath>
#include <vector>

#include "fuzz/fuzz.h"

namespace {

// NaN equals NaN, which == denies.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const auto witness =
      fuzz::accepted([&] { return parse_witness(fuzz::bytes(data, size), fuzz::kPath); });
  if (!witness) return 0;
  fuzz::require(!witness->x.empty(), "a witness has inputs");
  std::vector<float> x;
  for (const double value : witness->x) {
    const bool outside = std::abs(value) > 0x1.fffffep127 && std::isfinite(value);
    x.push_back(outside ? 0.f : static_cast<float>(value));
  }
  const Witness again = parse_witness(write_witness(x, witness->y), fuzz::kPath);
  fuzz::require(same(again.x, {x.begin(), x.end()}) && same(again.y, witness->y),
                "what is written reads the same");
  return 0;
}
