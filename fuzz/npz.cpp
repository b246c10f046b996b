// fuzz/npz.cpp: NumPy's archives of arrays.
#include "grapeshot/io/npz.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  (void)fuzz::accepted([&] { return parse_npz(fuzz::bytes(data, size), fuzz::kPath); });
  return 0;
}
