#include "grapeshot/diff/neurons.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/files.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::diff;     // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kRows = 2000, kNeurons = 20;

Neurons neurons() {
  Neurons out;
  out.hits = at::arange(kNeurons).to(at::kFloat);  // neuron i was hit i times
  out.weight = at::arange(kNeurons).to(at::kFloat) - 10.f;
  out.response = at::linspace(0., 1., kNeurons).unsqueeze(0).expand({kRows, kNeurons}).contiguous();
  out.tau = 0.5;
  return out;
}

at::Tensor chosen(const char* names, int64_t count, const Neurons& known = neurons()) {
  Rng rng(uint64_t{7});
  return select_neurons(parse_strategies(names), known, count, rng);
}

// How often each neuron was chosen.
std::vector<float> shares(const at::Tensor& selected) {
  return floats(selected.abs().sum(0) / static_cast<double>(selected.size(0)));
}

}  // namespace

TEST_CASE("strategies: each drives so many neurons of every row, up or down") {
  for (const Strategy& row : strategies()) {
    CAPTURE(row.name);
    CHECK(!row.summary.empty());
    for (const int64_t count : {0, 1, 5, 50}) {
      const at::Tensor selected = chosen(std::string(row.name).c_str(), count);
      CHECK(selected.sizes() == at::IntArrayRef({kRows, kNeurons}));
      CHECK(selected.abs().le(1.f).all().item<bool>());
      CHECK(selected.abs().sum(1).le(static_cast<double>(count)).all().item<bool>());
    }
  }
}

TEST_CASE("strategies: the same seed chooses the same neurons, another others") {
  Rng one(uint64_t{1}), again(uint64_t{1}), other(uint64_t{2});
  const auto strategy = parse_strategies("1");
  const at::Tensor first = select_neurons(strategy, neurons(), 5, one);
  CHECK(at::equal(first, select_neurons(strategy, neurons(), 5, again)));
  CHECK(!at::equal(first, select_neurons(strategy, neurons(), 5, other)));
}

TEST_CASE("strategy 1: in proportion to how often a neuron was covered, never one that was not") {
  const std::vector<float> share = shares(chosen("1", 1));
  CHECK(share[0] == 0.f);
  // Of 190 hits.
  for (const size_t i : {5u, 10u, 19u}) {
    CHECK(share[i] == doctest::Approx(static_cast<double>(i) / 190.).epsilon(0.3));
  }
}

TEST_CASE("strategy 1: among many neurons in proportion as well, and none of them twice") {
  Neurons many = neurons();
  constexpr int64_t kMany = 400;
  many.hits = at::arange(kMany).to(at::kFloat);
  many.response = at::zeros({kRows, kMany});
  const std::vector<float> share = shares(chosen("1", 1, many));
  const double all = kMany * (kMany - 1) / 2.;
  CHECK(share[0] == 0.f);
  double upper = 0.;
  for (size_t i = 300; i < 400; ++i) upper += share[i];
  CHECK(upper == doctest::Approx((300 + 399) * 50. / all).epsilon(0.05));
  // Five of five, but where ten draws were not enough.
  const at::Tensor five = chosen("1", 5, many).sum(1);
  CHECK(five.le(5).all().item<bool>());
  CHECK(five.mean().item<double>() > 4.999);
  // Of three neurons with a weight each is drawn, and no other.
  many.hits.zero_();
  many.hits.index_fill_(0, at::tensor({7, 8, 399}, at::kLong), 1.);
  const at::Tensor three = chosen("1", 5, many);
  CHECK(three.sum(1).mean().item<double>() > 2.9);
  CHECK(three.sum().item<double>() ==
        three.index_select(1, at::tensor({7, 8, 399}, at::kLong)).sum().item<double>());
  many.hits.zero_();
  CHECK(chosen("1", 5, many).eq(0).all().item<bool>());
}

TEST_CASE("strategy 2: neurons that were covered less often more often") {
  const std::vector<float> share = shares(chosen("2", 1));
  CHECK(share[0] == doctest::Approx(19. / 190.).epsilon(0.3));
  CHECK(share[0] > share[10]);
  CHECK(share[10] > share[18]);
}

TEST_CASE("strategy 3: of the positive means the top tenth alone") {
  // Positive are 11 to 19, nine of them: one is a tenth.
  const std::vector<float> share = shares(chosen("3", 5));
  for (size_t i = 0; i < kNeurons; ++i) CHECK(share[i] == (i == 19 ? 1.f : 0.f));
  Neurons none = neurons();
  none.weight.fill_(-1.f);
  CHECK(chosen("3", 5, none).eq(0).all().item<bool>());
}

TEST_CASE("strategy 4: the nearest to the threshold, those above it down and the others up") {
  const at::Tensor selected = chosen("4", 4);
  // 0.5 lies between neurons 9 (.474) and 10 (.526).
  std::vector<float> expected(kNeurons, 0.f);
  expected[8] = expected[9] = 1.f;
  expected[10] = expected[11] = -1.f;
  CHECK(floats(selected[0]) == expected);
}

TEST_CASE("strategy random: neurons that nothing has covered, until there are none") {
  const std::vector<float> share = shares(chosen("random", 3));
  for (size_t i = 0; i < kNeurons; ++i) CHECK(share[i] == (i == 0 ? 1.f : 0.f));
}

TEST_CASE("strategies: several share the neurons out, the first taking more") {
  const at::Tensor selected = chosen("random+3", 3);
  CHECK(selected.select(1, 0).eq(1).all().item<bool>());
  CHECK(selected.select(1, 19).eq(1).all().item<bool>());
  CHECK(message_of(ErrorCode::kNotFound, [] {
          (void)parse_strategies("1+9");
        }).starts_with("no strategy is called '9'; known: 1, 2, 3, 4"));
}
