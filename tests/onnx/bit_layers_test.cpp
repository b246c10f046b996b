#include "grapeshot/io/onnx/bit_layers.h"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/core/rng.h"
#include "grapeshot/io/onnx/bind.h"
#include "grapeshot/io/onnx/lower.h"
#include "tests/support/nets.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::onnx;     // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

struct Loaded {
  Network network, lowered;
  Recording recording;
};

Loaded load(const Net& net) {
  Loaded out;
  out.network = bind(net.graph());
  std::vector<int64_t> shape = out.network.input_shape;
  shape.insert(shape.begin(), 2);
  Rng rng(uint64_t{1});
  out.recording = fold_constants(out.network, at::rand(shape, rng.generator()));
  out.lowered = lower(out.network, out.recording);
  return out;
}

std::vector<std::string> operators_of(const Network& network) {
  std::vector<std::string> out;
  for (const BoundNode& bound : network.nodes) out.push_back(bound.node.op);
  return out;
}

// A binarized layer behind a pooling with these attributes.
Net pooled(std::vector<Attribute> attributes) {
  Net net({1, 8, 9, 9});
  net.constant("c", at::tensor(0.1f)).constant("w", at::ones({8, 8, 2, 2}));
  net.add("Sign", {"x"}, "s").add("Add", {"s", "c"}, "a").add("Sign", {"a"}, "b");
  net.add("MaxPool", {"b"}, "p", std::move(attributes))
      .add("Conv", {"p", "w"}, "y", {integers("strides", {2, 2})});
  return net;
}

}  // namespace

TEST_CASE("count_bits: padding of a pooling is no sign") {
  const auto kernel = integers("kernel_shape", {2, 2});
  const auto has_bits = [](const Network& network) {
    const std::vector<std::string> all = operators_of(network);
    return std::ranges::find(all, "BitConv") != all.end();
  };
  CHECK(has_bits(load(pooled({kernel})).lowered));
  CHECK(!has_bits(load(pooled({kernel, integers("pads", {1, 1, 1, 1})})).lowered));
  CHECK(!has_bits(load(pooled({kernel, word("auto_pad", "SAME_UPPER")})).lowered));
}

TEST_CASE("lower: layers of signs that read signs count bits, and change nothing") {
  const auto coins = [](const std::vector<int64_t>& shape, uint64_t seed) {
    return weights(shape, seed).ge(0).to(at::kFloat) * 2. - 1.;
  };
  Net net({1, 3, 9, 9});
  net.constant("w1", coins({16, 3, 2, 2}, 1)).constant("w2", coins({8, 16, 3, 3}, 2));
  net.constant("w3", coins({8 * 3 * 3, 20}, 3)).constant("w4", coins({20, 5}, 4) * 0.25);
  net.constant("w5", weights({20, 5}, 5)).constant("c", at::tensor(0.1f));
  net.constant("shape", at::tensor({1, -1}, at::kLong));
  const auto step = [&](const std::string& in, const std::string& out) {
    net.add("Sign", {in}, out + "s").add("Add", {out + "s", "c"}, out + "a");
    net.add("Sign", {out + "a"}, out);
  };
  net.add("Conv", {"x", "w1"}, "c1");  // reads no signs
  step("c1", "s1");
  net.add("Conv", {"s1", "w2"}, "c2");
  net.add("MaxPool", {"c2"}, "p", {integers("kernel_shape", {2, 2}), integers("strides", {2, 2})});
  step("p", "s2");
  net.add("Reshape", {"s2", "shape"}, "f").add("MatMul", {"f", "w3"}, "m3");
  step("m3", "s3");
  net.add("MatMul", {"s3", "w4"}, "m4").add("MatMul", {"s3", "w5"}, "m5");  // of several sizes
  net.add("Add", {"m4", "m5"}, "y");
  const Loaded loaded = load(net);
  const Network& lowered = loaded.lowered;
  CHECK(operators_of(lowered) == std::vector<std::string>{"PackedConv", "Step", "BitConv",
                                                          "MaxPool", "Step", "Reshape", "BitDense",
                                                          "Step", "BitDense", "Dense", "Add"});
  const at::Tensor x = weights({7, 1, 3, 9, 9}, 77) * 2.;
  const auto run = [&](const Network& network) {
    const Program program(network);
    return program.run(x, {program.slot(network.output)}, Surrogate::kLoose)[0].t;
  };
  CHECK(relative_gap(run(lowered), run(loaded.network)) < 1e-6);
  // The way back is the same as without bits.
  Network plain = loaded.network;
  for (const Pass& pass : onnx::passes()) {
    if (pass.name != "count-bits") pass.run(plain, loaded.recording);
  }
  const auto gradient = [&](const Network& network) {
    const Program program(network);
    return program
        .gradient(x, {program.slot(network.output)}, Surrogate::kBounded,
                  [](const std::vector<onnx::Value>& y) -> std::vector<at::Tensor> {
                    return {weights(y[0].t.sizes().vec(), 5)};
                  })
        .second;
  };
  CHECK(relative_gap(gradient(lowered), gradient(plain)) < 1e-5);
}
