#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/io/onnx/model.h"
#include "tests/support/nets.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::OnnxModel;

namespace {

std::vector<int64_t> all_of(const OnnxModel& model) {
  std::vector<int64_t> wanted;
  for (size_t i = 0; i < model.taps().size(); ++i) wanted.push_back(static_cast<int64_t>(i));
  return wanted;
}

void check_tap(const Tap& tap, const char* name, bool rectifier, bool redundant, int64_t neurons) {
  CAPTURE(name);
  CHECK(tap.name == name);
  CHECK(tap.rectifier == rectifier);
  CHECK(tap.redundant == redundant);
  CHECK(tap.neurons == neurons);
}

}  // namespace

TEST_CASE("taps: linear layers with their bias, ReLUs, and which of them count twice") {
  const OnnxModel model(mlp().graph());
  REQUIRE(model.taps().size() == 5);
  check_tap(model.taps()[0], "a1", false, true, 8);  // MatMul and Add: after the bias
  check_tap(model.taps()[1], "r1", true, false, 8);
  check_tap(model.taps()[2], "g2", false, true, 5);
  check_tap(model.taps()[3], "r2", true, false, 5);
  check_tap(model.taps()[4], "y", false, false, 3);
}

TEST_CASE("taps: convolutions count channels, as the file has them before BatchNormalization") {
  const OnnxModel model(cnn().graph());
  REQUIRE(model.taps().size() == 3);
  check_tap(model.taps()[0], "conv", false, true,
            3);  // counted by the ReLU behind the BatchNormalization
  check_tap(model.taps()[1], "relu", true, false, 3);
  check_tap(model.taps()[2], "y", false, false, 4);
}

TEST_CASE("taps: a layer that somebody else reads besides the ReLU is not redundant") {
  Net net({1, 4});
  net.constant("w", weights({4, 4})).add("MatMul", {"x", "w"}, "m").add("Relu", {"m"}, "r");
  net.add("Add", {"r", "m"}, "y");
  const OnnxModel model(net.graph());
  REQUIRE(model.taps().size() == 2);
  check_tap(model.taps()[0], "m", false, false, 4);
  check_tap(model.taps()[1], "r", true, false, 4);
}

TEST_CASE("trace: activations by hand, |a| of units and the largest |a| of channels") {
  Net units({1, 2});
  units.constant("w", matrix(2, 2, {1.f, 2.f, -3.f, 0.5f})).constant("b", vector({0.f, -4.f}));
  units.add("MatMul", {"x", "w"}, "m")
      .add("Add", {"m", "b"}, "a")
      .add("LeakyRelu", {"a"}, "y", {real("alpha", 0.5f)});
  const OnnxModel linear(units.graph());
  const Trace trace = linear.trace(matrix(2, 2, {1.f, 1.f, 0.f, 2.f}), Head::kOutputs, {1, 0});
  // Rows (1, 1): a = (1 - 3, 2 + 0.5 - 4); (0, 2): a = (-6, 1 - 4).
  REQUIRE(trace.activations.size() == 2);
  CHECK(floats(trace.activations[1]) == std::vector<float>{2.f, 1.5f, 6.f, 3.f});
  CHECK(floats(trace.activations[0]) == std::vector<float>{1.f, 0.75f, 3.f, 1.5f});
  CHECK(floats(trace.y) == std::vector<float>{-1.f, -0.75f, -3.f, -1.5f});

  Net image({1, 1, 2, 2});
  image.constant("w", vector({1.f, -2.f}).reshape({2, 1, 1, 1})).constant("b", vector({0.f, 1.f}));
  image.add("Conv", {"x", "w", "b"}, "c").add("Relu", {"c"}, "y");
  const OnnxModel conv(image.graph());
  const Trace pixels =
      conv.trace(matrix(2, 4, {1.f, -5.f, 3.f, 0.f, 0.f, 0.f, 0.f, 0.5f}), Head::kOutputs, {0, 1});
  // Channels x and 1 - 2 x: the largest |a| of each; behind the ReLU -5 is 0 and 11 stays.
  CHECK(floats(pixels.activations[0]) == std::vector<float>{5.f, 11.f, 0.5f, 1.f});
  CHECK(floats(pixels.activations[1]) == std::vector<float>{3.f, 11.f, 0.5f, 1.f});
}

TEST_CASE("trace: only what is asked for, and the shapes that the taps promise") {
  for (const Net& net : {mlp(), cnn()}) {
    const OnnxModel model(net.graph());
    for (const int64_t n : {0, 1, 6}) {
      const at::Tensor x = weights({n, model.inputs()});
      CHECK(model.trace(x, Head::kOutputs, {}).activations.empty());
      const Trace trace = model.trace(x, Head::kOutputs, all_of(model));
      CHECK(trace.y.sizes() == at::IntArrayRef({n, model.outputs()}));
      REQUIRE(trace.activations.size() == model.taps().size());
      for (size_t k = 0; k < trace.activations.size(); ++k) {
        CHECK(trace.activations[k].sizes() == at::IntArrayRef({n, model.taps()[k].neurons}));
        CHECK(trace.activations[k].ge(0).all().item<bool>());
      }
    }
  }
}

TEST_CASE("trace: the activations before a BatchNormalization are not those of the folded layer") {
  const OnnxModel model(cnn().graph());
  const at::Tensor x = weights({2, 72}, 3);
  const at::Tensor image = x.reshape({2, 2, 6, 6});
  const at::Tensor expected =
      at::conv2d(image, weights({3, 2, 3, 3}, 1), weights({3}, 2), 1, 1).abs().amax({2, 3});
  CHECK(relative_gap(model.trace(x, Head::kOutputs, {0}).activations[0], expected) < 1e-6);
}

TEST_CASE("taps: a linear layer over several rows of its own counts every unit") {
  Net net({1, 3, 4});
  net.constant("w", weights({4, 2})).add("MatMul", {"x", "w"}, "y");
  const OnnxModel model(net.graph());
  REQUIRE(model.taps().size() == 1);
  check_tap(model.taps()[0], "y", false, false, 6);
  const at::Tensor x = weights({5, 12}, 3);
  const Trace trace = model.trace(x, Head::kOutputs, {0});
  CHECK(relative_gap(trace.activations[0],
                     at::matmul(x.reshape({5, 3, 4}), weights({4, 2})).abs().flatten(1)) < 1e-6);
}
