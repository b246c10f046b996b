// fuzz/npy.cpp: NumPy's arrays.
#include "grapeshot/io/npy.h"

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const auto array =
      fuzz::accepted([&] { return parse_npy(fuzz::bytes(data, size), fuzz::kPath); });
  if (!array) return 0;
  // A size of zero first: the others may be as large as they like then.
  bool empty = false;
  for (const int64_t length : array->shape) {
    fuzz::require(length >= 0, "a dimension is a size");
    empty = empty || length == 0;
  }
  int64_t count = empty ? 0 : 1;
  if (!empty)
    for (const int64_t length : array->shape) count *= length;
  fuzz::require(count == std::ssize(array->values), "the values fill the shape");
  return 0;
}
