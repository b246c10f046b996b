#include "grapeshot/io/onnx/graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

// A malformed file must be an error, neither an abort nor a silent wrong read.
namespace grapeshot::onnx {
[[noreturn]] static void throw_malformed();
}
#define protozero_assert(x) ((x) ? static_cast<void>(0) : ::grapeshot::onnx::throw_malformed())
#include <protozero/pbf_reader.hpp>

namespace grapeshot::onnx {

static void throw_malformed() {
  throw protozero::unknown_pbf_wire_type_exception();
}

namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// Field numbers of onnx.proto, https://github.com/onnx/onnx/blob/main/onnx/onnx.proto; this file is
// the only place that knows them.
namespace model_field {
constexpr uint32_t kIrVersion = 1, kGraph = 7, kOpsetImport = 8;
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
constexpr uint32_t kName = 1, kF = 2, kI = 3, kS = 4, kT = 5, kG = 6, kFloats = 7, kInts = 8;
}
namespace tensor_field {
constexpr uint32_t kDims = 1, kType = 2, kFloat = 4, kInt32 = 5, kInt64 = 7, kName = 8, kRaw = 9,
                   kDouble = 10, kLocation = 14;
}
namespace value_field {
constexpr uint32_t kName = 1, kType = 2, kTensorType = 1, kElementType = 1, kShape = 2, kDim = 1,
                   kDimValue = 1;
}

std::string text(pbf_reader& reader) {
  const auto view = reader.get_view();
  return {view.data(), view.size()};
}

// Repeated numbers come packed or one by one; both must be read.
template <class T, class Packed, class One>
void append(pbf_reader& reader, std::vector<T>& out, Packed packed, One one) {
  if (reader.has_wire_type(pbf_wire_type::length_delimited)) {
    for (const auto value : packed()) out.push_back(static_cast<T>(value));
  } else {
    out.push_back(static_cast<T>(one()));
  }
}

void append_int64(pbf_reader& reader, std::vector<int64_t>& out) {
  append(
      reader, out, [&] { return reader.get_packed_int64(); }, [&] { return reader.get_int64(); });
}

void append_int32(pbf_reader& reader, std::vector<int32_t>& out) {
  append(
      reader, out, [&] { return reader.get_packed_int32(); }, [&] { return reader.get_int32(); });
}

void append_float(pbf_reader& reader, std::vector<float>& out) {
  append(
      reader, out, [&] { return reader.get_packed_float(); }, [&] { return reader.get_float(); });
}

void append_double(pbf_reader& reader, std::vector<double>& out) {
  append(
      reader, out, [&] { return reader.get_packed_double(); }, [&] { return reader.get_double(); });
}

struct ElementType {
  int32_t code;
  at::ScalarType type;
  const char* name;
};

constexpr ElementType kElementTypes[] = {
    {1, at::kFloat, "float"}, {2, at::kByte, "uint8"}, {6, at::kInt, "int32"},
    {7, at::kLong, "int64"},  {9, at::kBool, "bool"},  {11, at::kDouble, "double"},
};

const ElementType* element_type(int32_t code) {
  const auto row = std::ranges::find(kElementTypes, code, &ElementType::code);
  return row == std::end(kElementTypes) ? nullptr : row;
}

// Everything a TensorProto may carry its numbers in.
struct TensorFields {
  std::string name;
  std::vector<int64_t> dims;
  int32_t type = 0;
  int32_t location = 0;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int32_t> ints;
  std::vector<int64_t> longs;
  protozero::data_view raw;
  bool has_raw = false;
};

TensorFields read_tensor_fields(pbf_reader reader) {
  using namespace tensor_field;
  TensorFields t;
  while (reader.next()) {
    switch (reader.tag()) {
      case kDims:
        append_int64(reader, t.dims);
        break;
      case kType:
        t.type = reader.get_int32();
        break;
      case kFloat:
        append_float(reader, t.floats);
        break;
      case kInt32:
        append_int32(reader, t.ints);
        break;
      case kInt64:
        append_int64(reader, t.longs);
        break;
      case kDouble:
        append_double(reader, t.doubles);
        break;
      case kName:
        t.name = text(reader);
        break;
      case kRaw:
        t.raw = reader.get_view(), t.has_raw = true;
        break;
      case kLocation:
        t.location = reader.get_int32();
        break;
      default:
        reader.skip();
    }
  }
  return t;
}

// The tensor; `what` starts every message ("net.onnx: initializer 'w'").
at::Tensor make_tensor(const TensorFields& t, const std::string& what) {
  GRAPESHOT_CHECK(t.location == 0, kUnsupported, what, " keeps its data in an external file");
  const ElementType* type = element_type(t.type);
  GRAPESHOT_CHECK(type, kUnsupported, what, " has element type ", t.type,
                  "; float, double, int32, int64, uint8 and bool can be read");
  int64_t count = 1, bytes = 8;  // torch computes strides even where a 0 empties the tensor
  for (const int64_t dim : t.dims) {
    GRAPESHOT_CHECK(dim >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes),
                    kParse, what, " has an impossible dimension ", dim);
    count *= dim;
  }
  const auto copy = [&](const auto& values, at::ScalarType stored) {
    GRAPESHOT_CHECK(static_cast<uint64_t>(count) == values.size(), kParse, what, " has ",
                    values.size(), " values, its shape asks for ", count);
    auto* data = const_cast<void*>(static_cast<const void*>(values.data()));
    return at::from_blob(data, t.dims, at::TensorOptions(stored)).to(type->type, false, true);
  };
  if (t.has_raw) {
    const auto size = static_cast<uint64_t>(at::elementSize(type->type));
    GRAPESHOT_CHECK(t.raw.size() % size == 0 && t.raw.size() / size == static_cast<uint64_t>(count),
                    kParse, what, " has ", t.raw.size(), " bytes, its shape asks for ", count,
                    " values of ", size, " bytes");
    at::Tensor out = at::empty(t.dims, at::TensorOptions(type->type));
    if (count > 0) std::memcpy(out.data_ptr(), t.raw.data(), t.raw.size());
    return out;
  }
  switch (type->type) {
    case at::kFloat:
      return copy(t.floats, at::kFloat);
    case at::kDouble:
      return copy(t.doubles, at::kDouble);
    case at::kLong:
      return copy(t.longs, at::kLong);
    default:
      return copy(t.ints, at::kInt);
  }
}

class Reader {
 public:
  explicit Reader(const std::string& path) { graph_.path = path; }

  Graph read(std::string_view bytes) {
    pbf_reader reader(bytes.data(), bytes.size());
    bool has_graph = false, has_ir = false;
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
          read_graph(reader.get_message());
          break;
        default:
          reader.skip();
      }
    }
    GRAPESHOT_CHECK(has_graph && has_ir, kParse, graph_.path,
                    ": not an ONNX model (no graph or no IR version in it)");
    GRAPESHOT_CHECK(graph_.opset > 0, kParse, graph_.path, ": the model names no ONNX opset");
    std::erase_if(graph_.inputs,
                  [&](const Port& port) { return graph_.constants.contains(port.name); });
    return std::move(graph_);
  }

 private:
  void read_opset(pbf_reader reader) {
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
    if (domain.empty() || domain == "ai.onnx") graph_.opset = version;
    if (domain == "ai.onnx.ml") graph_.opset_ml = version;
  }

  void read_graph(pbf_reader reader) {
    using namespace graph_field;
    while (reader.next()) {
      switch (reader.tag()) {
        case kNode:
          read_node(reader.get_message());
          break;
        case kInitializer: {
          const TensorFields t = read_tensor_fields(reader.get_message());
          graph_.constants[t.name] =
              make_tensor(t, str(graph_.path, ": initializer '", t.name, "'"));
          break;
        }
        case kInput:
          graph_.inputs.push_back(read_port(reader.get_message()));
          break;
        case kOutput:
          graph_.outputs.push_back(read_port(reader.get_message()));
          break;
        case kSparse:
          throw Error(ErrorCode::kUnsupported,
                      graph_.path + ": sparse initializers cannot be read");
        default:
          reader.skip();
      }
    }
  }

  void read_node(pbf_reader reader) {
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
    if (node.name.empty()) node.name = str("#", graph_.nodes.size());
    for (pbf_reader& attribute : attributes) read_attribute(attribute, node);
    graph_.nodes.push_back(std::move(node));
  }

  void read_attribute(pbf_reader& reader, Node& node) {
    using namespace attribute_field;
    Attribute a;
    pbf_reader tensor;
    bool has_tensor = false;
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
          a.graph = true, reader.skip();
          break;
        case kFloats:
          append_float(reader, a.floats);
          break;
        case kInts:
          append_int64(reader, a.ints);
          break;
        default:
          reader.skip();
      }
    }
    if (has_tensor) {
      a.tensor = make_tensor(read_tensor_fields(tensor), str(graph_.path, ": node '", node.name,
                                                             "': attribute '", a.name, "'"));
    }
    node.attributes.push_back(std::move(a));
  }

  Port read_port(pbf_reader reader) {
    Port port;
    while (reader.next()) {
      if (reader.tag() == value_field::kName) {
        port.name = text(reader);
      } else if (reader.tag() == value_field::kType) {
        pbf_reader type = reader.get_message();
        while (type.next(value_field::kTensorType)) read_tensor_type(type.get_message(), port);
      } else {
        reader.skip();
      }
    }
    return port;
  }

  static void read_tensor_type(pbf_reader reader, Port& port) {
    while (reader.next()) {
      if (reader.tag() == value_field::kElementType) {
        port.float32 = reader.get_int32() == 1;
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
