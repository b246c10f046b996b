#include "grapeshot/diff/transform.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/diff/lineage.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::diff;     // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr ValidRange kRange{-1., 1., 0.};

at::Tensor images(int64_t n) {
  Rng rng(uint64_t{3});
  return at::rand({n, 2, 7, 6}, rng.generator()) * 2. - 1.;
}

at::Tensor parameters(std::vector<double> of) {
  return at::tensor(of, at::kDouble).unsqueeze(0);
}

at::Tensor once(const char* name, const at::Tensor& x, std::vector<double> of) {
  Rng rng(uint64_t{1});
  return transform(find_transformation(name), x, parameters(std::move(of)), kRange, rng);
}

bool near(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a, b, 0., 1e-6);
}

}  // namespace

TEST_CASE("transformations: every row by parameters of its own, drawn from its interval") {
  const at::Tensor x = images(40);
  for (const Transformation& row : transformations()) {
    CAPTURE(row.name);
    CHECK(!row.summary.empty());
    for (const bool deeptest : {false, true}) {
      if (deeptest && !row.deeptest) continue;
      Rng rng(uint64_t{7}), other(uint64_t{7});
      const at::Tensor p = draw_parameters(row, deeptest, 40, 7, 6, rng);
      CHECK(p.sizes() == at::IntArrayRef({40, static_cast<int64_t>(row.count)}));
      for (size_t c = 0; c < row.count; ++c) {
        const Parameter& of = row.parameters[c];
        const Interval& in = deeptest ? of.deeptest : of.deephunter;
        const at::Tensor column = p.select(1, static_cast<int64_t>(c));
        CHECK(column.ge(in.low).logical_and(column.le(in.high)).all().item<bool>());
        CHECK(column.min().item<double>() < column.max().item<double>());
        if (of.whole) CHECK(at::equal(column, column.round()));
        if (of.pixels) CHECK(column.abs().max().item<double>() <= 3.);
      }
      const at::Tensor y = transform(row, x, p, kRange, rng);
      CHECK(y.sizes() == x.sizes());
      CHECK((y.scalar_type() == at::kFloat));
      CHECK(y.abs().le(1.f).all().item<bool>());
      CHECK(!at::equal(y, x));
      if (!row.affine && !row.deeptest) continue;  // those draw more than parameters
      for (int64_t r = 0; r < 40; ++r) {
        CHECK(near(transform(row, x.narrow(0, r, 1), p.narrow(0, r, 1), kRange, other),
                   y.narrow(0, r, 1)));
      }
    }
  }
}

TEST_CASE("transformations: in closed form") {
  const at::Tensor x = images(1);
  CHECK(at::equal(once("translate", x, {0., 0.}), x));
  const at::Tensor moved = once("translate", x, {2., -1.});
  CHECK(at::equal(moved.slice(3, 2).slice(2, 0, 6), x.slice(3, 0, 4).slice(2, 1)));
  CHECK(moved.slice(3, 0, 2).eq(-1.).all().item<bool>());
  CHECK(moved.slice(2, 6).eq(-1.).all().item<bool>());
  const at::Tensor square = x.slice(2, 0, 6).contiguous();
  CHECK(near(once("rotate", square, {90.}), at::rot90(square, 1, {2, 3})));
  CHECK(near(once("rotate", x, {180.}), x.flip({2, 3})));
  CHECK(near(once("scale", x, {1.}), x));
  // From 3 pixels below the centre to 3 above: so far to the left.
  const at::Tensor sheared = once("shear", x, {1.});
  for (int64_t row = 0; row < 7; ++row) {
    const int64_t left = row - 3;
    const at::Tensor to = sheared.select(2, row), from = x.select(2, row);
    if (left >= 0) CHECK(near(to.slice(2, 0, 6 - left), from.slice(2, left)));
    if (left < 0) CHECK(near(to.slice(2, -left), from.slice(2, 0, 6 + left)));
  }
  CHECK(near(once("contrast", x, {0.5}), (x - 1.) / 2.));
  CHECK(near(once("brightness", x, {0.25}), (x + 0.5).clamp(-1., 1.)));
  for (int kind = 1; kind <= 10; ++kind) {
    const at::Tensor flat = at::full({1, 2, 7, 6}, 0.25);
    CHECK(near(once("blur", flat, {static_cast<double>(kind)}), flat));
  }
}

TEST_CASE("transformations: on a grid all is a multiple of it, in the range") {
  Rng rng(uint64_t{5});
  const ValidRange range{-0.95, 0.95, 0.25};
  const at::Tensor y =
      transform(find_transformation("contrast"), images(1), parameters({1.9}), range, rng);
  CHECK(at::equal(y * 4., (y * 4.).round()));
  CHECK(y.abs().max().item<double>() == 0.75);
}

TEST_CASE("lineage: one affine step at most, and what is not valid goes no further") {
  const at::Tensor x = images(60).flatten(1);
  const std::vector<int64_t> shape = {1, 2, 7, 6};
  const ValidityBound bound{0.05, 0.1};
  const Transformer transformer(parse_transformations("deephunter"), kRange, bound, shape);
  Rng rng(uint64_t{11});
  std::vector<Lineage> lineages(60);
  std::vector<int64_t> image(60);
  for (int64_t i = 0; i < 60; ++i) image[static_cast<size_t>(i)] = i;
  at::Tensor now = x;
  int64_t moved = 0;
  for (int step = 1; step <= 5; ++step) {
    const at::Tensor originals = x.index_select(0, at::tensor(image, at::kLong));
    const Transformer::Advance next = transformer.advance(now, originals, lineages, rng);
    REQUIRE(lineages.size() == next.rows.size());
    std::vector<int64_t> on;
    for (const int64_t r : next.rows) on.push_back(image[static_cast<size_t>(r)]);
    image = on;
    now = next.x;
    moved = 0;
    for (size_t r = 0; r < image.size(); ++r) {
      const Lineage& of = lineages[r];
      CHECK(std::ssize(of.steps) == step);
      CHECK(std::ranges::count_if(of.steps, [](const auto& s) { return s.row->affine; }) ==
            (of.affine >= 0 ? 1 : 0));
      moved += of.affine >= 0 ? 1 : 0;
      CHECK(broken_lineage(of, x[image[r]], now[static_cast<int64_t>(r)], shape, kRange, bound)
                .empty());
    }
  }
  CHECK(moved > 10);
  CHECK(image.size() > 10);
}

TEST_CASE("lineage: a row that may only move stops after it has") {
  const std::vector<int64_t> shape = {2, 7, 6};
  const Transformer transformer(parse_transformations("rotate"), kRange, {}, shape);
  Rng rng(uint64_t{1});
  std::vector<Lineage> lineages(4);
  const at::Tensor x = images(4).flatten(1);
  const Transformer::Advance first = transformer.advance(x, x, lineages, rng);
  CHECK(first.rows.size() == 4);
  CHECK(transformer.advance(first.x, x, lineages, rng).rows.empty());
  CHECK(lineages.empty());
}
