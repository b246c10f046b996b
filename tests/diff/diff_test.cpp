#include "grapeshot/diff/diff.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "tests/support/fake_model.h"
#include "tests/support/files.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::diff;     // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

class Collector final : public DiffObserver {
 public:
  bool on_difference(const Difference& difference) override {
    found.push_back(difference);
    return accepts;
  }
  void on_progress(const DiffProgress& /*progress*/) override { ++told; }
  void on_note(const std::string& text) override { notes.push_back(text); }

  std::vector<Difference> found;
  std::vector<std::string> notes;
  bool accepts = true;
  int told = 0;
};

// Classes are which of two inputs is larger: an image differs nearby where they are close.
struct Larger : FakeModel {
  Larger() : FakeModel(at::eye(2), at::zeros({2})) { add_tap(); }
};

DiffOptions options() {
  DiffOptions out;
  out.seconds = 0.;
  out.candidates = 600;
  out.limits.l2 = 0.1;
  out.limits.low = -1.;
  out.limits.high = 1.;
  return out;
}

struct Outcome {
  DiffProgress progress;
  std::vector<Difference> found;
};

Outcome go(const std::vector<const Model*>& models, const at::Tensor& images,
           const DiffOptions& how, bool stopped = false, bool accepts = true) {
  Collector collector;
  collector.accepts = accepts;
  const std::atomic<bool> stop = stopped;
  Outcome out;
  out.progress = run_diff(models, images, how, nullptr, collector, stop);
  out.found = collector.found;
  return out;
}

}  // namespace

TEST_CASE("diff: an image that has another class within reach, and one that has not") {
  const Larger model;
  // |0.5 - 0.55| is crossed within a tenth of the norm, |0.9 - 0.1| is not.
  const at::Tensor images = matrix(2, 2, {0.5f, 0.55f, 0.9f, 0.1f});
  const Outcome out = go({&model}, images, options());
  CHECK(out.progress.images == 2);
  CHECK(out.progress.broken == 1);
  REQUIRE(!out.found.empty());
  for (const Difference& d : out.found) {
    CHECK(d.image == 0);
    CHECK(d.before == 1);
    CHECK(d.after == 0);
    const at::Tensor off = d.x.to(at::kDouble) - images[0].to(at::kDouble);
    CHECK(d.l2 == doctest::Approx(off.norm().item<double>()));
    CHECK(d.share <= 0.1);
    CHECK(d.x.abs().le(1.f).all().item<bool>());
    CHECK(d.x[0].item<float>() > d.x[1].item<float>());
  }
}

TEST_CASE("diff: the same seed gives the same differences, one image at a time as well") {
  const Larger model;
  const at::Tensor images = matrix(3, 2, {0.5f, 0.52f, 0.3f, 0.31f, 0.8f, 0.78f});
  for (const int64_t batch : {0, 1}) {
    DiffOptions how = options();
    how.batch = batch;
    how.keep_going = true;
    const Outcome one = go({&model}, images, how), again = go({&model}, images, how);
    REQUIRE(one.found.size() == again.found.size());
    CHECK(!one.found.empty());
    for (size_t i = 0; i < one.found.size(); ++i) {
      CHECK(at::equal(one.found[i].x, again.found[i].x));
    }
    CHECK(one.progress.candidates >= 600);
  }
}

TEST_CASE("diff: an image of zeros has no ball, and nothing goes wrong") {
  const Larger model;
  const Outcome out = go({&model}, at::zeros({1, 2}), options());
  CHECK(out.found.empty());
  CHECK(out.progress.broken == 0);
}

TEST_CASE("diff: outputs that are NaN leave an image out") {
  Larger model;
  model.function = [](const at::Tensor& x) { return at::full_like(x, kNan); };
  const Outcome out = go({&model}, matrix(1, 2, {0.5f, 0.55f}), options());
  CHECK(out.progress.left_out == 1);
  CHECK(out.found.empty());
}

TEST_CASE("diff: stopped before it begins") {
  const Larger model;
  const Outcome out = go({&model}, matrix(1, 2, {0.5f, 0.55f}), options(), /*stopped=*/true);
  CHECK(out.progress.candidates == 0);
  CHECK(out.found.empty());
}

TEST_CASE("diff: what its observer does not accept counts for nothing") {
  const Larger model;
  const Outcome out =
      go({&model}, matrix(1, 2, {0.5f, 0.55f}), options(), false, /*accepts=*/false);
  CHECK(!out.found.empty());
  CHECK(out.progress.differences == 0);
  CHECK(out.progress.broken == 0);
}

TEST_CASE("diff: several models, one of which at least stays with the class") {
  const Larger first;
  Larger second;
  second.b = vector({0.04f, 0.f});  // changes its mind sooner
  const at::Tensor images = matrix(2, 2, {0.5f, 0.58f, 0.5f, 0.52f});
  const Outcome out = go({&first, &second}, images, options());
  CHECK(out.progress.left_out == 1);  // the second image is 1 for one and 0 for the other
  REQUIRE(!out.found.empty());
  for (const Difference& d : out.found) {
    CHECK(d.image == 0);
    CHECK(d.before == 1);
    REQUIRE(d.predictions.size() == 2);
    CHECK(d.predictions[0] != d.predictions[1]);
    CHECK(d.predictions[static_cast<size_t>(d.model)] == d.after);
  }
}

TEST_CASE("diff: on a grid nothing leaves it, nor the ball") {
  const Larger model;
  DiffOptions how = options();
  how.limits.grid = 0.125;
  how.limits.l2 = 0.3;
  how.keep_going = true;
  const Outcome out = go({&model}, matrix(1, 2, {0.5f, 0.625f}), how);
  REQUIRE(!out.found.empty());
  for (const Difference& d : out.found) {
    CHECK(at::equal(d.x * 8., (d.x * 8.).round()));
    CHECK(d.share <= 0.3);
  }
}

TEST_CASE("diff: options out of range and inputs that do not fit are one sentence") {
  const Larger model;
  const at::Tensor images = matrix(1, 2, {0.5f, 0.55f});
  const auto refusal = [&](auto change) {
    DiffOptions how = options();
    change(how);
    return message_of(ErrorCode::kInvalidArgument, [&] { (void)go({&model}, images, how); });
  };
  CHECK(refusal([](DiffOptions& o) { o.limits.l2 = 0.; }) ==
        "--l2 must be above 0 without --linf, --l0 or --snr");
  CHECK(refusal([](DiffOptions& o) { o.limits.low = 2.; }) == "--low must be below --high");
  CHECK(refusal([](DiffOptions& o) { o.constraint = "occlusion"; }).find("is for images") !=
        std::string::npos);
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
          (void)go({&model}, at::zeros({1, 3}), options());
        }).find("expects rows of 2 inputs") != std::string::npos);
}

TEST_CASE("diff: where memory runs out it goes on with fewer rows, and finds the same") {
  const at::Tensor images = matrix(3, 2, {0.5f, 0.52f, 0.3f, 0.31f, 0.8f, 0.78f});
  DiffOptions how = options();
  how.batch = 8;
  how.keep_going = true;
  how.strategy = how.criterion = "none";  // pieces of a batch see what the ones before them covered
  const Larger roomy;
  const Outcome whole = go({&roomy}, images, how);
  REQUIRE(!whole.found.empty());
  Larger tight;
  int64_t largest = 0;
  const auto compute = tight.function;
  tight.function = [&](const at::Tensor& x) {
    if (x.size(0) > 3) throw std::bad_alloc();
    largest = std::max(largest, x.size(0));
    return compute(x);
  };
  Collector collector;
  const std::atomic<bool> stop = false;
  const DiffProgress p = run_diff({&tight}, images, how, nullptr, collector, stop);
  CHECK(p.candidates == whole.progress.candidates);
  REQUIRE(collector.found.size() == whole.found.size());
  for (size_t i = 0; i < whole.found.size(); ++i) {
    CHECK(at::allclose(collector.found[i].x, whole.found[i].x));
  }
  CHECK(largest <= 3);
  REQUIRE(!collector.notes.empty());
  CHECK(collector.notes.back().find("out of memory; going on with 2 rows at once") !=
        std::string::npos);
  tight.function = [](const at::Tensor&) -> at::Tensor { throw std::bad_alloc(); };
  CHECK_THROWS_AS((void)go({&tight}, images, how), std::bad_alloc);
}
