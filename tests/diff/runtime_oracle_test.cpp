#include "grapeshot/diff/runtime_oracle.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/fake_model.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::diff;     // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

// y = x.
struct Same : FakeModel {
  Same() : FakeModel(at::eye(2), at::zeros({2})) {}
};

// The other runtime is off by `by` wherever the first input is above 0.5.
RuntimeOracle oracle(const Model& model, const at::Tensor& by, double tolerance = kRounding) {
  return {model,
          [by](const at::Tensor& x) {
            const at::Tensor hit = x.slice(1, 0, 1) > 0.5;
            return x.to(at::kDouble) + at::where(hit, by.to(at::kDouble), 0.);
          },
          tolerance};
}

}  // namespace

TEST_CASE("runtime oracle: rows whose values differ are proposed, with the difference measured") {
  const Same model;
  const RuntimeOracle off = oracle(model, vector({0.f, 0.2f}));
  const at::Tensor x = matrix(2, 2, {0.4f, 0.1f, 0.8f, 0.1f});
  CHECK(at::equal(off.propose(x), flags({0, 1})));
  CHECK_FALSE(off.compare(x[0]).disagree());
  const Comparison found = off.compare(x[1]);
  CHECK(found.values);
  CHECK_FALSE(found.classes);
  CHECK(found.our_error == 0.);
  CHECK(found.their_error == doctest::Approx(0.2 / 0.8));
  CHECK(found.difference == doctest::Approx(0.2 / 0.8));
  CHECK(found.gap == doctest::Approx(0.7 / 0.8));
  CHECK(found.limit == kRounding);
  // A tolerance above that, and the same answers.
  CHECK_FALSE(oracle(model, vector({0.f, 0.2f}), 0.3).propose(x).any().item<bool>());
}

TEST_CASE("runtime oracle: another class counts where it is no tie") {
  const Same model;
  const RuntimeOracle off = oracle(model, vector({0.f, 2e-5f}));
  const Comparison tie = off.compare(vector({0.8f, 0.8f - 1e-5f}));
  CHECK(tie.our_class == 0);
  CHECK(tie.their_class == 1);
  CHECK_FALSE(tie.disagree());
  CHECK(off.propose(matrix(1, 2, {0.8f, 0.8f - 1e-5f})).item<bool>());
  const Comparison found = oracle(model, vector({0.f, 0.5f})).compare(vector({0.8f, 0.7f}));
  CHECK(found.classes);
  CHECK(found.exact_class == 0);
  CHECK(found.their_class == 1);
}

TEST_CASE(
    "runtime oracle: a step within rounding explains what differs, a step elsewhere does not") {
  Same model;
  model.function = [](const at::Tensor& x) {
    const at::Tensor side = at::sign(x.slice(1, 0, 1) - x.slice(1, 1, 2));
    return at::cat({side, -side}, 1);
  };
  const RuntimeOracle turned(
      model, [&](const at::Tensor& x) { return -model.function(x).to(at::kDouble); }, kRounding);
  const Comparison at_step = turned.compare(vector({1.f, 1.f + 0x1p-23f}));
  CHECK(at_step.difference == doctest::Approx(2.));
  CHECK(at_step.limit >= 2.);
  CHECK_FALSE(at_step.disagree());
  const Comparison beside = turned.compare(vector({1.f, 1.1f}));
  CHECK(beside.classes);
  CHECK(beside.values);
}

TEST_CASE("runtime oracle: NaN in one runtime alone disagrees, in both it does not") {
  Same model;
  const Comparison theirs = oracle(model, vector({0.f, kNan})).compare(vector({0.8f, 0.1f}));
  CHECK(theirs.values);
  CHECK(theirs.difference == static_cast<double>(kInf));
  model.function = [](const at::Tensor& x) { return x / 0. * 0.; };
  const RuntimeOracle both(
      model, [&](const at::Tensor& x) { return model.function(x).to(at::kDouble); }, kRounding);
  CHECK_FALSE(both.compare(vector({0.8f, 0.1f})).disagree());
}
