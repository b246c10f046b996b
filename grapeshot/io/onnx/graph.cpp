#include "grapeshot/io/onnx/graph.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/functions.h"
#include "grapeshot/io/onnx/proto.h"
#include "grapeshot/io/onnx/tensor_proto.h"

namespace grapeshot::onnx {

namespace {

using protozero::pbf_reader;

// Field numbers of onnx.proto, https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
namespace model_field {
constexpr uint32_t kIrVersion = 1, kGraph = 7, kOpsetImport = 8, kFunction = 25;
}
namespace function_field {
constexpr uint32_t kName = 1, kInput = 4, kOutput = 5, kNode = 7, kOpset = 9, kDomain = 10,
                   kDefault = 11;
}
namespace opset_field {
constexpr uint32_t kDomain = 1, kVersion = 2;
}
namespace graph_field {
constexpr uint32_t kNode = 1, kInitializer = 5, kInput = 11, kOutput = 12, kSparse = 15;
}
namespace node_field {
constexpr uint32_t kInput = 1, kOutput = 2, kName = 3, kOp = 4, kAttribute = 5, kDomain = 7;
}
namespace attribute_field {
constexpr uint32_t kName = 1, kF = 2, kI = 3, kS = 4, kT = 5, kG = 6, kFloats = 7, kInts = 8,
                   kStrings = 9, kReference = 21;
}
namespace value_field {
constexpr uint32_t kName = 1, kType = 2, kTensorType = 1, kElementType = 1, kShape = 2, kDim = 1,
                   kDimValue = 1, kSequenceType = 4, kOptionalType = 9, kContainedType = 1;
}

constexpr int kMaxDepth = 32;  // of subgraphs

class Reader {
 public:
  explicit Reader(const std::string& path) { graph_.path = path; }

  Graph read(std::string_view bytes) {
    pbf_reader reader(bytes.data(), bytes.size());
    bool has_graph = false, has_ir = false;
    std::vector<Function> functions;
    while (reader.next()) {
      switch (reader.tag()) {
        case model_field::kIrVersion:
          has_ir = reader.get_int64() > 0;
          break;
        case model_field::kOpsetImport:
          read_opset(reader.get_message());
          break;
        case model_field::kGraph:
          has_graph = true;
          read_body(reader.get_message(), graph_, 0);
          break;
        case model_field::kFunction:
          functions.push_back(read_function(reader.get_message()));
          break;
        default:
          reader.skip();
      }
    }
    GRAPESHOT_CHECK(has_graph && has_ir, kParse, graph_.path,
                    ": not an ONNX model (no graph or no IR version in it)");
    GRAPESHOT_CHECK(has_opset_, kParse, graph_.path, ": the model names no ONNX opset");
    GRAPESHOT_CHECK(graph_.opset >= kOldestOpset && graph_.opset <= kNewestOpset, kUnsupported,
                    graph_.path, ": opset ", graph_.opset, " is not known; ", kOldestOpset, " to ",
                    kNewestOpset, " can be read");
    for (const Function& each : functions) {
      GRAPESHOT_CHECK(each.opset == 0 || each.opset == graph_.opset, kUnsupported, graph_.path,
                      ": the function ", each.name, " is of opset ", each.opset,
                      ", the model of opset ", graph_.opset);
    }
    if (!functions.empty()) inline_functions(graph_, functions, graph_.path);
    return std::move(graph_);
  }

 private:
  static std::pair<std::string, int64_t> read_version(pbf_reader reader) {
    std::string domain;
    int64_t version = 0;
    while (reader.next()) {
      switch (reader.tag()) {
        case opset_field::kDomain:
          domain = text(reader);
          break;
        case opset_field::kVersion:
          version = reader.get_int64();
          break;
        default:
          reader.skip();
      }
    }
    if (domain == "ai.onnx") domain.clear();
    return {std::move(domain), version};
  }

  void read_opset(pbf_reader reader) {
    const auto [domain, version] = read_version(reader);
    // A model of other domains' operators alone need not name one of ai.onnx.
    if (!has_opset_) graph_.opset = kNewestOpset, has_opset_ = true;
    if (domain.empty()) graph_.opset = version;
    if (domain == "ai.onnx.ml") graph_.opset_ml = version;
  }

  void read_body(pbf_reader reader, Body& body, int depth) {
    using namespace graph_field;
    GRAPESHOT_CHECK(depth <= kMaxDepth, kUnsupported, graph_.path,
                    ": subgraphs are nested more than ", kMaxDepth, " deep");
    while (reader.next()) {
      switch (reader.tag()) {
        case kNode:
          body.nodes.push_back(read_node(reader.get_message(), body.nodes.size(), depth));
          break;
        case kInitializer: {
          NamedTensor tensor =
              read_tensor(reader.get_message(), graph_.path, "initializer", external_);
          GRAPESHOT_CHECK(!tensor.name.empty(), kParse, graph_.path,
                          ": an initializer has no name");
          GRAPESHOT_CHECK(body.constants.emplace(tensor.name, std::move(tensor.t)).second, kParse,
                          graph_.path, ": initializer '", tensor.name, "' is there twice");
          break;
        }
        case kInput:
          body.inputs.push_back(read_port(reader.get_message()));
          break;
        case kOutput:
          body.outputs.push_back(read_port(reader.get_message()));
          break;
        case kSparse:
          throw Error(ErrorCode::kUnsupported,
                      graph_.path + ": sparse initializers cannot be read");
        default:
          reader.skip();
      }
    }
    // Up to IR version 3 initializers are listed as inputs, too.
    std::erase_if(body.inputs,
                  [&](const Port& port) { return body.constants.contains(port.name); });
    std::unordered_set<std::string> names;
    for (const Port& port : body.inputs) {
      GRAPESHOT_CHECK(!port.name.empty(), kParse, graph_.path, ": an input has no name");
      GRAPESHOT_CHECK(names.insert(port.name).second, kParse, graph_.path, ": input '", port.name,
                      "' is there twice");
    }
  }

  // What the nodes of `body` read from outside of it.
  static std::vector<std::string> captures(const Body& body) {
    std::unordered_set<std::string> inside;
    for (const auto& [name, t] : body.constants) inside.insert(name);
    for (const Port& port : body.inputs) inside.insert(port.name);
    for (const Node& node : body.nodes) inside.insert(node.outputs.begin(), node.outputs.end());
    std::vector<std::string> out;
    const auto add = [&](const std::string& name) {
      if (!name.empty() && inside.insert(name).second) out.push_back(name);
    };
    for (const Node& node : body.nodes) {
      for (const std::string& name : node.inputs) add(name);
      for (const std::string& name : node.captures) add(name);
    }
    for (const Port& port : body.outputs) add(port.name);
    return out;
  }

  Function read_function(pbf_reader reader) {
    using namespace function_field;
    Function function;
    Node defaults;
    while (reader.next()) {
      switch (reader.tag()) {
        case kName:
          function.name = text(reader);
          break;
        case kDomain:
          function.domain = text(reader);
          break;
        case kInput:
          function.inputs.push_back(text(reader));
          break;
        case kOutput:
          function.outputs.push_back(text(reader));
          break;
        case kNode:
          function.nodes.push_back(read_node(reader.get_message(), function.nodes.size(), 0));
          break;
        case kOpset:
          if (const auto [domain, version] = read_version(reader.get_message()); domain.empty()) {
            function.opset = version;
          }
          break;
        case kDefault: {
          pbf_reader attribute = reader.get_message();
          read_attribute(attribute, defaults, 0);
          break;
        }
        default:
          reader.skip();
      }
    }
    if (function.domain == "ai.onnx") function.domain.clear();
    function.defaults = std::move(defaults.attributes);
    return function;
  }

  Node read_node(pbf_reader reader, size_t position, int depth) {
    using namespace node_field;
    Node node;
    std::vector<pbf_reader> attributes;
    while (reader.next()) {
      switch (reader.tag()) {
        case kInput:
          node.inputs.push_back(text(reader));
          break;
        case kOutput:
          node.outputs.push_back(text(reader));
          break;
        case kName:
          node.name = text(reader);
          break;
        case kOp:
          node.op = text(reader);
          break;
        case kDomain:
          node.domain = text(reader);
          break;
        case kAttribute:
          attributes.push_back(reader.get_message());
          break;
        default:
          reader.skip();
      }
    }
    if (node.domain == "ai.onnx") node.domain.clear();
    if (node.name.empty()) node.name = str("#", position);
    for (pbf_reader& attribute : attributes) read_attribute(attribute, node, depth);
    return node;
  }

  void read_attribute(pbf_reader& reader, Node& node, int depth) {
    using namespace attribute_field;
    Attribute a;
    pbf_reader tensor, body;
    bool has_tensor = false, has_body = false;
    while (reader.next()) {
      switch (reader.tag()) {
        case kName:
          a.name = text(reader);
          break;
        case kF:
          a.f = reader.get_float();
          break;
        case kI:
          a.i = reader.get_int64();
          break;
        case kS:
          a.s = text(reader);
          break;
        case kT:
          tensor = reader.get_message(), has_tensor = true;
          break;
        case kG:
          body = reader.get_message(), has_body = true;
          break;
        case kFloats:
          append_float(reader, a.floats);
          break;
        case kInts:
          append_int64(reader, a.ints);
          break;
        case kStrings:
          a.strings.push_back(text(reader));
          break;
        case kReference:
          a.ref = text(reader);
          break;
        default:
          reader.skip();
      }
    }
    if (has_tensor) {
      a.tensor = read_tensor(tensor, graph_.path,
                             str("node '", node.name, "': attribute '", a.name, "'"), external_)
                     .t;
    }
    if (has_body) {
      auto made = std::make_shared<Body>();
      read_body(body, *made, depth + 1);
      const std::vector<std::string> names = captures(*made);
      node.captures.insert(node.captures.end(), names.begin(), names.end());
      a.body = std::move(made);
    }
    node.attributes.push_back(std::move(a));
  }

  Port read_port(pbf_reader reader) {
    Port port;
    while (reader.next()) {
      if (reader.tag() == value_field::kName) {
        port.name = text(reader);
      } else if (reader.tag() == value_field::kType) {
        read_type(reader.get_message(), port, 0);
      } else {
        reader.skip();
      }
    }
    return port;
  }

  void read_type(pbf_reader reader, Port& port, int depth) {
    using namespace value_field;
    GRAPESHOT_CHECK(depth <= kMaxDepth, kUnsupported, graph_.path, ": the type of '", port.name,
                    "' is nested more than ", kMaxDepth, " deep");
    while (reader.next()) {
      if (reader.tag() == kTensorType) {
        read_tensor_type(reader.get_message(), port);
      } else if (reader.tag() == kSequenceType || reader.tag() == kOptionalType) {
        port.containers.push_back(reader.tag() == kSequenceType ? Container::kSequence
                                                                : Container::kOptional);
        port.float32 = false;
        pbf_reader contained = reader.get_message();
        while (contained.next(kContainedType)) read_type(contained.get_message(), port, depth + 1);
      } else {
        reader.skip();
      }
    }
  }

  static void read_tensor_type(pbf_reader reader, Port& port) {
    while (reader.next()) {
      if (reader.tag() == value_field::kElementType) {
        port.element = reader.get_int32();
        port.float32 = port.element == 1 && port.containers.empty();
      } else if (reader.tag() == value_field::kShape) {
        port.has_shape = true;
        pbf_reader shape = reader.get_message();
        while (shape.next(value_field::kDim)) {
          pbf_reader dim = shape.get_message();
          int64_t size = -1;
          while (dim.next()) {
            if (dim.tag() == value_field::kDimValue) {
              size = dim.get_int64();
            } else {
              dim.skip();
            }
          }
          port.shape.push_back(size > 0 ? size : -1);
        }
      } else {
        reader.skip();
      }
    }
  }

  Graph graph_;
  bool has_opset_ = false;
  uint64_t external_ = 0;  // bytes of external data so far
};

}  // namespace

const Attribute* Node::find(std::string_view attribute) const {
  const auto it = std::ranges::find(attributes, attribute, &Attribute::name);
  return it == attributes.end() ? nullptr : &*it;
}

int64_t Node::i(std::string_view attribute, int64_t otherwise) const {
  const Attribute* a = find(attribute);
  return a ? a->i : otherwise;
}

float Node::f(std::string_view attribute, float otherwise) const {
  const Attribute* a = find(attribute);
  return a ? a->f : otherwise;
}

std::string_view Node::s(std::string_view attribute, std::string_view otherwise) const {
  const Attribute* a = find(attribute);
  return a ? std::string_view(a->s) : otherwise;
}

std::vector<int64_t> Node::ints(std::string_view attribute, std::vector<int64_t> otherwise) const {
  const Attribute* a = find(attribute);
  return a ? a->ints : std::move(otherwise);
}

Graph parse_graph(std::string_view bytes, const std::string& path) {
  try {
    return Reader(path).read(bytes);
  } catch (const protozero::exception& e) {
    throw Error(ErrorCode::kParse,
                str(path, ": not an ONNX model, or cut off or damaged (", e.what(), ")"));
  }
}

}  // namespace grapeshot::onnx
