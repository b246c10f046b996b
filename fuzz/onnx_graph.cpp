// fuzz/onnx_graph.cpp: ONNX files, as far as their bytes go.
#include "fuzz/fuzz.h"
#include "grapeshot/io/onnx/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  (void)fuzz::accepted([&] { return onnx::parse_graph(fuzz::bytes(data, size), fuzz::kPath); });
  return 0;
}
