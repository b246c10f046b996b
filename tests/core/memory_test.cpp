#include "grapeshot/core/memory.h"

#include <algorithm>
#include <new>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/campaigns.h"
#include "tests/support/fake_model.h"
#include "tests/support/properties.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

// Says that a row takes 1 MiB and takes it.
class Large : public FakeModel {
 public:
  Large() : FakeModel(FakeModel::sum(1)) {}
  [[nodiscard]] int64_t activation_values() const override { return int64_t{1} << 18; }
  [[nodiscard]] Gradient gradient(const at::Tensor& x, Head head, const Surrogate& surrogate,
                                  const Cotangent& cotangent) const override {
    const at::Tensor kept = at::empty({x.size(0), int64_t{1} << 18});
    return FakeModel::gradient(x, head, surrogate, cotangent);
  }
};

// Has memory for `most` rows.
class Tight : public FakeModel {
 public:
  explicit Tight(int64_t most) : FakeModel(FakeModel::sum(1)), most_(most) {
    function = [this](const at::Tensor& x) {
      largest_ = std::max(largest_, x.size(0));
      if (x.size(0) > most_) throw std::bad_alloc();
      return at::addmm(b.to(x.scalar_type()), x, w.to(x.scalar_type()).t());
    };
  }
  int64_t largest_ = 0;

 private:
  int64_t most_;
};

}  // namespace

TEST_CASE("peak_tensor_bytes: what is there at the same time, not in all") {
  const int64_t peak = peak_tensor_bytes([] {
    for (int i = 0; i < 10; ++i) {
      const at::Tensor one = at::empty({1 << 18});
      const at::Tensor two = at::empty({1 << 18});
    }
  });
  CHECK(peak >= 2 << 20);
  CHECK(peak < 3 << 20);
}

TEST_CASE("is_out_of_memory: what the library, torch and grapeshot say, and nothing else") {
  CHECK(is_out_of_memory(std::bad_alloc()));
  CHECK(is_out_of_memory(OutOfMemory("no more")));
  CHECK(!is_out_of_memory(Error(ErrorCode::kSystem, "no such device")));
  bool torch = false;
  try {
    (void)at::empty({int64_t{1} << 46});
  } catch (const std::exception& error) {
    torch = is_out_of_memory(error);
  }
  CHECK(torch);
}

TEST_CASE("rows_within: few rows where memory is short, one at least") {
  const Large model;
  const int64_t mib = int64_t{1} << 20;
  CHECK(rows_within(model, 1000 * mib) > 4);
  const int64_t few = rows_within(model, 3 * mib);
  CHECK(few >= 2);
  CHECK(few <= 3);
  CHECK(rows_within(model, 1) == 1);
  // What the specifications gather for a row counts as well.
  const int64_t fewer = rows_within(model, 20 * mib, 4 * mib);
  CHECK(fewer >= 3);
  CHECK(fewer <= 4);
}

TEST_CASE("share_memory: fewer lanes, with several threads, where rows do not fit for all") {
  const Large model;
  const int64_t mib = int64_t{1} << 20;
  const Room wide = share_memory({&model}, 1000 * mib, 8);
  CHECK(wide.lanes == 8);
  CHECK(wide.threads == 1);
  CHECK(wide.corpus_bytes * 9 + wide.pass_bytes * 8 <= 1000 * mib);
  const Room narrow = share_memory({&model}, 5 * mib, 8);
  CHECK(narrow.lanes == 2);
  CHECK(narrow.threads == 4);
}

TEST_CASE("run_campaign: goes on with fewer rows at once where memory runs out") {
  const Tight tight(5);
  FakeModel ample = FakeModel::sum(1);
  const std::vector<Property> properties = {
      property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, 0.999)}}}}}),
      property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, 7.)}}}}})};
  LoopOptions options = test_options(2000);
  options.batch = "64";
  class Notes : public Collector {
   public:
    void on_note(const std::string& text) override { notes.push_back(text); }
    std::vector<std::string> notes;
  };
  Notes notes;
  const std::atomic<bool> stop = false;
  const CampaignResult result =
      run_campaign({campaign_model(tight, properties)}, options, notes, stop);
  CHECK(tight.largest_ > 5);
  CHECK(result.totals.broken == 1);
  CHECK(result.totals.candidates >= 2000);
  REQUIRE(!notes.notes.empty());
  CHECK(notes.notes.back().find("out of memory; going on with") != std::string::npos);
  CHECK(run({campaign_model(ample, properties)}, options).result.totals.broken == 1);
}

TEST_CASE("run_campaign: no memory for a single row ends it") {
  const Tight none(0);
  const std::vector<Property> properties = {
      property(1, 1, {{cube(1, 0.f, 1.f), {{{above(0, 7.)}}}}})};
  CHECK_THROWS_AS((void)run({campaign_model(none, properties)}, test_options(100)), std::bad_alloc);
}
