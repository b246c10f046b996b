#include "grapeshot/io/onnx/pair_model.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/tensor_proto.h"
// After proto.h, which says what protozero's assertions do.
#include <protozero/pbf_writer.hpp>

namespace grapeshot::onnx {
namespace {

using properties::Pair;
using properties::Relation;
using protozero::pbf_reader;
using protozero::pbf_writer;
using Names = std::vector<std::string>;

// Field numbers of onnx.proto, https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
enum ModelField : uint32_t {
  kIrVersion = 1,
  kProducer = 2,
  kGraph = 7,
  kOpset = 8,
  kFunctions = 25
};
enum GraphField : uint32_t {
  kNode = 1,
  kGraphName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12
};
enum NodeField : uint32_t { kReads = 1, kWrites = 2, kNodeName = 3, kOp = 4, kAttribute = 5 };
// AttributeProto, TensorProto.
constexpr uint32_t kAttrName = 1, kI = 3, kT = 5, kG = 6, kInts = 8, kTensors = 10, kGraphs = 11,
                   kAttrType = 20;
constexpr uint32_t kDims = 1, kDataType = 2, kName = 8, kRaw = 9, kExternal = 13, kLocation = 14;

constexpr int32_t kInt = 2, kIntList = 7;                // attribute types INT and INTS
constexpr int32_t kFloat = 1, kInt64 = 7, kUint32 = 12;  // element types
constexpr size_t kMostBytes = size_t{1} << 31;           // of a message

void copy_field(pbf_reader& reader, pbf_writer& writer) {
  const uint32_t tag = reader.tag();
  switch (reader.wire_type()) {
    case protozero::pbf_wire_type::varint:
      return writer.add_uint64(tag, reader.get_uint64());
    case protozero::pbf_wire_type::fixed64:
      return writer.add_fixed64(tag, reader.get_fixed64());
    case protozero::pbf_wire_type::fixed32:
      return writer.add_fixed32(tag, reader.get_fixed32());
    case protozero::pbf_wire_type::length_delimited:
      return writer.add_bytes(tag, reader.get_view());
    default:
      throw_malformed();
  }
}

// Nodes of our own, all of them without a batch axis. Their tensors are called as no tensor of the
// file is, see Source::named().
class Nodes {
 public:
  // A part of what is computed for the tensor `name`, which may be one of the file.
  static std::string own(const std::string& name, std::string_view part) {
    return str("own/", name, "/", part);
  }

  Nodes(pbf_writer& graph, int64_t opset) : graph_(graph), opset_(opset) {}

  std::string add(std::string_view op, const Names& reads, std::string writes,
                  const std::vector<std::pair<std::string, int64_t>>& attributes = {},
                  size_t outputs = 1) {
    pbf_writer node(graph_, kNode);
    for (const std::string& name : reads) node.add_string(kReads, name);
    for (size_t i = 0; i + 1 < outputs; ++i) node.add_string(kWrites, str(writes, "/", i));
    node.add_string(kWrites, writes);
    node.add_string(kNodeName, own(writes, op));
    node.add_string(kOp, op.data(), op.size());
    for (const auto& [name, value] : attributes) {
      pbf_writer attribute(node, kAttribute);
      attribute.add_string(kAttrName, name);
      const bool list = name == "axes";
      if (list) {
        attribute.add_packed_int64(kInts, &value, &value + 1);
      } else {
        attribute.add_int64(kI, value);
      }
      attribute.add_int32(kAttrType, list ? kIntList : kInt);
    }
    return writes;
  }

  std::string constant(const std::string& name, const std::vector<int64_t>& values,
                       const std::vector<int64_t>& shape) {
    pbf_writer tensor(graph_, kInitializer);
    for (const int64_t size : shape) tensor.add_int64(kDims, size);
    tensor.add_int32(kDataType, kInt64);
    tensor.add_string(kName, name);
    tensor.add_bytes(kRaw, reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(int64_t));
    return name;
  }
  std::string constant(const std::string& name, const std::vector<int64_t>& values) {
    return constant(name, values, {std::ssize(values)});
  }

  // x[index] along the first axis.
  std::string gather(const std::string& x, const std::vector<int64_t>& index,
                     const std::string& name) {
    return add("Gather", {x, constant(own(name, "index"), index)}, name, {{"axis", 0}});
  }

  std::string reshape(const std::string& x, const std::vector<int64_t>& shape,
                      const std::string& name) {
    return add("Reshape", {x, constant(own(name, "shape"), shape)}, name);
  }

  // The indices of x [n] by falling value.
  std::string falling_order(const std::string& x, int64_t n, const std::string& name) {
    if (opset_ < 10) return add("TopK", {x}, name, {{"axis", 0}, {"k", n}}, 2);
    return add("TopK", {x, constant(own(name, "k"), {n})}, name, {{"axis", 0}}, 2);
  }

  // Each of the scores [k] less the largest other one. All pairs of classes are few there: the
  // reader refuses the cases of many classes (kMostOfBox).
  std::string margins(const std::string& scores, int64_t k, const std::string& name) {
    std::vector<int64_t> others;
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        if (j != i) others.push_back(j);
      }
    }
    const std::string index = constant(own(name, "rivals/index"), others, {k, k - 1});
    const std::string rivals = add("Gather", {scores, index}, own(name, "rivals"), {{"axis", 0}});
    return add("Sub", {scores, largest(rivals, own(name, "rival"))}, name);
  }

  // The label's of the scores [k] less the largest other one, [1].
  std::string margin(const std::string& scores, int64_t k, int64_t label, const std::string& name) {
    std::vector<int64_t> others;
    for (int64_t j = 0; j < k; ++j) {
      if (j != label) others.push_back(j);
    }
    const std::string rivals =
        reshape(gather(scores, others, own(name, "rivals")), {1, k - 1}, own(name, "row"));
    return add("Sub",
               {gather(scores, {label}, own(name, "label")), largest(rivals, own(name, "rival"))},
               name);
  }

 private:
  // Along the second axis.
  std::string largest(const std::string& x, const std::string& name) {
    if (opset_ < 18) return add("ReduceMax", {x}, name, {{"axes", 1}, {"keepdims", 0}});
    return add("ReduceMax", {x, constant(own(name, "axes"), {1})}, name, {{"keepdims", 0}});
  }

  pbf_writer& graph_;
  int64_t opset_;
};

// What is copied of the file, under names of its own for each run.
class Source {
 public:
  Source(std::string_view bytes, const std::string& path) : path_(path) {
    pbf_reader model(bytes.data(), bytes.size());
    while (model.next()) {
      if (model.tag() == kGraph) {
        graph_ = model.get_message();
      } else {
        model.skip();
      }
    }
    pbf_reader graph = graph_;
    while (graph.next()) {
      if (graph.tag() == kInitializer) {
        weights_.insert(name_of(graph.get_message(), kName));
      } else if (graph.tag() == kOutput) {
        outputs_.push_back(read_output(graph.get_message()));
      } else {
        graph.skip();
      }
    }
  }

  [[nodiscard]] const Names& outputs() const { return outputs_; }

  // Whether some node writes it.
  [[nodiscard]] bool writes(const std::string& tensor) const {
    pbf_reader graph = graph_;
    bool found = false;
    while (graph.next(kNode)) {
      pbf_reader node = graph.get_message();
      while (node.next(kWrites)) found = text(node) == tensor || found;
    }
    return found;
  }

  // Weights keep one name, all other tensors get one a run: "w/", "1/" or "2/" and their own.
  [[nodiscard]] std::string named(const std::string& tensor, std::string_view run) const {
    if (tensor.empty()) return tensor;
    return str(weights_.contains(tensor) ? "w" : run, "/", tensor);
  }

  void copy_weights(pbf_writer& to) const {
    pbf_reader graph = graph_;
    while (graph.next(kInitializer)) copy_tensor(graph.get_message(), to, kInitializer, "");
  }

  void copy_nodes(pbf_writer& to, std::string_view run) const {
    pbf_reader graph = graph_;
    while (graph.next(kNode)) copy_node(graph.get_message(), to, run);
  }

 private:
  static std::string name_of(pbf_reader message, uint32_t field) {
    std::string out;
    while (message.next(field)) out = text(message);
    return out;
  }

  [[nodiscard]] std::string read_output(pbf_reader port) const {
    std::string name;
    int32_t type = kFloat;
    while (port.next()) {
      if (port.tag() == 1) {
        name = text(port);
      } else if (port.tag() == 2) {
        pbf_reader kind = port.get_message();
        while (kind.next(1)) {
          pbf_reader tensor = kind.get_message();
          while (tensor.next(1)) type = tensor.get_int32();
        }
      } else {
        port.skip();
      }
    }
    GRAPESHOT_CHECK(type == kFloat, kUnsupported, path_, ": output '", name,
                    "' is not float32, which a property of two runs needs");
    return name;
  }

  // As it stands there; from other files as numbers of its own. The model was loaded, so that they
  // are within the limits.
  void copy_tensor(pbf_reader tensor, pbf_writer& to, uint32_t field, std::string_view run) const {
    pbf_writer out(to, field);
    pbf_reader fields = tensor;
    bool elsewhere = false;
    int32_t type = 0;
    while (fields.next()) {
      if (fields.tag() == kName) {
        out.add_string(kName, named(text(fields), run));
      } else if (fields.tag() == kDataType) {
        type = fields.get_int32();
        out.add_int32(kDataType, type);
      } else if (fields.tag() == kLocation) {
        elsewhere = fields.get_int32() == 1;
      } else if (fields.tag() == kExternal) {
        fields.skip();
      } else {
        copy_field(fields, out);
      }
    }
    if (!elsewhere) return;
    uint64_t bytes = 0;
    at::Tensor t = read_tensor(tensor, path_, "initializer", bytes).t.contiguous();
    // Read as int64, which the file does not say.
    if (type == kUint32) t = t.to(at::kUInt32);
    out.add_bytes(kRaw, static_cast<const char*>(t.const_data_ptr()), t.nbytes());
  }

  void copy_node(pbf_reader node, pbf_writer& to, std::string_view run) const {
    pbf_writer out(to, kNode);
    while (node.next()) {
      if (node.tag() == kReads || node.tag() == kWrites) {
        const uint32_t tag = node.tag();
        out.add_string(tag, named(text(node), run));
      } else if (node.tag() == kNodeName) {
        out.add_string(kNodeName, str(run, "/", text(node)));
      } else if (node.tag() == kAttribute) {
        copy_attribute(node.get_message(), out, run);
      } else {
        copy_field(node, out);
      }
    }
  }

  void copy_attribute(pbf_reader attribute, pbf_writer& to, std::string_view run) const {
    pbf_writer out(to, kAttribute);
    while (attribute.next()) {
      if (attribute.tag() == kG || attribute.tag() == kGraphs) {
        const uint32_t tag = attribute.tag();
        copy_subgraph(attribute.get_message(), out, tag, run);
      } else if (attribute.tag() == kT || attribute.tag() == kTensors) {
        const uint32_t tag = attribute.tag();
        copy_tensor(attribute.get_message(), out, tag, run);
      } else {
        copy_field(attribute, out);
      }
    }
  }

  // A subgraph's tensors and those that it reads from outside, all under the run's names.
  void copy_subgraph(pbf_reader graph, pbf_writer& to, uint32_t field, std::string_view run) const {
    pbf_writer out(to, field);
    while (graph.next()) {
      const uint32_t tag = graph.tag();
      if (tag == kNode) {
        copy_node(graph.get_message(), out, run);
      } else if (tag == kInitializer) {
        copy_tensor(graph.get_message(), out, tag, run);
      } else if (tag == kInput || tag == kOutput) {
        copy_port(graph.get_message(), out, tag, run);
      } else if (tag == kGraphName) {
        copy_field(graph, out);
      } else {
        graph.skip();  // comments, and shapes that runtimes infer
      }
    }
  }

  void copy_port(pbf_reader message, pbf_writer& to, uint32_t field, std::string_view run) const {
    constexpr uint32_t kPortName = 1;
    pbf_writer out(to, field);
    while (message.next()) {
      if (message.tag() == kPortName) {
        out.add_string(kPortName, named(text(message), run));
      } else {
        copy_field(message, out);
      }
    }
  }

  const std::string& path_;
  pbf_reader graph_;
  std::set<std::string> weights_;
  Names outputs_;
};

// The second run's inputs, flat.
std::string second_input(Nodes& nodes, const Pair& pair, const std::string& first) {
  if (pair.elements > 0) {
    std::vector<int64_t> keys;
    for (int64_t i = pair.whole() - pair.elements; i < pair.whole(); ++i) keys.push_back(i);
    const std::string order =
        nodes.falling_order(nodes.gather("whole", keys, "keys"), pair.elements, "order");
    const std::string set =
        nodes.reshape(first, {pair.elements, pair.inputs / pair.elements}, "set");
    const std::string ordered = nodes.add("Gather", {set, order}, "ordered", {{"axis", 0}});
    return nodes.reshape(ordered, {pair.inputs}, "second");
  }
  Names pool = {"whole"};
  const auto add = [&](const char* op, const char* name, const std::vector<properties::Two>& two) {
    if (two.empty()) return;
    std::vector<int64_t> a, b;
    for (const auto& [one, other] : two) a.push_back(one), b.push_back(other);
    pool.push_back(nodes.add(
        op, {nodes.gather("whole", a, str(name, "/a")), nodes.gather("whole", b, str(name, "/b"))},
        name));
  };
  add("Max", "raised", pair.raised);
  add("Min", "lowered", pair.lowered);
  add("Add", "moved", pair.moved);
  const std::string all =
      pool.size() == 1 ? pool[0] : nodes.add("Concat", pool, "pool", {{"axis", 0}});
  return nodes.gather(all, pair.from, "second");
}

// Parts of a flat input under the names and shapes of the network's own inputs.
void write_inputs(Nodes& nodes, const Source& source, const OnnxModel& model,
                  const std::string& flat, std::string_view run) {
  for (const PortSlice& input : model.network().inputs) {
    const std::string name = source.named(input.name, run);
    std::string part = flat;
    if (model.network().inputs.size() > 1) {
      std::vector<int64_t> index;
      for (int64_t i = input.begin; i < input.begin + input.size; ++i) index.push_back(i);
      part = nodes.gather(flat, index, Nodes::own(name, "flat"));
    }
    (void)nodes.reshape(part, input.shape, name);
  }
}

std::string flat_outputs(Nodes& nodes, const Source& source, std::string_view run) {
  Names parts;
  for (const std::string& output : source.outputs()) {
    parts.push_back(nodes.reshape(source.named(output, run), {-1}, str("flat/", run, "/", output)));
  }
  if (parts.size() == 1) return parts[0];
  return nodes.add("Concat", parts, str("outputs/", run), {{"axis", 0}});
}

// What the relation adds behind both runs' outputs.
Names relations(Nodes& nodes, const Source& source, const OnnxModel& model, const Pair& pair,
                const std::string& y, const std::string& z) {
  switch (pair.relation) {
    case Relation::kOutputs:
      return {};
    case Relation::kDifferences:
      return {nodes.add("Sub", {z, y}, "difference")};
    case Relation::kMargins: {
      const std::string& logits = model.network().logits;
      const bool before = !logits.empty() && source.writes(logits);
      const auto scores = [&](const std::string& outputs, std::string_view run) {
        if (!before) return outputs;
        return nodes.reshape(source.named(logits, run), {-1}, str("scores/", run));
      };
      return {nodes.margins(scores(y, "1"), pair.outputs, "margins/1"),
              nodes.margins(scores(z, "2"), pair.outputs, "margins/2")};
    }
    case Relation::kMarginDifference: {
      const std::string a = nodes.margin(y, pair.outputs, pair.label, "margin/1");
      const std::string b = nodes.margin(z, pair.outputs, pair.label, "margin/2");
      return {nodes.add("Sub", {b, a}, "difference")};
    }
  }
  return {};
}

void write_port(pbf_writer& graph, uint32_t field, const std::string& name, int64_t size) {
  pbf_writer port(graph, field);
  port.add_string(1, name);
  pbf_writer type(port, 2);
  pbf_writer tensor(type, 1);
  tensor.add_int32(1, kFloat);
  pbf_writer shape(tensor, 2);
  pbf_writer dim(shape, 1);
  dim.add_int64(1, size);
}

std::string write_graph(std::string_view bytes, const std::string& path, const OnnxModel& model,
                        const Pair& pair) {
  std::string out;
  pbf_writer graph(out);
  const Source source(bytes, path);
  Nodes nodes(graph, model.network().opset);
  std::vector<int64_t> own;
  for (int64_t i = 0; i < pair.inputs; ++i) own.push_back(i);
  const std::string first = nodes.gather("whole", own, "first");
  const std::string second = second_input(nodes, pair, first);
  source.copy_weights(graph);
  Names outputs;
  for (const auto& [run, x] : {std::pair{"1", first}, std::pair{"2", second}}) {
    write_inputs(nodes, source, model, x, run);
    source.copy_nodes(graph, run);
    outputs.push_back(flat_outputs(nodes, source, run));
  }
  for (std::string& each : relations(nodes, source, model, pair, outputs[0], outputs[1])) {
    outputs.push_back(std::move(each));
  }
  (void)nodes.add("Concat", outputs, "both", {{"axis", 0}});
  graph.add_string(kGraphName, "two runs");
  write_port(graph, kInput, "whole", pair.whole());
  write_port(graph, kOutput, "both", 2 * pair.outputs + pair.compared());
  return out;
}

}  // namespace

std::string pair_model(std::string_view bytes, const std::string& path, const OnnxModel& model,
                       const Pair& pair) {
  GRAPESHOT_CHECK(model.network().opset >= 7, kUnsupported, path, ": has opset ",
                  model.network().opset, "; a property of two runs needs opset 7 or later");
  const std::string graph = write_graph(bytes, path, model, pair);
  GRAPESHOT_CHECK(graph.size() < kMostBytes, kUnsupported, path,
                  ": two runs of it would be a file of more than 2 GiB");
  std::string out;
  pbf_writer writer(out);
  pbf_reader source(bytes.data(), bytes.size());
  while (source.next()) {
    if (source.tag() == kIrVersion) {
      // From version 4 on, weights are no inputs.
      writer.add_int64(kIrVersion, std::max<int64_t>(source.get_int64(), 4));
    } else if (source.tag() == kOpset || source.tag() == kFunctions) {
      copy_field(source, writer);
    } else {
      source.skip();
    }
  }
  writer.add_string(kProducer, "grapeshot");
  writer.add_bytes(kGraph, graph);
  return out;
}

}  // namespace grapeshot::onnx
