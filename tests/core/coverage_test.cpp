#include "grapeshot/core/coverage.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/files.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr CoverageStrategy kStrategies[] = {CoverageStrategy::kGlobal,
                                            CoverageStrategy::kBestInput};

std::unique_ptr<Criterion> make(const char* name, const std::vector<int64_t>& neurons,
                                CoverageStrategy strategy, double tau = 0.1) {
  return find_criterion(name).make(neurons, {.strategy = strategy, .tau = tau});
}

// Two taps of 2 and 3 neurons.
std::vector<at::Tensor> activations(const std::vector<std::vector<float>>& rows) {
  std::vector<float> left, right;
  for (const auto& row : rows) {
    left.insert(left.end(), row.begin(), row.begin() + 2);
    right.insert(right.end(), row.begin() + 2, row.end());
  }
  const auto n = static_cast<int64_t>(rows.size());
  return {left.empty() ? at::zeros({0, 2}) : matrix(n, 2, left),
          right.empty() ? at::zeros({0, 3}) : matrix(n, 3, right)};
}

std::vector<float> gain(Criterion& criterion, const std::vector<std::vector<float>>& rows) {
  const at::Tensor g = criterion.update(activations(rows));
  CHECK((g.scalar_type() == at::kFloat));
  return floats(g);
}

}  // namespace

TEST_CASE("criteria: gains are >= 0, a batch seen twice gains nothing, the value never falls") {
  for (const CriterionRow& row : criteria()) {
    CAPTURE(row.name);
    CHECK(!row.summary.empty());
    for (const CoverageStrategy strategy : kStrategies) {
      const std::vector<int64_t> neurons = {4, 1, 30};
      const auto criterion = row.make(neurons, {.strategy = strategy, .tau = 0.9});
      CHECK(criterion->value() == 0.);
      double value = 0.;
      for (int i = 0; i < 30; ++i) {
        std::vector<at::Tensor> batch;
        for (const int64_t width : neurons) batch.push_back(at::rand({5, width}));
        const at::Tensor g = criterion->update(batch);
        CHECK(g.sizes() == at::IntArrayRef{5});
        CHECK(g.ge(0).all().item<bool>());
        CHECK((criterion->value() > value) == g.gt(0).any().item<bool>());
        CHECK(criterion->value() >= value);
        CHECK(criterion->value() <= 1.);
        value = criterion->value();
        CHECK(criterion->complete() == (value == 1.));
        CHECK(criterion->update(batch).eq(0).all().item<bool>());
        CHECK(criterion->value() == value);
      }
      CHECK(value > 0.);
    }
  }
}

TEST_CASE("criteria: no rows gain nothing") {
  for (const CriterionRow& row : criteria()) {
    for (const CoverageStrategy strategy : kStrategies) {
      const std::vector<int64_t> neurons = {2, 3};
      const auto criterion = row.make(neurons, {.strategy = strategy});
      CHECK(criterion->update(activations({})).numel() == 0);
      CHECK(criterion->value() == 0.);
    }
  }
}

TEST_CASE("criteria: a network without neurons is covered, and has the value 0") {
  for (const CriterionRow& row : criteria()) {
    const auto criterion = row.make({}, {});
    CHECK(criterion->value() == 0.);
    CHECK(criterion->complete());
  }
}

TEST_CASE("GlobalCov: gains are neurons outside the union before the batch") {
  const auto nc = make("nc", {2, 3}, CoverageStrategy::kGlobal);
  // The threshold itself does not fire; two rows of one batch gain the same neuron both.
  CHECK(gain(*nc, {{0.f, 0.1f, 0.f, 0.f, 0.09f}}) == std::vector<float>{0.f});
  CHECK(nc->value() == 0.);
  CHECK(gain(*nc,
             {{0.2f, 0.f, 0.f, 0.f, 0.f}, {0.2f, 0.f, 0.f, 5.f, 0.f}, {0.f, 0.f, 0.f, 0.f, 0.f}}) ==
        std::vector<float>{1.f, 2.f, 0.f});
  CHECK(nc->value() == 2. / 5.);
  CHECK(gain(*nc, {{9.f, 0.f, 0.f, 9.f, 0.2f}, {9.f, 0.f, 0.f, 9.f, 0.f}}) ==
        std::vector<float>{1.f, 0.f});
  CHECK(nc->value() == 3. / 5.);
  CHECK(!nc->complete());
  CHECK(gain(*nc, {{0.f, 1.f, 1.f, 0.f, 0.f}}) == std::vector<float>{2.f});
  CHECK(nc->value() == 1.);
  CHECK(nc->complete());
}

TEST_CASE("BestInputCov: gains are neurons more than any single input fired before") {
  const auto nc = make("nc", {2, 3}, CoverageStrategy::kBestInput, 0.5);
  CHECK(gain(*nc, {{1.f, 0.f, 0.f, 0.f, 0.f}, {0.f, 0.f, 1.f, 1.f, 0.5f}}) ==
        std::vector<float>{1.f, 2.f});
  CHECK(nc->value() == 2. / 5.);
  // Other neurons, but no more of them.
  CHECK(gain(*nc, {{1.f, 1.f, 0.f, 0.f, 0.f}, {0.f, 0.f, 0.f, 0.f, 1.f}}) ==
        std::vector<float>{0.f, 0.f});
  CHECK(nc->value() == 2. / 5.);
  CHECK(gain(*nc, {{1.f, 1.f, 1.f, 1.f, 0.f}}) == std::vector<float>{2.f});
  CHECK(nc->value() == 4. / 5.);
  CHECK(!nc->complete());
  CHECK(gain(*nc, {{1.f, 1.f, 1.f, 1.f, 1.f}}) == std::vector<float>{1.f});
  CHECK(nc->complete());
}

TEST_CASE("criteria: an activation that is NaN fires nothing") {
  for (const CoverageStrategy strategy : kStrategies) {
    const auto nc = make("nc", {2, 3}, strategy);
    CHECK(gain(*nc, {{kNan, kNan, kNan, kNan, kNan}}) == std::vector<float>{0.f});
    CHECK(gain(*nc, {{kInf, kNan, 0.f, 0.f, 0.f}}) == std::vector<float>{1.f});
  }
}

TEST_CASE("find_criterion: an unknown name lists the known ones") {
  CHECK(message_of(ErrorCode::kNotFound, [] {
          (void)find_criterion("kmnc2");
        }).starts_with("no criterion is called 'kmnc2'; known: nc"));
}
