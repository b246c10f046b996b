#include "grapeshot/io/onnx/body.h"

#include <doctest/doctest.h>

#include "grapeshot/io/onnx/low_float.h"
#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/onnx/value_proto.h"
#include "tests/support/files.h"
#include "tests/support/nets.h"
#include "tests/support/onnx_bytes.h"
#include "tests/support/tensors.h"

namespace grapeshot::testing {
namespace {

using onnx::Body;
using onnx::Container;
using onnx::Evaluator;
using onnx::Graph;
using onnx::OnnxModel;
using onnx::Port;
using onnx::Value;
using onnx::Values;

Port port(std::string name, int32_t element = 1, std::vector<Container> containers = {}) {
  Port out;
  out.name = std::move(name);
  out.element = element;
  out.containers = std::move(containers);
  return out;
}

onnx::Attribute subgraph(std::string name, Body body) {
  onnx::Attribute a;
  a.name = std::move(name);
  a.body = std::make_shared<const Body>(std::move(body));
  return a;
}

// A network of one node with inputs a, b, ... of these element types and one output.
Evaluator node_of(std::string op, const std::vector<int32_t>& types,
                  std::vector<onnx::Attribute> attributes = {}, int64_t opset = 18) {
  Net net({1}, opset);
  std::vector<std::string> names;
  net.edit().inputs.clear();
  for (const int32_t type : types) {
    names.emplace_back(1, static_cast<char>('a' + names.size()));
    net.edit().inputs.push_back(port(names.back(), type));
  }
  net.add(std::move(op), names, "y", std::move(attributes));
  return Evaluator(net.graph());
}

at::Tensor run(const Evaluator& evaluate, const std::vector<at::Tensor>& inputs) {
  std::vector<Value> values;
  for (const at::Tensor& t : inputs) values.push_back({t, false});
  return evaluate(values)[0].t;
}

// As many bits as the text of an unsigned number has.
at::Tensor unsigned_numbers(const std::vector<uint64_t>& values) {
  at::Tensor out = at::empty({static_cast<int64_t>(values.size())}, at::TensorOptions(at::kUInt64));
  std::ranges::copy(values, static_cast<uint64_t*>(out.data_ptr()));
  return out;
}

constexpr uint64_t kMost = ~uint64_t{0};

// A loop from "x" on whose body is `body`, its own inputs i, go and s, its outputs go2 and t.
Net loop_of(Body body, std::vector<std::string> inputs, std::vector<std::string> captures = {}) {
  body.inputs = {port("i", 7), port("go", 9), port("s")};
  body.outputs = {port("go2", 9), port("t")};
  Net net({1, 3});
  net.constant("n", at::scalar_tensor(3, at::TensorOptions(at::kLong)));
  net.constant("yes", at::scalar_tensor(true, at::TensorOptions(at::kBool)));
  net.add("Loop", std::move(inputs), "y", {subgraph("body", std::move(body))});
  net.edit().nodes.back().captures = std::move(captures);
  return net;
}

Body doubling(const std::string& condition) {
  Net inside({1});
  inside.add("Add", {"s", "s"}, "t").add("Identity", {condition}, "go2");
  return inside.graph();
}

}  // namespace

TEST_CASE("Evaluator: uint64 beyond 2^63 compares, divides and wraps around as unsigned") {
  const at::Tensor a = unsigned_numbers({kMost, 5, kMost - 1, uint64_t{1} << 63}),
                   b = unsigned_numbers({2, kMost, kMost, 3});
  const auto on = [&](const char* op, std::vector<onnx::Attribute> attributes = {}) {
    return run(node_of(op, {13, 13}, std::move(attributes)), {a, b});
  };
  CHECK(at::equal(on("Less"), flags({0, 1, 1, 0})));
  CHECK(at::equal(on("Max"), unsigned_numbers({kMost, kMost, kMost, uint64_t{1} << 63})));
  CHECK(at::equal(on("Min"), unsigned_numbers({2, 5, kMost - 1, 3})));
  CHECK(at::equal(on("Div"), unsigned_numbers({kMost / 2, 0, 0, (uint64_t{1} << 63) / 3})));
  CHECK(at::equal(on("Mod"), unsigned_numbers({1, 5, kMost - 1, (uint64_t{1} << 63) % 3})));
  CHECK(at::equal(on("Add"), unsigned_numbers({1, 4, kMost - 2, (uint64_t{1} << 63) + 3})));
  CHECK(at::equal(run(node_of("BitShift", {13, 13}, {word("direction", "RIGHT")}),
                      {a, unsigned_numbers({0, 1, 60, 63})}),
                  unsigned_numbers({kMost, 2, 15, 1})));
}

TEST_CASE("Evaluator: the smallest integer over -1, and its remainder, end no process") {
  const at::Tensor a = indices({std::numeric_limits<int64_t>::min(), -7}), b = indices({-1, 2});
  CHECK(at::equal(run(node_of("Div", {7, 7}), {a, b}),
                  indices({std::numeric_limits<int64_t>::min(), -3})));
  CHECK(at::equal(run(node_of("Mod", {7, 7}), {a, b}), indices({0, 1})));
  CHECK(at::equal(run(node_of("Mod", {7, 7}, {integer("fmod", 1)}), {a, b}), indices({0, -1})));
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
          run(node_of("Div", {7, 7}), {a, indices({0, 1})});
        }).starts_with("net.onnx: node 'y' (Div, opset 18): "));
}

TEST_CASE("Evaluator: an input of another type than the model's is refused by name") {
  const Evaluator add = node_of("Add", {1, 1});
  const at::Tensor x = at::ones({2});
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] { run(add, {x, indices({1, 2})}); }) ==
        "net.onnx: the value for input 'b' is no float");
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] { run(add, {x}); }) ==
        "net.onnx: there are 1 inputs for 2 of the model");
  Net net({1}, 15);
  net.edit().inputs = {port("q", 7, {Container::kOptional, Container::kSequence})};
  net.add("OptionalGetElement", {"q"}, "y");
  const Evaluator get(net.graph());
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] { run(get, {x}); }) ==
        "net.onnx: the value for input 'q' is no optional sequence of int64");
  CHECK(message_of(ErrorCode::kInvalidArgument, [&] {
          run(get, {at::Tensor()});
        }).ends_with("the optional is empty"));
}

TEST_CASE("converted: the largest numbers of float8, and what lies beyond") {
  const float inf = kInf;
  const at::Tensor x = at::tensor({464.f, 465.f, 1e6f, inf, -inf, kNan, 0.f});
  const auto bits = [&](at::ScalarType type, bool saturate) {
    return longs(onnx::converted(x, type, saturate).view(at::kByte));
  };
  using Bits = std::vector<int64_t>;
  CHECK(bits(at::kFloat8_e4m3fn, true) == Bits{0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x7f, 0});
  CHECK(bits(at::kFloat8_e4m3fn, false) == Bits{0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0});
  CHECK(bits(at::kFloat8_e4m3fnuz, true) == Bits{0x7f, 0x7f, 0x7f, 0x7f, 0xff, 0x80, 0});
  CHECK(bits(at::kFloat8_e5m2, false)[2] == 0x7c);
  CHECK(bits(at::kFloat8_e5m2, true)[2] == 0x7b);
  const at::Tensor powers = at::tensor({0.f, 1.f, 1.1f, 1.5f, 1.9f});
  const auto exponents = [&](std::string_view mode) {
    return longs(onnx::converted(powers, at::kFloat8_e8m0fnu, true, mode).view(at::kByte));
  };
  CHECK(exponents("up") == Bits{0, 127, 128, 128, 128});
  CHECK(exponents("down") == Bits{0, 127, 127, 127, 127});
  CHECK(exponents("nearest") == Bits{0, 127, 127, 128, 128});
  CHECK_THROWS_AS(exponents("sideways"), Error);
}

TEST_CASE("Loop: one that never ends, or has another in every round, is an error, not a hang") {
  const auto endless = loop_of(doubling("go"), {"", "yes", "x"}).graph();
  const std::string why = message_of(ErrorCode::kUnsupported, [&] { OnnxModel{endless}; });
  CHECK(why == "net.onnx: node 'y' (Loop, opset 13): its subgraphs run more than 16384 times");
  Body outer = doubling("go");
  Body inner = doubling("go");
  inner.inputs = {port("i", 7), port("go", 9), port("s")};
  inner.outputs = {port("go2", 9), port("t")};
  outer.nodes[0] = loop_of(inner, {"many", "", "s"}).graph().nodes[0];
  outer.nodes[0].outputs = {"t"};
  outer.constants["many"] = at::scalar_tensor(1000, at::TensorOptions(at::kLong));
  CHECK(message_of(ErrorCode::kUnsupported, [&] {
          OnnxModel{loop_of(outer, {"", "yes", "x"}).graph()};
        }).ends_with("its subgraphs run more than 16384 times"));
}

TEST_CASE("SequenceInsert: a sequence that grows in a loop does not fill memory") {
  Net inside({1});
  inside.add("SequenceInsert", {"s", "v"}, "t").add("Identity", {"go"}, "go2");
  Net net = loop_of(inside.graph(), {"", "yes", "q"}, {"v"});
  net.edit().nodes[0].outputs = {"grown"};
  net.constant("v", at::ones({2}));
  net.add("SequenceEmpty", {}, "q").add("SequenceLength", {"grown"}, "n2");
  net.edit().inputs.clear();
  net.edit().outputs = {port("n2", 7)};
  CHECK(message_of(ErrorCode::kUnsupported, [&] {
          (void)Evaluator(net.graph())({});
        }).ends_with("a sequence has more than 4096 values"));
}

TEST_CASE("Loop: rows run together unless what decides depends on them") {
  const at::Tensor x = weights({4, 3}, 3) + 2.;
  const OnnxModel together(loop_of(doubling("go"), {"n", "yes", "x"}).graph());
  CHECK(together.islands().empty());
  CHECK(relative_gap(together.forward(x, Head::kOutputs), x * 8.) == 0.);
  const at::Tensor ones = at::ones_like(x);
  const auto gradient = [&](const OnnxModel& model) {
    return model
        .gradient(x, Head::kOutputs, Surrogate::kLoose, [&](const at::Tensor&) { return ones; })
        .x;
  };
  CHECK(relative_gap(gradient(together), ones * 8.) == 0.);

  // As long as the sum is below 30.
  Net inside({1});
  inside.constant("most", at::scalar_tensor(30.f));
  inside.add("Add", {"s", "s"}, "t").add("ReduceSum", {"t"}, "sum", {integer("keepdims", 0)});
  inside.add("Less", {"sum", "most"}, "go2");
  const OnnxModel alone(loop_of(inside.graph(), {"", "yes", "x"}).graph());
  CHECK(alone.islands() == std::vector<std::string>{"'y' (Loop)"});
  const at::Tensor y = alone.forward(x, Head::kOutputs);
  for (int64_t i = 0; i < x.size(0); ++i) {
    at::Tensor expected = x[i] * 2.;
    while (expected.sum().item<float>() < 30.f) expected = expected * 2.;
    CHECK(relative_gap(y[i], expected) == 0.);
  }
  CHECK(relative_gap(gradient(alone) * x, y) < 1e-6);
}

TEST_CASE("subgraphs: what is wrong with one is said with both nodes") {
  Body wrong = doubling("nobody");
  CHECK(message_of(ErrorCode::kParse, [&] {
          OnnxModel{loop_of(wrong, {"n", "yes", "x"}, {"nobody"}).graph()};
        }) == "net.onnx: node 'y' reads 'nobody', which nothing writes");
  CHECK(message_of(ErrorCode::kUnsupported,
                   [&] { OnnxModel{loop_of(wrong, {"n", "yes", "x"}).graph()}; }) ==
        "net.onnx: node 'y' (Loop, opset 13): node 'go2' reads 'nobody', which is not computed");
  Net none({1, 3});
  none.constant("n", at::scalar_tensor(3, at::TensorOptions(at::kLong)));
  none.add("Loop", {"n", "", "x"}, "y");
  CHECK(message_of(ErrorCode::kParse, [&] {
          OnnxModel{none.graph()};
        }).ends_with("there is no body"));
}

TEST_CASE("sequences: gradients pass through, and an output that is one is refused") {
  Net net({1, 4});
  net.add("SplitToSequence", {"x"}, "parts", {integer("axis", 1)});
  net.constant("last", at::scalar_tensor(-1, at::TensorOptions(at::kLong)));
  net.add("SequenceAt", {"parts", "last"}, "y");
  const OnnxModel model(net.graph());
  const at::Tensor x = weights({3, 4}, 2);
  CHECK(relative_gap(model.forward(x, Head::kOutputs), x.slice(1, 3, 4)) == 0.);
  const at::Tensor g = model
                           .gradient(x, Head::kOutputs, Surrogate::kLoose,
                                     [](const at::Tensor& y) { return at::ones_like(y); })
                           .x;
  CHECK(relative_gap(g, at::tensor({0.f, 0.f, 0.f, 1.f}).expand({3, 4})) == 0.);
  Net whole({1, 4});
  whole.add("SplitToSequence", {"x"}, "y", {integer("axis", 1)});
  CHECK(message_of(ErrorCode::kUnsupported, [&] { OnnxModel{whole.graph()}; }) ==
        "net.onnx: the output 'y' is no tensor");
}

TEST_CASE("QuantizeLinear: its gradient passes straight through, up to the ends of the grid") {
  Net net({1, 3});
  net.constant("s", at::scalar_tensor(.5f));
  net.constant("z", at::scalar_tensor(10, at::TensorOptions(at::kByte)));
  net.add("QuantizeLinear", {"x", "s", "z"}, "q").add("DequantizeLinear", {"q", "s", "z"}, "y");
  const OnnxModel model(net.graph());
  const at::Tensor x = matrix(1, 3, {1.3f, -100.f, 0.25f});
  CHECK(floats(model.forward(x, Head::kOutputs)) == std::vector<float>{1.5f, -5.f, 0.f});
  const at::Tensor g = model
                           .gradient(x, Head::kOutputs, Surrogate::kLoose,
                                     [](const at::Tensor& y) { return at::ones_like(y); })
                           .x;
  CHECK(floats(g) == std::vector<float>{1.f, 0.f, 1.f});
}

TEST_CASE("parse_value: sequences and optionals, and what is none") {
  const Message one = Message().packed(1, {2}).number(2, 7).packed(7, {3, 4});
  const std::string bytes = Message().message(3, one).message(3, one).bytes();
  const Value both = onnx::parse_value(bytes, "in.pb", port("x", 7, {Container::kSequence}));
  REQUIRE(both.sequence);
  CHECK(both.sequence->size() == 2);
  CHECK(at::equal(both.sequence->at(1).t, indices({3, 4})));
  CHECK(!onnx::parse_value("", "in.pb", port("x", 7, {Container::kOptional})).there());
  CHECK(message_of(ErrorCode::kParse, [&] {
          (void)onnx::parse_value(bytes.substr(0, 5), "in.pb",
                                  port("x", 7, {Container::kSequence}));
        }).starts_with("in.pb: not a value of ONNX, or cut off or damaged"));
  // Two numbers of four bits a byte, the lower ones first, negative ones among them.
  const Message few = Message().packed(1, {3}).number(2, 22).text(9, "\x8f\x07");
  const Value v = onnx::parse_value(few.bytes(), "in.pb", port("x", 22));
  CHECK(longs(v.t.view(at::kChar)) == std::vector<int64_t>{-1, -8, 7});
}

}  // namespace grapeshot::testing
