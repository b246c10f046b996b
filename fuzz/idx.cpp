// fuzz/idx.cpp: IDX files, as MNIST comes.
#include "fuzz/data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  grapeshot::fuzz::read_as("idx", grapeshot::fuzz::bytes(data, size));
  return 0;
}
