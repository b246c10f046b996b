#include "grapeshot/diff/constraint.h"

#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/files.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::diff;     // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

Limits unlimited() {
  Limits out;
  out.l2 = 0.;
  out.low = -10.;
  out.high = 10.;
  return out;
}

}  // namespace

TEST_CASE("constraint: what breaks a limit, by hand") {
  const std::vector<int64_t> shape = {4};
  const at::Tensor original = vector({3.f, 4.f, 0.f, 0.f});
  const at::Tensor x = vector({3.f, 4.f, 0.5f, 0.f});  // 0.1 of the norm, 20 dB, bends by 1
  const auto says = [&](auto change) {
    Limits limits = unlimited();
    change(limits);
    return broken_limit(limits, shape, x, original);
  };
  CHECK(says([](Limits& l) { l.l2 = 0.1; }).empty());
  CHECK(says([](Limits& l) { l.l2 = 0.09; }).starts_with("its L2 distance is 0.1 of the original"));
  CHECK(says([](Limits& l) { l.snr = 19.99; }).empty());
  CHECK(says([](Limits& l) { l.snr = 20.01; }).starts_with("its noise over the signal is -20 dB"));
  CHECK(says([](Limits& l) { l.linf = 0.5; }).empty());
  CHECK(says([](Limits& l) { l.linf = 0.25; }) == "its largest change is 0.5, more than 0.25");
  CHECK(says([](Limits& l) { l.l0 = 1; }).empty());
  CHECK(says([](Limits& l) { l.smooth = 1.; }).empty());
  CHECK(!says([](Limits& l) { l.smooth = 0.99; }).empty());
  CHECK(says([](Limits& l) { l.frozen = at::tensor({1, 1, 0, 1}) != 0; }).empty());
  CHECK(!says([](Limits& l) { l.frozen = at::tensor({0, 0, 1, 0}) != 0; }).empty());
}

TEST_CASE("constraint: what is brought back keeps to every limit, each row by itself") {
  const std::vector<int64_t> shape = {2, 4, 8};
  Rng rng(7);
  const at::Tensor original = at::randn({20, 64}, rng.generator()).clamp(-1., 1.);
  const at::Tensor x = original + at::randn({20, 64}, rng.generator());
  std::vector<Limits> cases(5, unlimited());
  for (Limits& limits : cases) {
    limits.low = -1.;
    limits.high = 1.;
  }
  cases[0].snr = 20.;
  cases[0].smooth = 0.1;
  cases[0].frozen = at::arange(64) < 10;
  cases[1].linf = 0.1;
  cases[1].l2 = 0.3;
  cases[2].l0 = 3;
  cases[2].pixels = true;
  cases[3].l0 = 5;
  cases[3].linf = 0.2;
  cases[3].frozen = at::arange(64) % 2 == 0;
  cases[4].linf = 1e-4;  // close to what float32 has
  for (const Limits& limits : cases) {
    const auto chosen = parse_constraints("none", limits);
    const at::Tensor in = bring_back(chosen, x, {original, limits, shape});
    for (int64_t r = 0; r < in.size(0); ++r) {
      CHECK(broken_limit(limits, shape, in[r], original[r]) == "");
      CHECK(!at::equal(in[r], original[r]));
      const at::Tensor one =
          bring_back(chosen, x.narrow(0, r, 1), {original.narrow(0, r, 1), limits, shape});
      CHECK(at::allclose(one[0], in[r], 0., 1e-6));
    }
    CHECK(in.abs().max().item<double>() <= 1.);
  }
}

TEST_CASE("constraint: a limit that is named has to be given") {
  CHECK(message_of(ErrorCode::kInvalidArgument, [] {
          (void)parse_constraints("light+l0", unlimited());
        }) == "--constraint l0 needs --l0");
}
