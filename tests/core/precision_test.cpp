#include "grapeshot/core/precision.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("proposes_in_bfloat16: as asked, and never by itself where runs repeat themselves") {
  const FakeModel model = FakeModel::sum(1);
  LoopOptions options;
  options.precision = "bfloat16";
  CHECK(proposes_in_bfloat16(model, options, 64));
  options.precision = "float32";
  CHECK(!proposes_in_bfloat16(model, options, 64));
  options.precision = "auto";
  options.candidates = 100;
  CHECK(!proposes_in_bfloat16(model, options, 64));
  options.candidates = 0;
  CHECK(!proposes_in_bfloat16(model, options, 64));  // a pass too small to gain
}

TEST_CASE("bfloat16: gradient passes get it, verdicts and findings are float32's") {
  FakeModel model = FakeModel::sum(1);
  int64_t low = 0, full = 0;
  model.on_iterate = [&](const at::Tensor& x) { low += x.scalar_type() == at::kBFloat16; };
  model.on_candidate = [&](const at::Tensor& x) { full += x.scalar_type() == at::kFloat; };
  // In bfloat16 an input of .9999 rounds to 1, which violates; in float32 none does.
  const std::vector<Property> properties = {
      property(1, 1, {{cube(1, 0.f, 0.9999f), {{{above(0, 1.)}}}}}),
      property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, 0.9995)}}}}})};
  LoopOptions options = test_options(3000);
  options.precision = "bfloat16";
  options.mutations = "descent,gradient";
  const Outcome out = run({campaign_model(model, properties)}, options);
  CHECK(low > 0);
  CHECK(full > 0);
  CHECK(out.result.totals.broken == 1);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].instance == 1);
  CHECK(out.findings[0].x.item<float>() >= 0.9995f);
  CHECK(out.result.instances[0].best_margin > 0.);
}
