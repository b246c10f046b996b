#include "grapeshot/core/rng.h"

#include <cstdint>
#include <set>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

namespace {

at::Tensor draw(Rng& rng) {
  return at::rand({8}, rng.generator());
}

}  // namespace

TEST_CASE("derive_seed: different ids, orders and lengths give different seeds") {
  std::set<uint64_t> seeds;
  size_t made = 0;
  for (uint64_t a = 0; a < 20; ++a) {
    seeds.insert(derive_seed({a})), ++made;
    for (uint64_t b = 0; b < 20; ++b) {
      seeds.insert(derive_seed({a, b})), ++made;
      for (uint64_t c = 0; c < 20; ++c) seeds.insert(derive_seed({a, b, c})), ++made;
    }
  }
  CHECK(seeds.size() == made);
  CHECK(derive_seed({1, 2}) == derive_seed({1, 2}));
  CHECK(derive_seed({~uint64_t{0}}) != derive_seed({0}));
}

TEST_CASE("derive_seed: a bit of an id flips about half of the seed's bits") {
  int flips = 0, pairs = 0;
  for (uint64_t id = 0; id < 100; ++id) {
    for (int bit = 0; bit < 64; ++bit, ++pairs) {
      flips += __builtin_popcountll(derive_seed({7, id}) ^ derive_seed({7, id ^ (1ULL << bit)}));
    }
  }
  CHECK(static_cast<double>(flips) / pairs == doctest::Approx(32.).epsilon(0.01));
}

TEST_CASE("Rng: a stream is its seed, and begins anew when it is set again") {
  Rng one(uint64_t{5}), same(uint64_t{5}), other(uint64_t{6});
  const at::Tensor first = draw(one), second = draw(one);
  CHECK(at::equal(draw(same), first));
  CHECK(!at::equal(draw(other), first));
  CHECK(!at::equal(first, second));
  one.reseed(5);
  CHECK(at::equal(draw(one), first));
  // Also when half of a pair of normal numbers is left over.
  Rng normal(uint64_t{5});
  const at::Tensor z = at::randn({1}, normal.generator());
  normal.reseed(5);
  CHECK(at::equal(at::randn({1}, normal.generator()), z));
}

TEST_CASE("Rng: draws do not touch torch's own stream") {
  at::manual_seed(3);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(3);
  Rng rng(uint64_t{1});
  (void)draw(rng);
  CHECK(at::equal(at::rand({4}), expected));
}
