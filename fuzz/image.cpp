// fuzz/image.cpp: PNG and JPEG files.
#include "fuzz/data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  grapeshot::fuzz::read_as("images", grapeshot::fuzz::bytes(data, size));
  return 0;
}
