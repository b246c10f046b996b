#include "grapeshot/io/onnx/lower.h"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <doctest/doctest.h>

#include "grapeshot/io/onnx/conv_loops.h"
#include "grapeshot/io/onnx/model.h"
#include "tests/support/nets.h"
#include "tests/support/operators.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::Network;
using onnx::OnnxModel;
using onnx::Pass;
using onnx::Program;
using onnx::Recording;

namespace {

struct Prepared {
  explicit Prepared(const Net& net) : network(OnnxModel(net.graph()).network()) {
    std::vector<int64_t> shape = network.input_shape;
    shape.insert(shape.begin(), 2);
    recording = onnx::fold_constants(network, weights(shape));
  }

  /// The network after `pass` alone.
  [[nodiscard]] Network after(const Pass& pass) const {
    Network changed = network;
    pass.run(changed, recording);
    return changed;
  }

  Network network;
  Recording recording;
};

const Pass& pass_of(std::string_view name) {
  return *std::ranges::find(onnx::passes(), name, &Pass::name);
}

at::Tensor batch(const Network& network, int64_t n = 5) {
  std::vector<int64_t> shape = network.input_shape;
  shape.insert(shape.begin(), n);
  return weights(shape, 77) * 2.;
}

struct Outcome {
  at::Tensor y, gradient;
};

// Outputs, and the gradient of their weighted sum.
Outcome outcome(const Network& network, const at::Tensor& x,
                Surrogate surrogate = Surrogate::kLoose) {
  const c10::AutoGradMode grad(true);
  const Program program(network);
  at::Tensor leaf = x.detach().clone().requires_grad_(true);
  const at::Tensor y = program.run(leaf, {program.slot(network.output)}, surrogate)[0].t;
  y.backward(weights(y.sizes().vec(), 5));
  return {y.detach(), leaf.grad()};
}

void check_equal(const Network& before, const Network& after, bool gradients = true) {
  const at::Tensor x = batch(before);
  const Outcome a = outcome(before, x), b = outcome(after, x);
  CHECK(relative_gap(b.y, a.y) < 2e-6);
  if (gradients) CHECK(relative_gap(b.gradient, a.gradient) < 2e-5);
}

Net& with_statistics(Net& net, int64_t channels) {
  return net.constant("scale", weights({channels}, 11))
      .constant("shift", weights({channels}, 12))
      .constant("mean", weights({channels}, 13))
      .constant("variance", weights({channels}, 14).abs() + 0.2);
}

const std::vector<std::string> kStatistics = {"scale", "shift", "mean", "variance"};

std::vector<std::string> normalized(const std::string& input) {
  std::vector<std::string> inputs = {input};
  inputs.insert(inputs.end(), kStatistics.begin(), kStatistics.end());
  return inputs;
}

std::vector<std::string> operators_of(const Network& network) {
  std::vector<std::string> out;
  for (const onnx::BoundNode& bound : network.nodes) out.push_back(bound.node.op);
  return out;
}

using Names = std::vector<std::string>;

// Networks, and what a pass makes of their operators.
struct Example {
  std::string pass;
  Net net;
  Names after;
};

std::vector<Example> idle_examples() {
  Net idle({1, 4});
  idle.constant("zero", at::zeros({4})).constant("w", weights({4, 4}));
  idle.add("Identity", {"x"}, "i").add("MatMul", {"i", "w"}, "m").add("Dropout", {"m"}, "d");
  idle.add("Add", {"zero", "d"}, "a").add("Relu", {"a"}, "r").add("Sub", {"r", "zero"}, "y");
  Net negation({1, 4});  // 0 - x is something else
  negation.constant("zero", at::zeros({4})).add("Sub", {"zero", "x"}, "y");
  Net widens({1, 4});  // adding zero may add an axis
  widens.constant("zero", at::zeros({2, 1, 4})).add("Add", {"x", "zero"}, "y");
  Net padding({1, 4});
  padding.constant("none", at::zeros({4}, at::kLong)).constant("one", at::ones({4}, at::kLong));
  padding.add("Pad", {"x", "none"}, "p").add("Pad", {"p", "one"}, "y");
  Net two_readers({1, 4});
  two_readers.add("Identity", {"x"}, "i").add("Relu", {"i"}, "r").add("Add", {"r", "i"}, "y");
  return {{"drop-idle", idle, {"MatMul", "Relu"}},
          {"drop-idle", negation, {"Sub"}},
          {"drop-idle", widens, {"Add"}},
          {"drop-idle", padding, {"Pad"}},
          {"drop-idle", two_readers, {"Relu", "Add"}}};
}

std::vector<Example> sign_examples() {
  std::vector<Example> out;
  for (const auto& [c, after] : {std::pair{0.1f, Names{"Step"}},
                                 {1.f, {"Sign", "Add", "Sign"}},
                                 {-0.5f, {"Sign", "Add", "Sign"}},
                                 {0.f, {"Sign", "Add", "Sign"}}}) {
    Net net({1, 9});
    net.constant("c", at::tensor(c)).add("Sign", {"x"}, "s").add("Add", {"s", "c"}, "a");
    net.add("Sign", {"a"}, "y");
    out.push_back({"join-sign", net, after});
  }
  Net read_twice({1, 9});
  read_twice.constant("c", at::tensor(0.5f)).add("Sign", {"x"}, "s").add("Add", {"s", "c"}, "a");
  read_twice.add("Sign", {"a"}, "t").add("Add", {"t", "s"}, "y");
  out.push_back({"join-sign", read_twice, {"Sign", "Add", "Sign", "Add"}});
  return out;
}

std::vector<Example> unit_examples() {
  Net chain({1, 6});
  chain.constant("w", weights({6, 3}))
      .constant("k", weights({3}, 2))
      .constant("b", weights({1, 3}, 3));
  chain.add("MatMul", {"x", "w"}, "m").add("Mul", {"k", "m"}, "s").add("Add", {"s", "b"}, "y");
  Net gemm({4, 6});
  gemm.constant("w", weights({3, 6})).constant("c", weights({3}, 4)).constant("k", weights({3}, 2));
  gemm.add("Gemm", {"x", "w", "c"}, "g", {integer("transB", 1)}).add("Mul", {"g", "k"}, "s");
  gemm.add("Add", {"s", "k"}, "y");
  Net scaled({1, 6});  // alpha is not part of the weights
  scaled.constant("w", weights({6, 3})).constant("k", weights({3}, 2));
  scaled.add("Gemm", {"x", "w"}, "g", {real("alpha", 0.5f)}).add("Mul", {"g", "k"}, "y");
  Net matrix_added({2, 6});  // a bias for each row is none
  matrix_added.constant("w", weights({6, 3})).constant("b", weights({2, 3}));
  matrix_added.add("MatMul", {"x", "w"}, "m").add("Add", {"m", "b"}, "y");
  Net read_twice({1, 6});
  read_twice.constant("w", weights({6, 3})).constant("b", weights({3}));
  read_twice.add("MatMul", {"x", "w"}, "m").add("Add", {"m", "b"}, "a").add("Add", {"a", "m"}, "y");
  return {{"fold-units", chain, {"Gemm"}},
          {"fold-units", gemm, {"Gemm"}},
          {"fold-units", scaled, {"Gemm", "Mul"}},
          {"fold-units", matrix_added, {"MatMul", "Add"}},
          {"fold-units", read_twice, {"MatMul", "Add", "Add"}}};
}

std::vector<Example> normalization_examples() {
  const std::string pass = "fold-batch-normalization";
  std::vector<Example> out;
  for (const bool biased : {false, true}) {
    Net conv({2, 2, 4, 4});
    with_statistics(conv, 6).constant("w", weights({6, 1, 3, 3})).constant("b", weights({6}, 2));
    conv.add("Conv", biased ? Names{"x", "w", "b"} : Names{"x", "w"}, "c", {integer("group", 2)});
    conv.add("BatchNormalization", normalized("c"), "y", {real("epsilon", 0.1f)});
    out.push_back({pass, conv, {"Conv"}});
    Net gemm({3, 5});
    with_statistics(gemm, 4).constant("w", weights({5, 4})).constant("b", weights({4}, 2));
    gemm.add("Gemm", biased ? Names{"x", "w", "b"} : Names{"x", "w"}, "g");
    gemm.add("BatchNormalization", normalized("g"), "y");
    out.push_back({pass, gemm, {"Gemm"}});
  }
  Net matmul({1, 5});
  with_statistics(matmul, 4).constant("w", weights({5, 4})).add("MatMul", {"x", "w"}, "m");
  matmul.add("BatchNormalization", normalized("m"), "y");
  Net pool({1, 3, 4, 4});
  with_statistics(pool, 3).add("MaxPool", {"x"}, "p", {integers("kernel_shape", {2, 2})});
  pool.add("BatchNormalization", normalized("p"), "y");
  Net read_twice({1, 5});
  with_statistics(read_twice, 4).constant("w", weights({5, 4})).add("MatMul", {"x", "w"}, "m");
  read_twice.add("BatchNormalization", normalized("m"), "n").add("Add", {"n", "m"}, "y");
  Net middle({1, 4, 5});  // channels are not what the weights give
  with_statistics(middle, 4).constant("w", weights({5, 4})).add("MatMul", {"x", "w"}, "m");
  middle.add("BatchNormalization", normalized("m"), "y");
  out.push_back({pass, matmul, {"Gemm"}});
  out.push_back({pass, pool, {"MaxPool", "Affine"}});
  out.push_back({pass, read_twice, {"MatMul", "Affine", "Add"}});
  out.push_back({pass, middle, {"MatMul", "Affine"}});
  return out;
}

// This pass changes how a node runs, not how many there are.
std::vector<Example> convolution_examples() {
  std::vector<Example> out;
  for (const int64_t size : {6, 7}) {
    for (const int64_t kernel : {1, 2, 3}) {
      for (int64_t pad = 0; pad < kernel; ++pad) {
        Net net({1, 3, size, 5});
        net.constant("w", weights({4, 3, kernel, 2})).constant("b", weights({4}));
        const bool biased = pad == 0;
        net.add("Conv", biased ? Names{"x", "w", "b"} : Names{"x", "w"}, "y",
                {integers("pads", {pad, 1, pad, 1})});
        out.push_back({"block-input-convolutions", net, {"Conv"}});
      }
    }
  }
  return out;
}

std::vector<Example> dense_examples() {
  Net tokens({1, 3, 6});
  tokens.constant("w", weights({6, 4})).constant("b", weights({4}, 2));
  tokens.add("MatMul", {"x", "w"}, "m").add("Add", {"b", "m"}, "y");
  Net gemm({2, 6});
  gemm.constant("w", weights({4, 6})).constant("c", weights({1, 4}, 2));
  gemm.add("Gemm", {"x", "w", "c"}, "y",
           {integer("transB", 1), real("alpha", 0.5f), real("beta", 2.f)});
  Net bare({1, 6});
  bare.constant("w", weights({6, 4})).add("Gemm", {"x", "w"}, "y");
  Net transposed({6, 2});  // the rows of A are not those of x
  transposed.constant("w", weights({6, 4})).add("Gemm", {"x", "w"}, "y", {integer("transA", 1)});
  Net widens({1, 6});  // the sum has an axis more than the product
  widens.constant("w", weights({6, 4})).constant("b", weights({1, 1, 4}));
  widens.add("MatMul", {"x", "w"}, "m").add("Add", {"m", "b"}, "y");
  Net own({1, 4, 4});  // both operands depend on the input
  own.constant("b", weights({4})).add("MatMul", {"x", "x"}, "m").add("Add", {"m", "b"}, "y");
  return {{"make-dense", tokens, {"Dense"}},        {"make-dense", gemm, {"Dense"}},
          {"make-dense", bare, {"Dense"}},          {"make-dense", transposed, {"Gemm"}},
          {"make-dense", widens, {"Dense", "Add"}}, {"make-dense", own, {"MatMul", "Add"}}};
}

std::vector<Example> relu_examples() {
  Net conv({1, 2, 4, 4});
  conv.constant("w", weights({3, 2, 3, 3})).add("Conv", {"x", "w"}, "c").add("Relu", {"c"}, "y");
  Net sum({1, 4});
  sum.constant("k", weights({4})).add("Mul", {"x", "k"}, "m");
  sum.add("Add", {"x", "m"}, "a").add("Relu", {"a"}, "y");
  Net read_twice({1, 4});
  read_twice.constant("k", weights({4})).add("Add", {"x", "k"}, "a");
  read_twice.add("Relu", {"a"}, "r").add("Mul", {"r", "a"}, "y");
  Net output({1, 4});
  output.add("Relu", {"x"}, "y");
  return {{"join-relu", conv, {"Conv"}},
          {"join-relu", sum, {"Mul", "Add"}},
          {"join-relu", read_twice, {"Add", "Relu", "Mul"}},
          {"join-relu", output, {"Relu"}}};
}

// This pass changes the order of weights in memory.
std::vector<Example> order_examples() {
  Net conv({1, 2, 6, 5});
  conv.constant("w", weights({3, 2, 3, 3})).constant("v", weights({3, 2, 2, 2}));
  conv.add("Conv", {"x", "w"}, "c").add("ConvTranspose", {"c", "v"}, "y");
  Net one_channel({3, 1, 4, 4});
  one_channel.constant("w", weights({2, 1, 2, 2})).add("Conv", {"x", "w"}, "y");
  return {{"order-channels", conv, {"Conv", "ConvTranspose"}},
          {"order-channels", one_channel, {"Conv"}}};
}

std::vector<Example> sum_examples() {
  const auto net = [](bool relu, bool twice) {
    Net block({1, 2, 4, 4});
    block.constant("w", weights({2, 2, 3, 3})).constant("b", weights({2}));
    block.add("Conv", {"x", "w", "b"}, "c", {integers("pads", {1, 1, 1, 1})});
    block.add("Relu", {"x"}, "r").add("Add", {twice ? "c" : "r", "c"}, "s");
    if (relu) block.add("Relu", {"s"}, "y");
    return block;
  };
  Net narrow({1, 1, 4, 4});  // the sum has more channels than its second term
  narrow.constant("w", weights({2, 1, 1, 1})).add("Conv", {"x", "w"}, "c");
  narrow.add("Add", {"c", "x"}, "y");
  return {{"join-sum", net(false, false), {"Relu", "Conv"}},
          {"join-sum", net(true, false), {"Relu", "Conv", "Relu"}},
          {"join-sum", net(false, true), {"Conv", "Add"}},
          {"join-sum", narrow, {"Conv", "Add"}}};
}

std::vector<Example> packed_examples() {
  const auto net = [](int64_t channels, int64_t filters, std::vector<int64_t> pads) {
    Net out({1, channels, 6, 5});
    out.constant("w", weights({filters, channels, 3, 3})).constant("b", weights({filters}, 2));
    out.add("Conv", {"x", "w", "b"}, "y", {integers("pads", std::move(pads))});
    return out;
  };
  Net grouped({1, 2, 6, 5});
  grouped.constant("w", weights({16, 1, 3, 3}));
  grouped.add("Conv", {"x", "w"}, "y", {integer("group", 2)});
  Net dense({1, 80});
  dense.constant("w", weights({80, 60})).constant("v", weights({60, 8}));
  dense.add("MatMul", {"x", "w"}, "m").add("MatMul", {"m", "v"}, "y");
  return {{"pack-products", dense, {"MatMul", "MatMul"}},  // no Dense yet
          {"pack-convolutions", net(3, 16, {1, 0, 2, 1}), {"PackedConv"}},
          {"pack-convolutions",
           net(11, 16, {0, 0, 0, 0}),
           {onnx::best_conv_level() == 2 ? "PackedConv" : "Conv"}},
          {"pack-convolutions", net(700, 48, {0, 0, 0, 0}), {"Conv"}},  // oneDNN does as well
          {"pack-convolutions", net(3, 5, {0, 0, 0, 0}), {"Conv"}},     // a third of a vector
          {"pack-convolutions", net(3, 16, {-1, 0, 0, 0}), {"Conv"}},
          {"pack-convolutions", net(3, 16, {3, 3, 3, 3}), {"Conv"}},
          {"pack-convolutions", grouped, {"Conv"}}};
}

// Nothing here: the steps that it looks for come from another pass.
std::vector<Example> bit_examples() {
  Net net({1, 8});
  net.constant("w", weights({8, 4}).ge(0).to(at::kFloat) * 2. - 1.);
  net.add("Sign", {"x"}, "s").add("MatMul", {"s", "w"}, "y");
  return {{"count-bits", net, {"Sign", "MatMul"}}};
}

std::vector<Example> pointwise_examples() {
  Net image({1, 3, 5, 4});
  image.constant("w", weights({4, 3, 1, 1})).constant("b", weights({4}, 2));
  image.add("Conv", {"x", "w", "b"}, "y", {integers("strides", {2, 1})});
  Net series({2, 3, 6});
  series.constant("w", weights({4, 3, 1})).add("Conv", {"x", "w"}, "y");
  Net padded({1, 3, 4, 4});
  padded.constant("w", weights({4, 3, 1, 1}));
  padded.add("Conv", {"x", "w"}, "y", {integers("pads", {1, 0, 0, 0})});
  Net grouped({1, 4, 4, 4});
  grouped.constant("w", weights({4, 2, 1, 1})).add("Conv", {"x", "w"}, "y", {integer("group", 2)});
  return {{"make-pointwise", image, {"PointwiseConv"}},
          {"make-pointwise", series, {"PointwiseConv"}},
          {"make-pointwise", padded, {"Conv"}},
          {"make-pointwise", grouped, {"Conv"}}};
}

// Nothing here: the layer behind it comes from another pass; lower() has both below.
std::vector<Example> flatten_examples() {
  Net net({1, 3, 5, 4});
  net.constant("w", weights({4, 3, 2, 2})).constant("v", weights({48, 2}));
  net.add("Conv", {"x", "w"}, "c").add("Flatten", {"c"}, "f").add("MatMul", {"f", "v"}, "y");
  return {{"flatten-channels-last", net, {"Conv", "Flatten", "MatMul"}}};
}

std::vector<Example> examples() {
  std::vector<Example> all;
  for (const auto& group : {idle_examples(), sign_examples(), unit_examples(),
                            normalization_examples(), convolution_examples(), dense_examples(),
                            relu_examples(), order_examples(), pointwise_examples(), sum_examples(),
                            packed_examples(), bit_examples(), flatten_examples()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace

TEST_CASE("passes: each has an example here, a name and a summary") {
  for (const Pass& pass : onnx::passes()) {
    CAPTURE(pass.name);
    CHECK(!pass.summary.empty());
    CHECK(std::ranges::count(examples(), pass.name, &Example::pass) > 0);
  }
}

TEST_CASE("passes: fire where they are made for, nowhere else, and outputs stay equal") {
  for (const Example& example : examples()) {
    CAPTURE(example.pass);
    const Prepared prepared(example.net);
    const Network after = prepared.after(pass_of(example.pass));
    CAPTURE(doctest::String(str(at::IntArrayRef(prepared.network.input_shape)).c_str()));
    CHECK(operators_of(after) == example.after);
    // A surrogate's gradient is not that of two surrogates.
    check_equal(prepared.network, after, example.pass != "join-sign");
    CHECK(after.input == prepared.network.input);
  }
}

TEST_CASE("passes: leave every operator's network equal, one by one and together") {
  for (const OperatorNet& each : operator_nets()) {
    CAPTURE(each.op);
    CAPTURE(each.setting);
    Net net({1});
    net.edit() = each.graph;
    const Prepared prepared(net);
    for (const Pass& pass : onnx::passes()) {
      CAPTURE(pass.name);
      check_equal(prepared.network, prepared.after(pass));
    }
    check_equal(prepared.network, onnx::lower(prepared.network, prepared.recording));
  }
}

TEST_CASE("lower: a convolution block and a fully connected block become a node each") {
  const Prepared image(cnn());
  const Network lowered = onnx::lower(image.network, image.recording);
  CHECK(operators_of(lowered) == Names{"Conv", "MaxPool", "FlattenLast", "Dense"});
  check_equal(image.network, lowered);

  Net block({1, 5});
  with_statistics(block, 4).constant("w", weights({5, 4})).constant("b", weights({4}));
  block.add("Identity", {"x"}, "i").add("MatMul", {"i", "w"}, "m").add("Add", {"m", "b"}, "a");
  block.add("BatchNormalization", normalized("a"), "n")
      .add("Relu", {"n"}, "r")
      .add("Identity", {"r"}, "y");
  const Prepared units(block);
  const Network shorter = onnx::lower(units.network, units.recording);
  CHECK(operators_of(shorter) == Names{"Dense"});
  check_equal(units.network, shorter);
}

TEST_CASE("lower: weights that two layers share are scaled for one and kept for the other") {
  Net net({1, 4});
  with_statistics(net, 4).constant("w", weights({4, 4})).constant("k", weights({4}, 2));
  net.add("MatMul", {"x", "w"}, "m1").add("BatchNormalization", normalized("m1"), "n");
  net.add("MatMul", {"n", "w"}, "m2").add("Mul", {"m2", "k"}, "s").add("MatMul", {"s", "w"}, "y");
  const Prepared prepared(net);
  const Network lowered = onnx::lower(prepared.network, prepared.recording);
  CHECK(operators_of(lowered) == Names{"Dense", "Dense", "Dense"});
  check_equal(prepared.network, lowered);
}

TEST_CASE("lower: a tensor that is the output as well is not folded away") {
  Net net({1, 4});
  with_statistics(net, 4).constant("w", weights({4, 4})).add("MatMul", {"x", "w"}, "m");
  net.add("BatchNormalization", normalized("m"), "n");
  Network network = OnnxModel(net.graph()).network();
  network.output = "m";
  const Recording recording = onnx::fold_constants(network, weights({2, 1, 4}));
  const Network lowered = onnx::lower(network, recording);
  CHECK(operators_of(lowered) == Names{"Dense", "Affine"});
  check_equal(network, lowered);
}

TEST_CASE("lower: logits are not folded away either, and are found behind what is dropped") {
  Net net({1, 4});
  net.constant("w", weights({4, 3})).constant("zero", at::zeros({3}));
  net.add("MatMul", {"x", "w"}, "m")
      .add("Add", {"m", "zero"}, "logits")
      .add("Softmax", {"logits"}, "y");
  const OnnxModel model(net.graph());
  REQUIRE(model.has_logits());
  CHECK(model.network().logits == "logits");
  const at::Tensor x = weights({5, 4}, 6);
  CHECK(relative_gap(model.forward(x, Head::kLogits), x.mm(weights({4, 3}))) < 1e-6);
  CHECK(relative_gap(model.forward(x, Head::kOutputs), at::softmax(x.mm(weights({4, 3})), 1)) <
        1e-6);
}

TEST_CASE("find_logits: a softmax over a part of the outputs, or before the end, has none") {
  const auto logits = [](const std::vector<int64_t>& shape, int64_t axis, int64_t opset,
                         bool ends) {
    Net net(shape, opset);
    net.add("Relu", {"x"}, "r").add("Softmax", {"r"}, "s", {integer("axis", axis)});
    if (!ends) net.add("Relu", {"s"}, "y");
    Prepared prepared(net);
    onnx::find_logits(prepared.network, prepared.recording);
    return prepared.network.logits;
  };
  CHECK(logits({1, 5}, -1, 13, true) == "r");
  CHECK(logits({1, 5}, 1, 13, true) == "r");
  CHECK(logits({5}, 0, 13, true) == "r");
  CHECK(logits({1, 5, 1}, 1, 13, true) == "r");
  CHECK(logits({1, 5, 2}, 1, 13, true).empty());
  CHECK(logits({2, 5}, 1, 13, true).empty());
  CHECK(logits({1, 5, 2}, 1, 11, true) == "r");  // of the rest, flattened
  CHECK(logits({2, 5}, 1, 11, true).empty());
  CHECK(logits({2, 5}, 0, 11, true) == "r");
  CHECK(logits({1, 5}, -1, 13, false).empty());
}

TEST_CASE("join-sign: zero, both sides and NaN come out as Sign(Sign(x) + c) has them") {
  Net net({1, 5});
  net.constant("c", at::tensor(0.1f)).add("Sign", {"x"}, "s").add("Add", {"s", "c"}, "a");
  net.add("Sign", {"a"}, "y");
  const OnnxModel model(net.graph());
  const at::Tensor x = matrix(1, 5, {-2.f, -0.f, 0.f, 1e-30f, kInf});
  CHECK(floats(model.forward(x, Head::kOutputs)) == std::vector<float>{-1.f, 1.f, 1.f, 1.f, 1.f});
  CHECK(floats(model.evaluate(x)) == std::vector<float>{-1.f, 1.f, 1.f, 1.f, 1.f});
}
