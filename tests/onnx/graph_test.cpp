#include "grapeshot/io/onnx/graph.h"

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/model.h"
#include "tests/support/files.h"
#include "tests/support/nets.h"
#include "tests/support/onnx_bytes.h"
#include "tests/support/tensors.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)
using onnx::Graph;
using onnx::parse_graph;

namespace {

const onnx::Port kInput{.name = "x", .shape = {1, 2}, .float32 = true, .has_shape = true};

/// A graph with nothing but an initializer.
std::string with_initializer(const Message& tensor) {
  return model_bytes(Message().message(5, tensor));
}

std::string refusal(ErrorCode code, const std::string& bytes) {
  return message_of(code, [&] { (void)parse_graph(bytes, "net.onnx"); });
}

at::Tensor initializer(const Message& tensor) {
  return parse_graph(with_initializer(tensor), "net.onnx").constants.at("w");
}

/// Whether `bytes` are read, and run if they are; anything but a grapeshot::Error fails.
bool survives(const std::string& bytes) {
  try {
    const Graph graph = parse_graph(bytes, "net.onnx");
    try {
      const onnx::OnnxModel model(graph);
      CHECK(model.evaluate(at::zeros({1, model.inputs()})).size(1) == model.outputs());
    } catch (const Error& error) {
      CHECK(std::string_view(error.what()).starts_with("net.onnx: "));
    }
    return true;
  } catch (const Error& error) {
    CHECK(std::string_view(error.what()).starts_with("net.onnx: "));
    return false;
  }
}

}  // namespace

TEST_CASE("parse_graph: nodes, ports and constants as they were written") {
  Net net({-1, 3, 4});
  net.constant("w", weights({2, 3})).constant("k", at::tensor({3, -1}, at::kLong));
  net.add("Conv", {"x", "w", ""}, "c",
          {integer("group", -2), real("alpha", 0.5f), word("auto_pad", "VALID"),
           integers("pads", {1, 0, -1}), tensor("value", weights({2}))});
  net.add("Relu", {"c"}, "y");
  net.edit().nodes[1].domain = "com.example";
  const Graph graph = parse_graph(model_bytes(net.graph()), "net.onnx");
  CHECK(graph.path == "net.onnx");
  CHECK(graph.opset == 13);
  REQUIRE(graph.nodes.size() == 2);
  const onnx::Node& conv = graph.nodes[0];
  CHECK(conv.op == "Conv");
  CHECK(conv.name == "c");
  CHECK(conv.domain.empty());
  CHECK(conv.inputs == std::vector<std::string>{"x", "w", ""});
  CHECK(conv.outputs == std::vector<std::string>{"c"});
  CHECK(conv.i("group", 1) == -2);
  CHECK(conv.i("missing", 7) == 7);
  CHECK(conv.f("alpha", 1.f) == 0.5f);
  CHECK(conv.f("missing", 2.f) == 2.f);
  CHECK(conv.s("auto_pad", "") == "VALID");
  CHECK(conv.s("missing", "NOTSET") == "NOTSET");
  CHECK(conv.ints("pads", {}) == std::vector<int64_t>{1, 0, -1});
  CHECK(conv.ints("missing", {4}) == std::vector<int64_t>{4});
  CHECK(at::equal(conv.find("value")->tensor, weights({2})));
  CHECK(conv.find("missing") == nullptr);
  CHECK(graph.nodes[1].domain == "com.example");
  REQUIRE(graph.inputs.size() == 1);
  CHECK(graph.inputs[0].name == "x");
  CHECK(graph.inputs[0].shape == std::vector<int64_t>{-1, 3, 4});
  CHECK(graph.inputs[0].has_shape);
  CHECK(graph.inputs[0].float32);
  REQUIRE(graph.outputs.size() == 1);
  CHECK(graph.outputs[0].name == "y");
  CHECK(!graph.outputs[0].has_shape);
  CHECK(graph.constants.size() == 2);
  CHECK(at::equal(graph.constants.at("w"), weights({2, 3})));
  CHECK(at::equal(graph.constants.at("k"), at::tensor({3, -1}, at::kLong)));
}

TEST_CASE("parse_graph: numbers of every type, raw, packed or one by one") {
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kInt, at::kLong, at::kByte, at::kBool}) {
    const at::Tensor t = at::tensor({0., 1., 1.}).to(type);
    const at::Tensor got = initializer(tensor_message("w", t));
    CHECK((got.scalar_type() == type));
    CHECK(at::equal(got, t));
  }
  const auto header = [](int32_t type, std::vector<int64_t> dims) {
    return Message().packed(1, dims).number(2, type).text(8, "w");
  };
  const at::Tensor expected = at::tensor({1.5f, -2.f});
  CHECK(at::equal(initializer(header(1, {2}).fixed<float>(4, {1.5f, -2.f})), expected));
  CHECK(at::equal(initializer(header(1, {2}).real(4, 1.5f).real(4, -2.f)), expected));
  CHECK(at::equal(initializer(header(11, {2}).fixed<double>(10, {1.5, -2.})),
                  expected.to(at::kDouble)));
  CHECK(at::equal(initializer(header(11, {2}).real64(10, 1.5).real64(10, -2.)),
                  expected.to(at::kDouble)));
  const at::Tensor integral = at::tensor({5, -6}, at::kLong);
  CHECK(at::equal(initializer(header(7, {2}).packed(7, {5, -6})), integral));
  CHECK(at::equal(initializer(header(7, {2}).number(7, 5).number(7, -6)), integral));
  CHECK(at::equal(initializer(header(6, {2}).packed(5, {5, -6})), integral.to(at::kInt)));
  CHECK(at::equal(initializer(header(2, {2}).packed(5, {5, 255})),
                  at::tensor({5, 255}, at::kLong).to(at::kByte)));
  CHECK(at::equal(initializer(header(9, {2}).packed(5, {1, 0})), flags({1, 0})));
  CHECK(initializer(header(1, {}).real(4, 3.f)).dim() == 0);
  CHECK(initializer(header(1, {0, 3})).sizes() == at::IntArrayRef({0, 3}));
}

TEST_CASE("parse_graph: an initializer whose numbers do not fit its shape is refused") {
  const Message raw =
      Message().packed(1, {2, 3}).number(2, 1).text(8, "w").text(9, std::string(20, 'a'));
  CHECK(refusal(ErrorCode::kParse, with_initializer(raw)) ==
        "net.onnx: initializer 'w' has 20 bytes, its shape asks for 6 values of 32 bits");
  const Message listed =
      Message().packed(1, {2, 3}).number(2, 1).text(8, "w").fixed<float>(4, {1.f});
  CHECK(refusal(ErrorCode::kParse, with_initializer(listed)) ==
        "net.onnx: initializer 'w' has 1 values, its shape asks for 6");
  const Message none = Message().packed(1, {2}).number(2, 7).text(8, "w");
  CHECK(refusal(ErrorCode::kParse, with_initializer(none)) ==
        "net.onnx: initializer 'w' has 0 values, its shape asks for 2");
  for (const int64_t dim : {int64_t{-1}, int64_t{1} << 62}) {
    const Message huge = Message().packed(1, {4, dim}).number(2, 1).text(8, "w");
    CHECK(refusal(ErrorCode::kParse, with_initializer(huge)) ==
          str("net.onnx: initializer 'w' has an impossible dimension ", dim));
  }
  // Impossible as well, although there is nothing in it.
  const Message empty =
      Message().packed(1, {0, int64_t{1} << 40, int64_t{1} << 40}).number(2, 1).text(8, "w");
  CHECK(!survives(with_initializer(empty)));
}

TEST_CASE("parse_graph: what cannot be read is named") {
  const std::string known =
      "float, uint8, int8, uint16, int16, int32, int64, bool, float16, double, uint32, uint64, "
      "bfloat16, float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, uint4, int4, "
      "float4e2m1, float8e8m0, uint2, int2 can be read";
  CHECK(refusal(ErrorCode::kUnsupported,
                with_initializer(Message().packed(1, {1}).number(2, 8).text(8, "w"))) ==
        "net.onnx: initializer 'w' has element type 8; " + known);
  CHECK(refusal(ErrorCode::kParse,
                with_initializer(Message().number(2, 1).text(8, "w").number(14, 1))) ==
        "net.onnx: initializer 'w': its external data names no file");
  CHECK(refusal(ErrorCode::kUnsupported, model_bytes(Message().message(15, Message()))) ==
        "net.onnx: sparse initializers cannot be read");
  const Message attribute =
      Message().text(1, "value").message(5, Message().packed(1, {1}).number(2, 14));
  const Message node =
      Message().text(2, "y").text(3, "c").text(4, "Constant").message(5, attribute);
  CHECK(refusal(ErrorCode::kUnsupported, model_bytes(Message().message(1, node))) ==
        "net.onnx: node 'c': attribute 'value' has element type 14; " + known);
}

TEST_CASE("parse_graph: what is no model is said to be none") {
  CHECK(refusal(ErrorCode::kParse, "") ==
        "net.onnx: not an ONNX model (no graph or no IR version in it)");
  CHECK(refusal(ErrorCode::kParse, Message().number(1, 8).bytes()) ==
        "net.onnx: not an ONNX model (no graph or no IR version in it)");
  CHECK(refusal(ErrorCode::kParse, Message().message(7, Message()).bytes()) ==
        "net.onnx: not an ONNX model (no graph or no IR version in it)");
  CHECK(refusal(ErrorCode::kParse, Message().number(1, 8).message(7, Message()).bytes()) ==
        "net.onnx: the model names no ONNX opset");
  for (const char* text :
       {"(declare-const X_0 Real)\n", "PK\x03\x04", "{\"a\": 1}", "\x1f\x8b\x08"}) {
    CHECK(refusal(ErrorCode::kParse, text).starts_with("net.onnx: not an ONNX model"));
  }
}

TEST_CASE("parse_graph: initializers listed as inputs are none") {
  Net net({1, 2});
  net.constant("w", weights({2, 2})).add("MatMul", {"x", "w"}, "y");
  Graph graph = net.graph();
  graph.inputs.insert(graph.inputs.begin(),
                      {.name = "w", .shape = {2, 2}, .float32 = true, .has_shape = true});
  const Graph read = parse_graph(model_bytes(graph), "net.onnx");
  REQUIRE(read.inputs.size() == 1);
  CHECK(read.inputs[0].name == "x");
}

TEST_CASE("parse_graph: names for the nameless, one domain for ONNX, opsets of others apart") {
  Message graph;
  graph.message(1, Message().text(1, "x").text(2, "a").text(4, "Relu"));
  graph.message(1, Message().text(1, "a").text(2, "y").text(4, "Relu").text(7, "ai.onnx"));
  graph.message(11, port_message(kInput));
  const std::string bytes = Message()
                                .number(1, 8)
                                .message(8, Message().text(1, "ai.onnx.ml").number(2, 3))
                                .message(8, Message().text(1, "ai.onnx").number(2, 17))
                                .message(8, Message().text(1, "com.example").number(2, 99))
                                .message(7, graph)
                                .bytes();
  const Graph read = parse_graph(bytes, "net.onnx");
  CHECK(read.opset == 17);
  CHECK(read.opset_ml == 3);
  REQUIRE(read.nodes.size() == 2);
  CHECK(read.nodes[0].name == "#0");
  CHECK(read.nodes[1].name == "#1");
  CHECK(read.nodes[1].domain.empty());
}

TEST_CASE("parse_graph: fields that it does not know are passed over") {
  Message graph = graph_message(mlp().graph());
  graph.text(999, "?").number(998, 1).real(997, 1.f).real64(996, 1.);
  const std::string bytes = Message().text(500, "?").bytes() + model_bytes(graph);
  CHECK(parse_graph(bytes, "net.onnx").nodes.size() == mlp().graph().nodes.size());
}

TEST_CASE(
    "parse_graph: a file cut off at any byte is refused, or is a smaller graph; it never crashes") {
  for (const std::string& bytes : {model_bytes(mlp().graph()), model_bytes(cnn().graph())}) {
    REQUIRE(survives(bytes));
    size_t read = 0;
    for (size_t size = 0; size < bytes.size(); ++size)
      read += survives(bytes.substr(0, size)) ? 1 : 0;
    CHECK(read == 0);  // the opset comes last
  }
}

TEST_CASE("parse_graph: damaged bytes are refused or read as something; they never crash") {
  std::mt19937 random(1);
  size_t read = 0, refused = 0;
  for (const std::string& bytes : {model_bytes(mlp().graph()), model_bytes(cnn().graph())}) {
    for (int i = 0; i < 1000; ++i) {
      std::string damaged = bytes;
      const auto flips = 1 + random() % 3;
      for (size_t k = 0; k < flips; ++k) {
        damaged[random() % damaged.size()] ^= static_cast<char>(1U << random() % 8);
      }
      CAPTURE(i);
      (survives(damaged) ? read : refused) += 1;
    }
  }
  CHECK(read > 100);
  CHECK(refused > 100);
}

TEST_CASE("parse_graph: bytes replaced, removed and repeated at the structure of the file") {
  std::mt19937 random(2);
  Graph graph = mlp().graph();
  graph.constants.clear();  // mostly structure then
  graph.constants["w1"] = weights({6, 1});
  const std::string bytes = model_bytes(graph);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    const size_t at = random() % damaged.size(), length = 1 + random() % 8;
    switch (random() % 3) {
      case 0:
        damaged[at] = static_cast<char>(random());
        break;
      case 1:
        damaged.erase(at, length);
        break;
      default:
        damaged.insert(at, damaged.substr(at, length));
    }
    CAPTURE(i);
    (void)survives(damaged);
  }
}
