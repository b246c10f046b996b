#include "grapeshot/core/rng.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace grapeshot {

uint64_t derive_seed(std::initializer_list<uint64_t> ids) {
  uint64_t state = 0;
  for (const uint64_t id : ids) {
    state = (state ^ id) + 0x9E3779B97F4A7C15ULL;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
    state ^= state >> 31;
  }
  return state;
}

namespace {

at::Generator generator_for(at::Device device) {
  if (device.is_cpu()) return at::detail::createCPUGenerator();
  return at::globalContext()
      .getAcceleratorHooksInterface(device.type())
      .getNewGenerator(device.index());
}

}  // namespace

Rng::Rng(uint64_t seed, at::Device device) : generator_(generator_for(device)) {
  reseed(seed);
}

void Rng::reseed(uint64_t seed) {
  generator_.set_current_seed(seed);
}

at::Tensor Rng::state() const {
  return generator_.get_state();
}

void Rng::set_state(const at::Tensor& state) {
  generator_.set_state(state);
}

}  // namespace grapeshot
