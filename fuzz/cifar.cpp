// fuzz/cifar.cpp: CIFAR's binary files.
#include "fuzz/data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  grapeshot::fuzz::read_as("cifar10", grapeshot::fuzz::bytes(data, size));
  grapeshot::fuzz::read_as("cifar100", grapeshot::fuzz::bytes(data, size));
  grapeshot::fuzz::read_as("cifar100-coarse", grapeshot::fuzz::bytes(data, size));
  return 0;
}
