#include "grapeshot/io/onnx/graph_writer.h"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "grapeshot/io/onnx/tensor_proto.h"

namespace grapeshot::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_writer;

constexpr size_t kMostBytes = size_t{1} << 31;  // of a message

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

// Notes a domain's version; all files must agree on it.
void add_opset(pbf_reader import, std::map<std::string, int64_t>& opsets, const std::string& path) {
  std::string domain;
  int64_t version = 0;
  while (import.next()) {
    if (import.tag() == 1) {
      domain = text(import);
    } else if (import.tag() == 2) {
      version = import.get_int64();
    } else {
      import.skip();
    }
  }
  const auto [known, added] = opsets.emplace(domain, version);
  GRAPESHOT_CHECK(added || known->second == version, kUnsupported, path, ": opset ", version,
                  domain.empty() ? std::string() : " of " + domain, " and opset ", known->second,
                  " of another network cannot be joined; convert one of the files");
}

}  // namespace

Source::Source(std::string_view bytes, std::string path, std::string weights)
    : path_(std::move(path)), prefix_(std::move(weights)) {
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

bool Source::writes(const std::string& tensor) const {
  pbf_reader graph = graph_;
  bool found = false;
  while (graph.next(kNode)) {
    pbf_reader node = graph.get_message();
    while (node.next(kWrites)) found = text(node) == tensor || found;
  }
  return found;
}

std::string Source::named(const std::string& tensor, std::string_view run) const {
  if (tensor.empty()) return tensor;
  return str(weights_.contains(tensor) ? std::string_view(prefix_) : run, "/", tensor);
}

void Source::copy_weights(pbf_writer& to) const {
  pbf_reader graph = graph_;
  while (graph.next(kInitializer)) copy_tensor(graph.get_message(), to, kInitializer, "");
}

void Source::copy_nodes(pbf_writer& to, std::string_view run) const {
  pbf_reader graph = graph_;
  while (graph.next(kNode)) copy_node(graph.get_message(), to, run);
}

std::string Source::name_of(pbf_reader message, uint32_t field) {
  std::string out;
  while (message.next(field)) out = text(message);
  return out;
}

std::string Source::read_output(pbf_reader port) const {
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
                  "' is not float32, which a network of several runs needs");
  return name;
}

void Source::copy_tensor(pbf_reader tensor, pbf_writer& to, uint32_t field,
                         std::string_view run) const {
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

void Source::copy_node(pbf_reader node, pbf_writer& to, std::string_view run) const {
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

void Source::copy_attribute(pbf_reader attribute, pbf_writer& to, std::string_view run) const {
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

void Source::copy_subgraph(pbf_reader graph, pbf_writer& to, uint32_t field,
                           std::string_view run) const {
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

void Source::copy_port(pbf_reader message, pbf_writer& to, uint32_t field,
                       std::string_view run) const {
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

std::string write_tensor(const std::string& name, std::span<const float> values,
                         const std::vector<int64_t>& shape) {
  std::string out;
  pbf_writer tensor(out);
  for (const int64_t size : shape) tensor.add_int64(kDims, size);
  tensor.add_int32(kDataType, kFloat);
  tensor.add_string(kName, name);
  tensor.add_bytes(kRaw, reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return out;
}

std::string write_model(const std::vector<std::string_view>& files, const std::string& path,
                        const std::string& graph) {
  GRAPESHOT_CHECK(graph.size() < kMostBytes, kUnsupported, path,
                  ": the runs of it that are compared would be a file of more than 2 GiB");
  std::string out;
  pbf_writer writer(out);
  // From version 4 on, weights are no inputs.
  int64_t ir_version = 4;
  std::map<std::string, int64_t> opsets;
  size_t with_functions = 0;
  for (const std::string_view bytes : files) {
    pbf_reader source(bytes.data(), bytes.size());
    bool functions = false;
    while (source.next()) {
      if (source.tag() == kIrVersion) {
        ir_version = std::max(ir_version, source.get_int64());
      } else if (source.tag() == kOpset) {
        add_opset(source.get_message(), opsets, path);
      } else if (source.tag() == kFunctions) {
        functions = true;
        copy_field(source, writer);
      } else {
        source.skip();
      }
    }
    with_functions += functions ? 1 : 0;
  }
  GRAPESHOT_CHECK(with_functions < 2, kUnsupported, path,
                  ": several of the networks have functions of their own, which cannot be joined");
  for (const auto& [domain, version] : opsets) {
    pbf_writer opset(writer, kOpset);
    opset.add_string(1, domain);
    opset.add_int64(2, version);
  }
  writer.add_int64(kIrVersion, ir_version);
  writer.add_string(kProducer, "grapeshot");
  writer.add_bytes(kGraph, graph);
  return out;
}

}  // namespace grapeshot::onnx
