#include "grapeshot/core/coverage.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
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
  return make_criterion(find_criterion(name),
                        {.neurons = neurons, .options = {.strategy = strategy, .tau = tau}});
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
  const at::Tensor g = criterion.update({.activations = activations(rows)});
  CHECK((g.scalar_type() == at::kFloat));
  return floats(g);
}

// Taps of a made-up network with statistics and what a batch does to them.
struct Network {
  std::vector<std::string> taps = {"a", "b", "c"};
  std::vector<int64_t> neurons = {4, 1, 30};
  Profile profile = {.model_sha256 = "", .rows = 40, .taps = {}, .layer = "c"};

  Network() {
    for (size_t t = 0; t < taps.size(); ++t) {
      profile.taps.push_back({taps[t], at::full({neurons[t]}, 0.2f), at::full({neurons[t]}, 0.7f),
                              at::full({neurons[t]}, 0.01f)});
    }
    profile.traces = at::rand({40, 30});
    profile.predicted = at::arange(40) % 3;
  }

  [[nodiscard]] CriterionSetup setup(CoverageStrategy strategy) const {
    CriterionOptions more;
    more.sections = 20;
    more.top = 2;
    more.buckets = 50;
    more.upper_bound = 100.;
    return {taps, neurons, {.strategy = strategy, .tau = 0.9, .more = more}, &profile};
  }

  [[nodiscard]] Observation batch(int64_t rows) const {
    Observation out;
    out.y = at::rand({rows, 3});
    for (const int64_t width : neurons) {
      out.activations.push_back(at::rand({rows, width}));
      out.means.push_back(out.activations.back() - 0.1f);
      const auto [least, most] =
          at::aminmax(at::cat({out.means.back(), at::ones({rows, 1})}, 1), 1);
      out.extremes.push_back(at::stack({least, most}, 1));
    }
    return out;
  }
};

// Of every criterion under every strategy that it has.
template <class Check>
void for_criteria(const Check& check) {
  for (const CriterionRow& row : criteria()) {
    CAPTURE(row.name);
    for (const CoverageStrategy strategy : kStrategies) {
      const bool global = strategy == CoverageStrategy::kGlobal;
      if (global || row.activations || row.extremes) check(row, strategy);
    }
  }
}

}  // namespace

TEST_CASE("criteria: gains are >= 0, a batch seen twice gains nothing, the value never falls") {
  for_criteria([](const CriterionRow& row, CoverageStrategy strategy) {
    CHECK(!row.summary.empty());
    const Network network;
    const auto criterion = make_criterion(row, network.setup(strategy));
    CHECK(criterion->value() == 0.);
    double value = 0.;
    for (int i = 0; i < 30; ++i) {
      const Observation batch = network.batch(5);
      const at::Tensor g = criterion->update(batch);
      CHECK(g.sizes() == at::IntArrayRef{5});
      CHECK((g.scalar_type() == at::kFloat));
      CHECK(g.ge(0).all().item<bool>());
      CHECK((criterion->value() > value) == g.gt(0).any().item<bool>());
      CHECK(criterion->value() >= value);
      value = criterion->value();
      if (row.share) {
        CHECK(value <= 1.);
        CHECK(criterion->complete() == (value == 1.));
      }
      if (!row.repeatable) continue;
      CHECK(criterion->update(batch).eq(0).all().item<bool>());
      CHECK(criterion->value() == value);
    }
    CHECK(value > 0.);
  });
}

TEST_CASE("criteria: what is saved and loaded goes on as if it had not been") {
  for_criteria([](const CriterionRow& row, CoverageStrategy strategy) {
    const Network network;
    const auto first = make_criterion(row, network.setup(strategy));
    (void)first->update(network.batch(7));
    State state;
    first->save(state, "at/");
    const auto second = make_criterion(row, network.setup(strategy));
    second->load(State::decode(state.encode()), "at/");
    CHECK(second->value() == first->value());
    const Observation batch = network.batch(6);
    CHECK(at::equal(first->update(batch), second->update(batch)));
    CHECK(second->value() == first->value());
  });
}

TEST_CASE("criteria: a batch gains what its rows gain together, whatever its size") {
  for_criteria([](const CriterionRow& row, CoverageStrategy strategy) {
    if (row.name == "nlc") return;  // goes by batches
    const Network network;
    const auto whole = make_criterion(row, network.setup(strategy));
    const auto single = make_criterion(row, network.setup(strategy));
    const Observation batch = network.batch(9);
    (void)whole->update(batch);
    for (int64_t r = 0; r < 9; ++r) {
      Observation one;
      one.y = batch.y.slice(0, r, r + 1);
      for (const auto of :
           {&Observation::activations, &Observation::means, &Observation::extremes}) {
        for (const at::Tensor& a : batch.*of) (one.*of).push_back(a.slice(0, r, r + 1));
      }
      (void)single->update(one);
    }
    CHECK(single->value() == doctest::Approx(whole->value()));
  });
}

TEST_CASE("criteria: no rows gain nothing") {
  for_criteria([](const CriterionRow& row, CoverageStrategy strategy) {
    const Network network;
    const auto criterion = make_criterion(row, network.setup(strategy));
    CHECK(criterion->update(network.batch(0)).numel() == 0);
    CHECK(criterion->value() == 0.);
  });
}

TEST_CASE("criteria: NaN and infinity anywhere cover nothing that is not there") {
  for_criteria([](const CriterionRow& row, CoverageStrategy strategy) {
    const Network network;
    const auto criterion = make_criterion(row, network.setup(strategy));
    Observation batch = network.batch(3);
    batch.y.fill_(kNan);
    for (auto of : {&Observation::activations, &Observation::means, &Observation::extremes}) {
      for (at::Tensor& a : batch.*of) a.fill_(kNan);
    }
    const at::Tensor g = criterion->update(batch);
    CHECK(at::isfinite(g).all().item<bool>());
    if (row.name != "tknc" && row.name != "bknc" && row.name != "tknp") {
      CHECK(g.eq(0).all().item<bool>());
    }
    CHECK(std::isfinite(criterion->value()));
  });
}

TEST_CASE("criteria: without what they compare with there is one clear sentence") {
  const Network network;
  for (const CriterionRow& row : criteria()) {
    CAPTURE(row.name);
    CriterionSetup setup = network.setup(CoverageStrategy::kGlobal);
    setup.profile = nullptr;
    if (row.profiled) {
      CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
              (void)make_criterion(row, setup);
            }).find("needs reference statistics") != std::string::npos);
    }
    setup.profile = &network.profile;
    setup.taps[1] = "other";
    if (row.profiled) {
      CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
              (void)make_criterion(row, setup);
            }).find("know no layer 'other'") != std::string::npos);
    }
    if (!row.activations && !row.extremes) {
      CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
              (void)make_criterion(row, network.setup(CoverageStrategy::kBestInput));
            }).find("--coverage best-input is for nc") != std::string::npos);
    }
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
