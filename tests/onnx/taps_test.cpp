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

// 4 steps of 3 inputs, an LSTM in both directions, steps first or the batch, and 2 outputs.
Net recurrent(int64_t layout) {
  Net net(layout == 0 ? std::vector<int64_t>{4, 1, 3} : std::vector<int64_t>{1, 4, 3});
  net.constant("w", weights({2, 20, 3}, 1)).constant("r", weights({2, 20, 5}, 2));
  net.constant("flat", at::tensor({1, -1}, at::kLong)).constant("v", weights({40, 2}, 3));
  net.add(
      "LSTM", {"x", "w", "r"}, "h",
      {integer("hidden_size", 5), integer("layout", layout), word("direction", "bidirectional")});
  net.add("Reshape", {"h", "flat"}, "f").add("MatMul", {"f", "v"}, "y");
  return net;
}

}  // namespace

TEST_CASE("taps: units of a recurrent layer are neurons, their values those of all steps") {
  for (const int64_t layout : {0, 1}) {
    const OnnxModel model(recurrent(layout).graph());
    REQUIRE(model.taps().size() == 2);
    check_tap(model.taps()[0], "h", false, false, 10);
    REQUIRE(model.recurrent_layers().size() == 1);
    CHECK(model.recurrent_layers()[0].shape == std::vector<int64_t>{4, 10});
    CHECK(model.attention_layers().empty());
    Wanted wanted = {0};
    wanted.means = wanted.states = true;
    const at::Tensor x = weights({3, 12}, 4);
    const Trace trace = model.trace(x, Head::kOutputs, wanted);
    REQUIRE(trace.states.size() == 1);
    const at::Tensor& states = trace.states[0];
    CHECK(relative_gap(trace.activations[0], states.abs().amax(1)) < 1e-6);
    CHECK(relative_gap(trace.means[0], states.mean(1)) < 1e-6);
    // The second direction begins at the other end: its first state depends on the last step alone.
    at::Tensor other = x.clone();
    other.slice(1, 0, 9).zero_();
    const at::Tensor moved = model.trace(other, Head::kOutputs, wanted).states[0] - states;
    CHECK(moved.select(1, 0).slice(1, 5).eq(0).all().item<bool>());
    CHECK(moved.select(1, 0).slice(1, 0, 5).ne(0).any().item<bool>());
    CHECK(trace.states[0].sizes() == at::IntArrayRef{3, 4, 10});
    CHECK(model.trace(x.slice(0, 0, 0), Head::kOutputs, wanted).states[0].size(0) == 0);
    CHECK(model.forward(x.slice(0, 0, 0), Head::kOutputs).sizes() == at::IntArrayRef{0, 2});
  }
}

TEST_CASE("taps: states of sequences that end early are not looked at") {
  for (const int32_t length : {3, 4}) {
    Net net = recurrent(0);
    net.constant("lengths", at::tensor({length}, at::kInt));
    net.edit().nodes[0].inputs = {"x", "w", "r", "", "lengths"};
    CHECK(std::ssize(OnnxModel(net.graph()).recurrent_layers()) == (length == 4 ? 1 : 0));
  }
}

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

TEST_CASE("trace: means with their sign and the extremes of whole layers") {
  const OnnxModel model(cnn().graph());
  const at::Tensor x = weights({2, 72}, 3);
  const at::Tensor image = x.reshape({2, 2, 6, 6});
  const at::Tensor a = at::conv2d(image, weights({3, 2, 3, 3}, 1), weights({3}, 2), 1, 1);
  Wanted wanted = {0};
  wanted.largest = false;
  wanted.means = wanted.extremes = true;
  const Trace trace = model.trace(x, Head::kOutputs, wanted);
  CHECK(trace.activations.empty());
  CHECK(relative_gap(trace.means[0], a.mean({2, 3})) < 1e-5);
  CHECK(relative_gap(trace.extremes[0], at::stack({a.amin({1, 2, 3}), a.amax({1, 2, 3})}, 1)) <
        1e-6);
}

TEST_CASE("joint_gradient: the slope of a loss of outputs and neurons, by differences") {
  for (const Net& net : {mlp(), cnn(), recurrent(0), recurrent(1)}) {
    const OnnxModel model(net.graph());
    const std::vector<int64_t> taps = all_of(model);
    Wanted wanted = taps;
    wanted.means = true;
    const at::Tensor of_y = weights({3, model.outputs()}, 11).to(at::kDouble);
    std::vector<at::Tensor> of_taps;
    for (const int64_t tap : taps) {
      const int64_t neurons = model.taps()[static_cast<size_t>(tap)].neurons;
      of_taps.push_back(weights({3, neurons}, 12).to(at::kDouble));
    }
    const auto loss = [&](const at::Tensor& x) {
      const Trace trace = model.trace(x, Head::kOutputs, wanted);
      at::Tensor sum = (trace.y * of_y).sum(1);
      for (size_t k = 0; k < taps.size(); ++k) sum = sum + (trace.means[k] * of_taps[k]).sum(1);
      return sum;
    };
    const at::Tensor x = weights({3, model.inputs()}, 13).to(at::kDouble);
    const Gradient g =
        model.joint_gradient(x, Head::kOutputs, Surrogate::kLoose, taps,
                             [&](const at::Tensor&) { return JointCotangent{of_y, of_taps}; });
    const at::Tensor direction = weights({3, model.inputs()}, 14).to(at::kDouble);
    constexpr double kStep = 1e-6;
    const at::Tensor slope =
        (loss(x + kStep * direction) - loss(x - kStep * direction)) / (2. * kStep);
    CHECK(relative_gap((g.x * direction).sum(1), slope) < 1e-5);
  }
}

TEST_CASE(
    "outgoing_weights: the mean of what reads a channel or a unit, seen through what passes on") {
  Net net({1, 1, 4, 4});
  net.constant("w", weights({2, 1, 3, 3}, 1)).constant("v", weights({3, 2, 1, 1}, 2));
  net.constant("u", weights({12, 5}, 3)).constant("t", weights({4, 5}, 4));
  net.add("Conv", {"x", "w"}, "c").add("Relu", {"c"}, "r").add("Conv", {"r", "v"}, "d");
  net.add("Flatten", {"d"}, "f").add("MatMul", {"f", "u"}, "m").add("Relu", {"m"}, "s");
  net.add("Gemm", {"s", "t"}, "y", {integer("transB", 1)});
  const OnnxModel model(net.graph());
  const std::vector<at::Tensor> out = model.outgoing_weights();
  REQUIRE(model.taps().size() == out.size());
  const auto of = [&](const std::string& name) {
    for (size_t i = 0; i < out.size(); ++i) {
      if (model.taps()[i].name == name) return out[i];
    }
    return at::Tensor();
  };
  CHECK(relative_gap(of("c"), weights({3, 2, 1, 1}, 2).mean({0, 2, 3})) < 1e-6);
  CHECK(at::equal(of("c"), of("r")));
  CHECK(relative_gap(of("d"), weights({12, 5}, 3).reshape({3, 4, 5}).mean({1, 2})) < 1e-6);
  CHECK(relative_gap(of("s"), weights({4, 5}, 4).mean(0)) < 1e-6);
  CHECK(!of("y").defined());
}
