#include "grapeshot/diff/as_published.h"

#include <atomic>
#include <cmath>
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
    return true;
  }
  void on_progress(const DiffProgress& /*progress*/) override {}

  std::vector<Difference> found;
};

// Classes are which of two inputs is larger; both are neurons.
struct Larger : FakeModel {
  Larger() : FakeModel(at::eye(2), at::zeros({2})) { add_tap(); }
};

DiffOptions options() {
  DiffOptions out;
  out.as_published = true;
  out.strategy = "none";
  out.candidates = 1000;
  out.limits.l2 = 0.1;
  out.limits.low = -1.;
  out.limits.high = 1.;
  return out;
}

DiffProgress go(const DiffOptions& how, const at::Tensor& images, Collector& collector) {
  const Larger model;
  const std::atomic<bool> stop = false;
  return run_diff({&model}, images, how, nullptr, collector, stop);
}

const at::Tensor kImage = at::tensor({0.5f, 0.55f}).unsqueeze(0);

}  // namespace

TEST_CASE("as published: steps, what is reported of them and what would not pass, by hand") {
  DiffOptions how = options();
  how.criterion = "none";
  Collector collector;
  const DiffProgress p = go(how, kImage, collector);
  // The gradient (0.5, -1) over its root mean square, times 0.02: the second step crosses, the
  // third is past the limit, and both are reported.
  CHECK(p.candidates == 3);
  CHECK(p.differing == 2);
  CHECK(p.would_not_pass == 1);
  CHECK(p.past_limits == 1);
  CHECK(p.published_l2_sum == doctest::Approx(5 * 0.02 * std::sqrt(2.)).epsilon(1e-4));
  REQUIRE(collector.found.size() == 1);
  const Difference& d = collector.found[0];
  const double unit = 0.02 / std::sqrt(1.25 / 2);
  CHECK(d.x[0].item<double>() == doctest::Approx(0.5 + 2 * 0.5 * unit).epsilon(1e-4));
  CHECK(d.x[1].item<double>() == doctest::Approx(0.55 - 2 * unit).epsilon(1e-4));
  CHECK(d.before == 1);
  CHECK(d.after == 0);
  CHECK(d.iteration == 1);
}

TEST_CASE("as published: a seed is the last iterate, and its own prediction the reference") {
  Collector collector;
  const DiffProgress p = go(options(), kImage, collector);
  // The second step gains a neuron. From the third one, of class 0, two steps lead back to class 1,
  // and one beyond: predicted as the image.
  CHECK(p.kept == 1);
  CHECK(p.candidates == 6);
  CHECK(p.differing == 4);
  CHECK(p.as_image == 2);
  CHECK(p.past_limits == 1);
  CHECK(p.would_not_pass == 3);
  CHECK(p.differences == 1);
  CHECK(collector.found.size() == 1);
}

TEST_CASE("as published: a seed has to be near and to gain a share that falls with its image") {
  DiffOptions how = options();
  how.limits.l2 = 0.07;  // the step that gains is 0.0761 away
  Collector collector;
  CHECK(go(how, kImage, collector).kept == 0);
  how.limits.l2 = 0.1;
  how.keep = 0.6;  // half of the neurons is not enough for the first image, for the second it is
  CHECK(go(how, kImage, collector).kept == 0);
  how.batch = 2;  // or the first image would leave nothing to gain
  CHECK(go(how, at::cat({kImage, kImage}), collector).kept == 1);
}

TEST_CASE("as published: the range is no limit of steps, but of what passes") {
  DiffOptions how = options();
  how.criterion = "none";
  how.limits.high = 0.52;
  const at::Tensor image = at::tensor({0.5f, 0.51f}).unsqueeze(0);
  Collector collector;
  const DiffProgress p = go(how, image, collector);
  CHECK(p.differing == 3);
  CHECK(p.past_limits == 2);  // 0.5 + 2 * 0.01265
  CHECK(p.differences == 1);
}

TEST_CASE("as published: strategies are counted from 0, and 3 leaves only its own neurons") {
  const at::Tensor response = matrix(1, 5, {0.1f, 0.2f, 0.3f, 0.6f, 0.35f});
  Neurons known{vector({0.f, 0.f, 0.f, 7.f, 0.f}), vector({0.f, 0.f, 0.f, 0.f, 2.f}), response,
                0.25};
  Rng rng(1);
  const auto select = [&](const char* names, int64_t count) {
    return PublishedStrategies(names).select(known, count, rng);
  };
  CHECK(at::equal(select("0", 1), matrix(1, 5, {0, 0, 0, 1, 0})));  // often covered
  CHECK(select("1", 4)[0][3].item<float>() == 0.f);                 // rarely covered
  CHECK(at::equal(select("2", 1), matrix(1, 5, {0, 0, 0, 0, 1})));  // heavy
  CHECK(at::equal(select("3", 4), matrix(1, 5, {-1, -1, 1, 0, 1})));
  CHECK(at::equal(select("0+3", 4), matrix(1, 5, {-1, 0, 1, 0, 0})));
  CHECK(at::equal(select("0+2", 3), matrix(1, 5, {0, 0, 0, 1, 1})));
  CHECK(message_of(ErrorCode::kNotFound, [] { (void)PublishedStrategies("4"); }) ==
        "no strategy of --as-published is called '4'; known: 0, 1, 2, 3, random, none");
}
