// fuzz/specification.cpp: JSON specifications of a network with 6 inputs and 4 outputs, or with
// one.
#include "grapeshot/io/properties/specification.h"

#include <vector>

#include "fuzz/fuzz.h"
#include "fuzz/property.h"

namespace {

using grapeshot::fuzz::require;
using namespace grapeshot;              // NOLINT(google-build-using-namespace)
using namespace grapeshot::properties;  // NOLINT(google-build-using-namespace)

void check_words(const Specification& spec) {
  const Property& property = spec.property;
  const std::vector<double> y(static_cast<size_t>(property.outputs), 0.5);
  for (const size_t r : {size_t{0}, property.regions.size() - 1}) {
    const Region& region = property.regions[r];
    const Verdict verdict{.margin = -1.,
                          .region = static_cast<int64_t>(r),
                          .case_index = std::ssize(region.cases) - 1,
                          .violates = true};
    require(!spec.words(region.box.lo, y, verdict).empty(), "a violation has words");
    if (spec.pair) {
      require(spec.pair->whole() == property.inputs, "the whole input is what has bounds");
      require(2 * spec.pair->outputs + spec.pair->compared() == property.outputs,
              "the outputs of both runs and what compares them");
      require(std::ssize(second_input(*spec.pair, region.box.lo)) == spec.pair->inputs,
              "the second input is one of the network");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int64_t outputs : {int64_t{4}, int64_t{1}}) {
    const Subject subject{"net.onnx", 6, outputs, {1, 6}, [&](std::span<const float> x) {
                            return std::vector<double>(static_cast<size_t>(outputs), x[0]);
                          }};
    const auto spec = fuzz::accepted(
        [&] { return parse_specification(fuzz::bytes(data, size), fuzz::kPath, subject); });
    if (!spec) continue;
    fuzz::check(spec->property);
    check_words(*spec);
  }
  return 0;
}
