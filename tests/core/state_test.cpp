#include "grapeshot/core/state.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/corpus.h"
#include "tests/support/tensors.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

TEST_CASE("State: what was put in comes out again, through its bytes") {
  State state;
  state.put("x", at::arange(6, at::kFloat).view({2, 3}).t());
  state.put("n", int64_t{-7});
  state.put("seconds", 1.25);
  state.put("name", std::string_view("gr\0ad", 5));
  state.put("none", std::vector<int64_t>{});
  const State back = State::decode(state.encode());
  CHECK(at::equal(back.tensor("x"), at::arange(6, at::kFloat).view({2, 3}).t()));
  CHECK(back.integer("n") == -7);
  CHECK(back.real("seconds") == 1.25);
  CHECK(back.text("name") == std::string("gr\0ad", 5));
  CHECK(back.integers("none").empty());
  CHECK(!back.has("y"));
}

TEST_CASE("State: what is not there or of another kind is an error that names it") {
  State state;
  state.put("n", int64_t{1});
  state.put("x", at::zeros({2}));
  CHECK_THROWS_WITH_AS((void)state.tensor("y"), "it holds no 'y'", Error);
  CHECK_THROWS_WITH_AS((void)state.real("n"), "its 'n' is of another kind", Error);
  CHECK_THROWS_WITH_AS(state.fill("x", at::zeros({3})), "its 'x' is of another shape", Error);
}

TEST_CASE("State: a part of a tensor is written without the rest") {
  State state;
  state.put("x", at::zeros({1 << 20}).slice(0, 0, 4));
  CHECK(state.encode().size() < 4096);
}

TEST_CASE("State: bytes that are no state are refused, wherever they were cut") {
  State state;
  state.put("x", at::arange(100, at::kFloat));
  const std::vector<char> bytes = state.encode();
  CHECK_THROWS_AS((void)State::decode({}), Error);
  CHECK_THROWS_AS((void)State::decode({'a', 'b', 'c'}), Error);
  for (size_t cut = 1; cut < bytes.size(); cut += 97) {
    CHECK_THROWS_AS(
        (void)State::decode({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut)}),
        Error);
  }
}

TEST_CASE("Corpus: one that was loaded draws and inserts as the one that was saved") {
  const at::Tensor originals = at::arange(4, at::kFloat).view({2, 2});
  Corpus first(originals, 5), second(originals, 5);
  Rng rng(uint64_t{1});
  const auto grow = [&](Corpus& corpus, float value) {
    const Seeds parents = corpus.gather(at::tensor({0, 1}, at::kLong));
    (void)corpus.insert(parents, at::full({2, 2}, value) + parents.x, at::tensor({1.f, 3.f}));
  };
  for (const float value : {10.f, 20.f, 30.f}) grow(first, value);
  State state;
  first.save(state, "c/");
  second.load(State::decode(state.encode()), "c/");
  CHECK(second.size() == 5);
  for (Corpus* corpus : {&first, &second}) grow(*corpus, 30.f);  // known already
  for (Corpus* corpus : {&first, &second}) grow(*corpus, 40.f);
  std::vector<at::Tensor> drawn;
  for (Corpus* corpus : {&first, &second}) {
    rng.reseed(7);
    const Seeds seeds = corpus->gather(corpus->draw(20, rng));
    drawn.push_back(at::cat({seeds.x, seeds.id.unsqueeze(1).to(at::kFloat)}, 1));
  }
  CHECK(at::equal(drawn[0], drawn[1]));
}
