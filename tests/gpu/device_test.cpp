// The loop on a GPU gives what it gives on the processor. Without one these tests say so and pass.
#include "grapeshot/core/device.h"

#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/corpus.h"
#include "grapeshot/io/onnx/model.h"
#include "tests/support/campaigns.h"
#include "tests/support/nets.h"
#include "tests/support/properties.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

std::optional<at::Device> gpu() {
  try {
    return open_device("cuda");
  } catch (const Error& error) {
    MESSAGE("skipped: " << std::string(error.what()));
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("open_device: what is not there is named") {
  CHECK(open_device("cpu") == at::Device(at::kCPU));
  if (gpu()) return;
  CHECK_THROWS_AS((void)open_device("cuda"), Error);
}

TEST_CASE("gpu: outputs and gradients of a network are the processor's") {
  const auto device = gpu();
  if (!device) return;
  Net net({1, 3, 8, 8});
  net.constant("w", weights({16, 3, 3, 3})).constant("v", weights({576, 5}));
  net.add("Conv", {"x", "w"}, "c").add("Relu", {"c"}, "r").add("Flatten", {"r"}, "f");
  net.add("MatMul", {"f", "v"}, "y");
  const onnx::OnnxModel model(net.graph());
  const at::Tensor x = at::rand({9, 192});
  const auto ones = [](const at::Tensor& y) { return at::ones_like(y); };
  const Gradient here = model.gradient(x, Head::kOutputs, Surrogate::kLoose, ones);
  const Gradient there = model.gradient(x.to(*device), Head::kOutputs, Surrogate::kLoose, ones);
  CHECK(at::allclose(here.y, there.y.cpu(), 1e-4, 1e-4));
  CHECK(at::allclose(here.x, there.x.cpu(), 1e-4, 1e-4));
}

TEST_CASE("gpu: a corpus, and a campaign that ends as on the processor") {
  const auto device = gpu();
  if (!device) return;
  Corpus corpus(at::rand({3, 7}, at::TensorOptions(*device)), 100);
  Rng rng(uint64_t{1}, *device);
  const Seeds seeds = corpus.gather(corpus.draw(10, rng));
  CHECK(corpus.insert(seeds, at::rand({10, 7}, at::TensorOptions(*device)),
                      at::ones({10}, at::TensorOptions(*device))) == 10);

  Net net({1, 4});
  net.constant("w", weights({4, 2})).add("MatMul", {"x", "w"}, "y");
  const onnx::OnnxModel model(net.graph());
  const std::vector<Property> properties = {property(4, 2, {{cube(4, -1.f, 1.f), top1(0, 2)}})};
  for (const char* schedule : {"fair", "paper"}) {
    LoopOptions options = test_options(2000);
    options.schedule = schedule;
    const Outcome here = run({campaign_model(model, properties)}, options);
    options.device = "cuda";
    const Outcome there = run({campaign_model(model, properties)}, options);
    CHECK(here.result.totals.broken == there.result.totals.broken);
  }
}
