#include "grapeshot/falsify/portfolio.h"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/deadline.h"
#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

LoopOptions portfolio_options(double seconds) {
  LoopOptions options = test_options(0);
  options.mutations = "portfolio";
  options.criterion = "none";
  options.seconds = seconds;
  return options;
}

Outcome search(const CampaignModel& model, const LoopOptions& options,
               const SecondOpinion& opinion = nullptr) {
  Collector collector;
  const std::atomic<bool> stop = false;
  CampaignParts parts;
  parts.make = falsify::make_portfolio;
  parts.opinion = opinion;
  Outcome out;
  out.result = run_campaign({model}, options, collector, stop, parts);
  out.findings = std::move(collector.findings);
  return out;
}

Property at_most(int64_t inputs, double bound) {
  return property(inputs, 1, {{cube(inputs, 0.f, 1.f), {{{below(0, bound)}}}}});
}

}  // namespace

TEST_CASE("portfolio: breaks many instances of one model, each once, and leaves the others") {
  const FakeModel model = FakeModel::sum(6);
  std::vector<Property> properties;
  for (int i = 0; i < 40; ++i) properties.push_back(at_most(6, i % 4 == 0 ? -0.5 : 0.25 + 0.1 * i));
  const Outcome out = search(campaign_model(model, properties), portfolio_options(3.));
  CHECK(out.findings.size() == 30);
  for (size_t i = 0; i < properties.size(); ++i) {
    CAPTURE(i);
    CHECK(out.result.instances[i].findings == (i % 4 == 0 ? 0 : 1));
  }
  CHECK(out.result.instances[0].best_margin == doctest::Approx(0.5));
}

TEST_CASE("portfolio: the same seed and one lane give the same findings") {
  const FakeModel model = FakeModel::sum(9);
  const Property p = at_most(9, 0.3);
  const auto once = [&] {
    return search(campaign_model(model, {p}), portfolio_options(20.)).findings.at(0);
  };
  const Finding a = once(), b = once();
  CHECK(at::equal(a.x, b.x));
  CHECK(a.mutation == b.mutation);
  CHECK(a.iteration == b.iteration);
}

TEST_CASE("portfolio: an instance without a free input is tried once and given up") {
  const FakeModel model = FakeModel::sum(3);
  const Property p = property(3, 1, {{box({.5f, .5f, .5f}, {.5f, .5f, .5f}), {{{below(0, 1.)}}}}});
  const Clock::time_point start = Clock::now();
  const Outcome out = search(campaign_model(model, {p}), portfolio_options(30.));
  CHECK(seconds_since(start) < 5.);
  CHECK(out.findings.empty());
  CHECK(out.result.instances[0].exhausted);
  CHECK(out.result.instances[0].best_margin == doctest::Approx(0.5));
}

TEST_CASE("portfolio: attacks that do not apply end the search instead of spinning") {
  const FakeModel model = FakeModel::sum(100);
  LoopOptions options = portfolio_options(30.);
  options.attacks = "grid";  // of up to 8 free inputs
  const Property p = at_most(100, -1.);
  const Clock::time_point start = Clock::now();
  const Outcome out = search(campaign_model(model, {p}), options);
  CHECK(seconds_since(start) < 5.);
  CHECK(out.result.instances[0].exhausted);
}

TEST_CASE("portfolio: NaN is noted with its input and is no finding") {
  FakeModel model = FakeModel::sum(2);
  model.function = [](const at::Tensor& x) {
    return at::where(x.slice(1, 0, 1) > 0.7, std::nan(""), 1. + 0. * x.slice(1, 0, 1));
  };
  const Property p = at_most(2, 0.);
  const Outcome out = search(campaign_model(model, {p}), portfolio_options(1.));
  CHECK(out.findings.empty());
  REQUIRE(out.result.instances[0].nan.defined());
  CHECK(out.result.instances[0].nan.select(0, 0).item<float>() > 0.7f);
}

TEST_CASE("portfolio: a limit is kept to a tenth of a second") {
  FakeModel model = FakeModel::sum(50);
  for (const double limit : {0.05, 0.5}) {
    const Clock::time_point start = Clock::now();
    const Property p = at_most(50, -1.);
    (void)search(campaign_model(model, {p}), portfolio_options(limit));
    CHECK(seconds_since(start) < limit + 0.1);
  }
}

TEST_CASE("portfolio: what rounding may undo needs a second opinion") {
  // The margin is 0 where the sum is exactly 1.5 (in float32) and above elsewhere; float64 says a
  // trifle less, so that float32's own error is as large as the margin.
  FakeModel model = FakeModel::sum(4);
  model.function = [](const at::Tensor& x) {
    const at::Tensor off = (x.sum(1, true) - 1.5).abs();
    return x.scalar_type() == at::kDouble ? off - 1e-9 : off;
  };
  model.pullback = [](const at::Tensor& x, const at::Tensor& c) {
    return c * (x.sum(1, true) - 1.5).sign().expand_as(x);
  };
  const std::vector<Property> properties = {at_most(4, 0.)};
  const CampaignModel campaign = campaign_model(model, properties);
  const Outcome alone = search(campaign, portfolio_options(1.));
  CHECK(alone.findings.empty());
  CHECK(alone.result.totals.borderline > 0);
  int64_t asked = 0;
  const auto says = [&](bool answer) {
    return [&asked, answer](int64_t, const Property&, const at::Tensor&) {
      ++asked;
      return std::optional<bool>(answer);
    };
  };
  CHECK(search(campaign, portfolio_options(1.), says(false)).findings.empty());
  const Outcome agreed = search(campaign, portfolio_options(5.), says(true));
  REQUIRE(agreed.findings.size() == 1);
  CHECK(agreed.findings[0].confirmation.holds);
  CHECK(!agreed.findings[0].confirmation.clear);
  CHECK(agreed.findings[0].opinion == true);
  CHECK(asked > 0);
}

TEST_CASE("portfolio: of many boxes of one input each all are tried, the last one too") {
  const FakeModel model = FakeModel::sum(2);
  std::vector<Region> regions;
  for (int i = 0; i < 700; ++i) {
    const float v = i == 699 ? -1.f : 1.f;
    regions.push_back({box({v, v}, {v, v}), {{{below(0, 0.)}}}});
  }
  const std::vector<Property> properties = {property(2, 1, regions)};
  const Outcome out = search(campaign_model(model, properties), portfolio_options(20.));
  REQUIRE(out.findings.size() == 1);
  CHECK(out.findings[0].region == 699);
}

TEST_CASE("portfolio: many instances without a free input, beside one with") {
  const FakeModel model = FakeModel::sum(2);
  std::vector<Property> properties;
  for (int i = 0; i < 40; ++i) {
    const float v = i % 2 == 0 ? -1.f : 1.f;
    properties.push_back(property(2, 1, {{box({v, v}, {v, v}), {{{below(0, 0.)}}}}}));
  }
  properties.push_back(at_most(2, 0.5));
  for (const char* attacks : {"all", "sobol", "grid", "cmaes", "split"}) {
    CAPTURE(attacks);
    LoopOptions options = portfolio_options(20.);
    options.attacks = attacks;
    const Outcome out = search(campaign_model(model, properties), options);
    CHECK(out.findings.size() == (std::string(attacks) == "split" ? 20 : 21));
  }
}

TEST_CASE("portfolio: several findings of one instance are different inputs") {
  const FakeModel model = FakeModel::sum(6);
  LoopOptions options = portfolio_options(20.);
  options.per_instance = 25;
  const std::vector<Property> properties = {at_most(6, 2.5)};
  const Outcome out = search(campaign_model(model, properties), options);
  CHECK(out.findings.size() == 25);
  CHECK(out.result.totals.distinct_violations >= 25);
}

TEST_CASE("portfolio: an overflow of a step is not taken for a NaN of the network") {
  FakeModel model = FakeModel::sum(1);
  model.function = [](const at::Tensor& x) { return at::relu(x.sum(1, true)) + 1e9; };
  model.pullback = [](const at::Tensor& x, const at::Tensor&) { return at::zeros_like(x); };
  const std::vector<Property> properties = {at_most(1, 0.)};
  const Outcome out = search(campaign_model(model, properties), portfolio_options(1.));
  CHECK(!out.result.instances[0].nan.defined());
}
