// fuzz/csv.cpp: tables of numbers.
#include "fuzz/data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  grapeshot::fuzz::read_as("csv", grapeshot::fuzz::bytes(data, size));
  return 0;
}
