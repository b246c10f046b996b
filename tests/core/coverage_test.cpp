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

constexpr std::vector<at::Tensor> Observation::*kSeen[] = {
    &Observation::activations, &Observation::means, &Observation::extremes, &Observation::states,
    &Observation::attention};

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
  std::vector<SequenceTap> recurrent = {{"r", {5, 3}}, {"s", {2, 1}}};
  std::vector<SequenceTap> attention = {{"h", {2, 4, 3}}};
  Profile profile = {.model_sha256 = "", .rows = 40, .taps = {}, .layer = "c"};

  Network() {
    for (size_t t = 0; t < taps.size(); ++t) {
      profile.taps.push_back({taps[t], at::full({neurons[t]}, 0.2f), at::full({neurons[t]}, 0.7f),
                              at::full({neurons[t]}, 0.01f)});
    }
    for (const SequenceTap& layer : recurrent) {
      const int64_t units = layer.shape[1];
      profile.states.push_back(
          {layer.name, at::full({units}, 0.2f), at::full({units}, 0.7f), at::full({units}, 0.01f)});
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
    more.cells = 7;
    return {taps,      neurons,  {.strategy = strategy, .tau = 0.9, .more = more}, &profile, "net",
            recurrent, attention};
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
    for (const SequenceTap& layer : recurrent) {
      out.states.push_back(at::rand({rows, layer.shape[0], layer.shape[1]}));
    }
    for (const SequenceTap& layer : attention) {
      const auto& size = layer.shape;
      out.attention.push_back(at::softmax(3. * at::randn({rows, size[0], size[1], size[2]}), 3));
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
      for (const auto of : kSeen) {
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
    for (const auto of : kSeen) {
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

TEST_CASE("criteria: without the layers that they look at there is one clear sentence") {
  const Network network;
  CriterionSetup setup = network.setup(CoverageStrategy::kGlobal);
  setup.recurrent.clear();
  setup.attention.clear();
  const auto said = [&](const char* name) {
    return message_of(ErrorCode::kInvalidArgument,
                      [&] { (void)make_criterion(find_criterion(name), setup); });
  };
  CHECK(said("hidden") == "net: has no recurrent layer, which criterion hidden looks at");
  CHECK(said("attention").starts_with("net: has no attention, "));
  setup.recurrent = {{"other", {5, 3}}};
  CHECK(said("hidden").find("know no states of layer 'other'") != std::string::npos);
}

TEST_CASE("hidden: cells that a unit was in and steps between them, each once an input") {
  Network network;
  network.recurrent = {{"r", {3, 1}}};
  network.profile.states = {{"r", at::zeros({1}), at::ones({1}), at::ones({1})}};
  CriterionSetup setup = network.setup(CoverageStrategy::kGlobal);
  setup.options.more.cells = 2;  // 2 cells, 4 steps
  const auto hidden = make_criterion(find_criterion("hidden"), setup);
  const auto gain_of = [&](const std::vector<float>& states) {
    Observation seen;
    seen.y = at::zeros({static_cast<int64_t>(states.size()) / 3, 2});
    seen.states = {at::tensor(states).view({-1, 3, 1})};
    return floats(hidden->update(seen));
  };
  // Low, low, low: a cell and a step, whatever their number. Nothing lies outside of the range.
  CHECK(gain_of({0.f, 0.1f, 0.4f}) == std::vector<float>{2.f});
  CHECK(hidden->value() == 2. / 6.);
  CHECK(gain_of({-1.f, 0.1f, 2.f}) == std::vector<float>{0.f});
  // No step leads over what is outside.
  CHECK(gain_of({0.1f, 2.f, 1.f, 0.6f, 0.1f, 0.1f}) == std::vector<float>{1.f, 2.f});
  CHECK(hidden->value() == 4. / 6.);
  CHECK(gain_of({0.5f, 0.9f, 0.9f}) == std::vector<float>{1.f});
  CHECK(gain_of({0.4f, 0.9f, 0.2f}) == std::vector<float>{1.f});
  CHECK(hidden->complete());
}

TEST_CASE("attention: the strongest key's place beside its query, and how spread the weights are") {
  Network network;
  network.attention = {{"h", {1, 2, 2}}};
  CriterionSetup setup = network.setup(CoverageStrategy::kGlobal);
  setup.options.more.cells = 2;  // 3 places, 2 parts of the entropy
  const auto attention = make_criterion(find_criterion("attention"), setup);
  const auto gain_of = [&](const std::vector<float>& weights) {
    Observation seen;
    seen.y = at::zeros({1, 2});
    seen.attention = {at::tensor(weights).view({1, 1, 2, 2})};
    return floats(attention->update(seen));
  };
  CHECK(gain_of({1.f, 0.f, 0.f, 1.f}) == std::vector<float>{1.f});      // itself, both times
  CHECK(gain_of({0.f, 1.f, 1.f, 0.f}) == std::vector<float>{2.f});      // the next, the one before
  CHECK(gain_of({0.5f, 0.5f, 0.4f, 0.6f}) == std::vector<float>{1.f});  // itself, spread
  CHECK(attention->value() == 4. / 6.);
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
