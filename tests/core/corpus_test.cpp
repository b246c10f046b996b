#include "grapeshot/core/corpus.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

at::Tensor column(const std::vector<float>& values) {
  return matrix(static_cast<int64_t>(values.size()), 1, values);
}

Seeds all_of(const Corpus& corpus) {
  return corpus.gather(at::arange(corpus.size()));
}

// Inserts `values` as children of the entries `parents`, all with `energy`.
int64_t insert(Corpus& corpus, const std::vector<int64_t>& parents,
               const std::vector<float>& values, float energy = 1.f) {
  return corpus.insert(corpus.gather(indices(parents)), column(values),
                       at::full({static_cast<int64_t>(values.size())}, energy));
}

// How often each entry was drawn.
std::vector<double> counts(const Corpus& corpus, int64_t draws, uint64_t seed = 1) {
  Rng rng(seed);
  const at::Tensor drawn = corpus.draw(draws, rng);
  CHECK(drawn.sizes() == at::IntArrayRef{draws});
  return doubles(at::bincount(drawn, {}, corpus.size()));
}

// Pearson's statistic; for 4 degrees of freedom it is above 23.5 once in 10,000 times.
double chi_square(const std::vector<double>& seen, const std::vector<double>& weights) {
  double draws = 0., total = 0., sum = 0.;
  for (const double n : seen) draws += n;
  for (const double w : weights) total += w;
  for (size_t i = 0; i < seen.size(); ++i) {
    const double expected = draws * weights[i] / total;
    if (expected == 0.) {
      CHECK(seen[i] == 0.);
    } else {
      sum += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("Corpus: begins with its originals, one a region") {
  const Corpus corpus(column({3.f, 1.f, 3.f}), 10);
  CHECK(corpus.size() == 3);
  const Seeds seeds = all_of(corpus);
  CHECK(floats(seeds.x) == std::vector<float>{3.f, 1.f, 3.f});
  CHECK(longs(seeds.region) == std::vector<int64_t>{0, 1, 2});
  CHECK(longs(seeds.depth) == std::vector<int64_t>{0, 0, 0});
  CHECK(longs(seeds.id) == std::vector<int64_t>{0, 1, 2});
  CHECK(floats(corpus.originals()) == std::vector<float>{3.f, 1.f, 3.f});
}

TEST_CASE("Corpus: a child has its parent's region, one depth more and an id of its own") {
  Corpus corpus(column({0.f, 1.f}), 10);
  CHECK(insert(corpus, {1, 0}, {5.f, 6.f}) == 2);
  CHECK(insert(corpus, {2, 2, 1}, {7.f, 8.f, 9.f}) == 3);
  const Seeds seeds = all_of(corpus);
  CHECK(floats(seeds.x) == std::vector<float>{0.f, 1.f, 5.f, 6.f, 7.f, 8.f, 9.f});
  CHECK(longs(seeds.region) == std::vector<int64_t>{0, 1, 1, 0, 1, 1, 1});
  CHECK(longs(seeds.depth) == std::vector<int64_t>{0, 0, 1, 1, 2, 2, 1});
  CHECK(longs(seeds.id) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("Corpus: a row is added once, also within a batch and after it made room") {
  Corpus corpus(column({0.f, 1.f}), 4);
  CHECK(insert(corpus, {0, 0, 0}, {5.f, 5.f, 0.f}) == 1);  // twice, and an original
  CHECK(corpus.size() == 3);
  CHECK(insert(corpus, {1}, {5.f}) == 0);
  CHECK(insert(corpus, {0, 0}, {6.f, 7.f}) == 2);  // 5 makes room
  CHECK(floats(all_of(corpus).x) == std::vector<float>{0.f, 1.f, 7.f, 6.f});
  CHECK(insert(corpus, {0}, {5.f}) == 0);
  CHECK(corpus.insert(corpus.gather(indices({})), at::zeros({0, 1}), at::zeros({0})) == 0);
}

TEST_CASE("Corpus: a full ring overwrites its oldest entry and never an original") {
  Corpus corpus(column({0.f, 1.f}), 5);
  CHECK(insert(corpus, {0, 0, 0}, {10.f, 11.f, 12.f}) == 3);
  CHECK(corpus.size() == 5);
  CHECK(insert(corpus, {1, 1}, {13.f, 14.f}) == 2);
  CHECK(corpus.size() == 5);
  CHECK(floats(all_of(corpus).x) == std::vector<float>{0.f, 1.f, 13.f, 14.f, 12.f});
  CHECK(longs(all_of(corpus).region) == std::vector<int64_t>{0, 1, 1, 1, 0});
  CHECK(insert(corpus, {0, 0}, {15.f, 16.f}) == 2);  // over the end of the ring
  CHECK(floats(all_of(corpus).x) == std::vector<float>{0.f, 1.f, 16.f, 14.f, 15.f});
  CHECK(longs(all_of(corpus).id) == std::vector<int64_t>{0, 1, 8, 6, 7});
  for (int i = 0; i < 100; ++i) {
    (void)insert(corpus, {0, 1}, {100.f + static_cast<float>(i), -static_cast<float>(i) - 1.f});
  }
  CHECK(corpus.size() == 5);
  CHECK(floats(all_of(corpus).x.slice(0, 0, 2)) == std::vector<float>{0.f, 1.f});
}

TEST_CASE("Corpus: of more new rows than the ring holds the last stay") {
  Corpus corpus(column({0.f, 1.f}), 5);
  const auto kept = [&] {
    std::vector<float> x = floats(all_of(corpus).x.slice(0, 2));
    std::ranges::sort(x);
    return x;
  };
  (void)insert(corpus, {0, 0, 0, 0, 1, 1, 1}, {10.f, 11.f, 12.f, 13.f, 14.f, 15.f, 16.f});
  CHECK(corpus.size() == 5);
  CHECK(kept() == std::vector<float>{14.f, 15.f, 16.f});
  const Seeds seeds = all_of(corpus);
  CHECK(floats(seeds.x.slice(0, 0, 2)) == std::vector<float>{0.f, 1.f});
  CHECK(longs(seeds.region) == std::vector<int64_t>{0, 1, 1, 1, 1});
  const std::vector<int64_t> ids = longs(seeds.id);
  CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() == 5);
  CHECK(insert(corpus, {0}, {17.f}) == 1);  // the oldest of them is next
  CHECK(kept() == std::vector<float>{15.f, 16.f, 17.f});
}

TEST_CASE("Corpus: has room for an entry beside its originals, however little is asked for") {
  Corpus corpus(column({0.f, 1.f, 2.f}), 0);
  CHECK(insert(corpus, {0}, {5.f}) == 1);
  CHECK(insert(corpus, {0}, {6.f}) == 1);
  CHECK(floats(all_of(corpus).x) == std::vector<float>{0.f, 1.f, 2.f, 6.f});
}

TEST_CASE("draw: in proportion to the energies, Eq. 6") {
  Corpus corpus(column({0.f, 1.f}), 10);
  (void)insert(corpus, {0}, {5.f}, 100.f);
  (void)insert(corpus, {0}, {6.f}, 10.f);
  (void)insert(corpus, {0}, {7.f}, 0.1f);
  const std::vector<double> energies = {1., 1., 100., 10., 0.1};
  CHECK(chi_square(counts(corpus, 50000), energies) < 23.5);
  // The test can tell: a wrong energy stands out.
  CHECK(chi_square(counts(corpus, 50000), {1., 1.5, 100., 10., 0.1}) > 23.5);
}

TEST_CASE("draw: the same seed draws the same entries") {
  const Corpus corpus(column({0.f, 1.f, 2.f, 3.f}), 10);
  CHECK(counts(corpus, 100, 7) == counts(corpus, 100, 7));
  CHECK(counts(corpus, 100, 7) != counts(corpus, 100, 8));
}

TEST_CASE("retire: entries of a region that is gone are never drawn, the others as before") {
  Corpus corpus(column({0.f, 1.f}), 10);
  (void)insert(corpus, {0, 1}, {5.f, 6.f}, 3.f);
  corpus.retire(flags({1, 0}));
  CHECK(chi_square(counts(corpus, 20000), {0., 1., 0., 3.}) < 23.5);
  // Entries stay where they are.
  CHECK(floats(all_of(corpus).x) == std::vector<float>{0.f, 1.f, 5.f, 6.f});
}

TEST_CASE("draw: uniform when no entry has energy") {
  Corpus corpus(column({0.f, 1.f}), 10);
  (void)insert(corpus, {0, 1, 0}, {5.f, 6.f, 7.f}, 0.f);
  CHECK(chi_square(counts(corpus, 20000), {1., 1., 0., 0., 0.}) < 23.5);
  corpus.retire(flags({1, 1}));
  CHECK(chi_square(counts(corpus, 20000), {1., 1., 1., 1., 1.}) < 23.5);
}

TEST_CASE("halve: halves the energies named, once for each call") {
  Corpus corpus(column({0.f, 1.f}), 10);
  (void)insert(corpus, {0, 0}, {5.f, 6.f}, 8.f);
  corpus.halve(indices({2}));
  corpus.halve(indices({2, 0}));
  corpus.halve(indices({}));
  CHECK(chi_square(counts(corpus, 50000), {0.5, 1., 2., 8.}) < 23.5);
}

TEST_CASE("hash_rows: any single flipped bit changes both hashes, and no two flips agree") {
  const int64_t d = 50;
  Rng rng(uint64_t{3});
  const at::Tensor x = at::randn({1, d}, rng.generator());
  at::Tensor flipped = x.expand({d * 32 + 1, d}).contiguous();
  auto* words = reinterpret_cast<uint32_t*>(flipped.mutable_data_ptr<float>());
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t bit = 0; bit < 32; ++bit) words[(i * 32 + bit) * d + i] ^= 1U << bit;
  }
  const at::Tensor hashes = hash_rows(flipped);
  CHECK(hashes.sizes() == at::IntArrayRef({d * 32 + 1, 2}));
  for (const int64_t k : {0, 1}) {
    const std::vector<int64_t> column = longs(hashes.select(1, k));
    CHECK(std::set<int64_t>(column.begin(), column.end()).size() == column.size());
  }
  CHECK(!at::equal(hashes.select(1, 0), hashes.select(1, 1)));
}

TEST_CASE("hash_rows: of the bytes: 0 and -0 differ, one NaN equals itself") {
  const at::Tensor x = matrix(4, 2, {0.f, 1.f, -0.f, 1.f, kNan, 1.f, kNan, 1.f});
  const std::vector<int64_t> h = longs(hash_rows(x).select(1, 0));
  CHECK(h[0] != h[1]);
  CHECK(h[2] == h[3]);
}

TEST_CASE("hash_rows: depends on the order of the coordinates, not on the rest of the batch") {
  const at::Tensor x = at::randn({20, 7});
  const at::Tensor all = hash_rows(x);
  CHECK(at::equal(hash_rows(x.slice(0, 5, 6)), all.slice(0, 5, 6)));
  CHECK(at::equal(hash_rows(x.t().contiguous().t()), all));
  CHECK(!at::equal(hash_rows(x.flip(1)), all));
  CHECK(hash_rows(at::zeros({0, 7})).sizes() == at::IntArrayRef({0, 2}));
}

TEST_CASE("HashSet: tells what is new, in order") {
  HashSet set;
  const at::Tensor h = at::tensor({1, 2, 3, 4, 1, 2, 1, 4}, at::kLong).reshape({4, 2});
  CHECK(at::equal(set.insert(h), flags({1, 1, 0, 1})));
  CHECK(set.size() == 3);
  CHECK(!set.insert(h).any().item<bool>());
  CHECK(set.insert(at::zeros({0, 2}, at::kLong)).numel() == 0);
  CHECK(set.size() == 3);
}
