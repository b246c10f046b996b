#include "grapeshot/core/energy_tree.h"

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

EnergyTree tree_of(const at::Tensor& energies) {
  EnergyTree tree(energies.size(0), at::TensorOptions());
  tree.set(at::arange(energies.size(0)), energies);
  return tree;
}

}  // namespace

TEST_CASE("EnergyTree: draws in proportion to energies that lie in all of its levels") {
  // Three nodes of the first level, two of the second.
  at::Tensor energies = at::zeros({128 * 128 + 10});
  const std::vector<int64_t> where = {0, 127, 128, 5000, 128 * 128 + 9};
  const std::vector<double> weights = {1., 2., 3., 4., 6.};
  for (size_t i = 0; i < where.size(); ++i) energies.select(0, where[i]).fill_(weights[i]);
  const EnergyTree tree = tree_of(energies);
  Rng rng(uint64_t{3});
  constexpr int64_t kDraws = 160'000;
  const at::Tensor counts =
      at::bincount(tree.draw(kDraws, energies.size(0), rng), {}, energies.size(0));
  CHECK(counts.index_select(0, at::tensor(where)).sum().item<int64_t>() == kDraws);
  double chi_square = 0.;
  for (size_t i = 0; i < where.size(); ++i) {
    const double expected = kDraws * weights[i] / 16.;
    const double off = counts.select(0, where[i]).item<double>() - expected;
    chi_square += off * off / expected;
  }
  CHECK(chi_square < 23.5);  // 4 degrees of freedom: above it once in 10,000 times
}

TEST_CASE("EnergyTree: what lost its energy is not drawn again, what gained some is") {
  EnergyTree tree = tree_of(at::ones({1000}));
  Rng rng(uint64_t{4});
  tree.set(at::arange(999), at::zeros({999}));
  CHECK(tree.draw(100, 1000, rng).eq(999).all().item<bool>());
  tree.set(at::tensor({int64_t{999}, int64_t{17}}), at::tensor({0.f, 0.25f}));
  CHECK(tree.draw(100, 1000, rng).eq(17).all().item<bool>());
  CHECK(tree.get(at::tensor({int64_t{17}})).item<double>() == 0.25);
}

TEST_CASE("EnergyTree: without any energy the first `size` are drawn with equal chances") {
  const EnergyTree tree(5000, at::TensorOptions());
  Rng rng(uint64_t{5});
  const at::Tensor counts = at::bincount(tree.draw(40'000, 4, rng), {}, 4);
  CHECK(counts.size(0) == 4);
  CHECK(counts.gt(9'500).all().item<bool>());
}

TEST_CASE("EnergyTree: sums made anew are those that changes led to") {
  Rng rng(uint64_t{6});
  EnergyTree changed(40'000, at::TensorOptions());
  for (int i = 0; i < 50; ++i) {
    changed.set(at::randint(40'000, {64}, rng.generator(), at::kLong),
                at::rand({64}, rng.generator()));
  }
  EnergyTree anew(40'000, at::TensorOptions());
  anew.energies().copy_(changed.energies());
  anew.sum_up();
  Rng one(uint64_t{7}), other(uint64_t{7});
  CHECK(at::equal(changed.draw(5000, 40'000, one), anew.draw(5000, 40'000, other)));
}
