// grapeshot/io/onnx/graph_writer.h: networks copied from ONNX files into one of our own making.
//
// For pair_model.cpp and joined_model.cpp only.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/onnx/proto.h"
// After proto.h, which says what protozero's assertions do.
#include <protozero/pbf_writer.hpp>

namespace grapeshot::onnx {

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

/// Nodes of our own, all of them without a batch axis. Their tensors are called as no tensor of a
/// file is, see Source::named().
class Nodes {
 public:
  // A part of what is computed for the tensor `name`, which may be one of the file.
  static std::string own(const std::string& name, std::string_view part) {
    return str("own/", name, "/", part);
  }

  Nodes(protozero::pbf_writer& graph, int64_t opset) : graph_(graph), opset_(opset) {}

  std::string add(std::string_view op, const Names& reads, std::string writes,
                  const std::vector<std::pair<std::string, int64_t>>& attributes = {},
                  size_t outputs = 1) {
    protozero::pbf_writer node(graph_, kNode);
    for (const std::string& name : reads) node.add_string(kReads, name);
    for (size_t i = 0; i + 1 < outputs; ++i) node.add_string(kWrites, str(writes, "/", i));
    node.add_string(kWrites, writes);
    node.add_string(kNodeName, own(writes, op));
    node.add_string(kOp, op.data(), op.size());
    for (const auto& [name, value] : attributes) {
      protozero::pbf_writer attribute(node, kAttribute);
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
    return constant(name, kInt64, values.data(), values.size() * sizeof(int64_t), shape);
  }
  std::string constant(const std::string& name, const std::vector<int64_t>& values) {
    return constant(name, values, {std::ssize(values)});
  }
  std::string constant(const std::string& name, const std::vector<float>& values,
                       const std::vector<int64_t>& shape) {
    return constant(name, kFloat, values.data(), values.size() * sizeof(float), shape);
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

  // The sums along the second axis.
  std::string sums(const std::string& x, const std::string& name) {
    if (opset_ < 13) return add("ReduceSum", {x}, name, {{"axes", 1}, {"keepdims", 0}});
    return add("ReduceSum", {x, constant(own(name, "axes"), {1})}, name, {{"keepdims", 0}});
  }

 private:
  std::string constant(const std::string& name, int32_t type, const void* values, size_t bytes,
                       const std::vector<int64_t>& shape) {
    protozero::pbf_writer tensor(graph_, kInitializer);
    for (const int64_t size : shape) tensor.add_int64(kDims, size);
    tensor.add_int32(kDataType, type);
    tensor.add_string(kName, name);
    tensor.add_bytes(kRaw, static_cast<const char*>(values), bytes);
    return name;
  }

  // Along the second axis.
  std::string largest(const std::string& x, const std::string& name) {
    if (opset_ < 18) return add("ReduceMax", {x}, name, {{"axes", 1}, {"keepdims", 0}});
    return add("ReduceMax", {x, constant(own(name, "axes"), {1})}, name, {{"keepdims", 0}});
  }

  protozero::pbf_writer& graph_;
  int64_t opset_;
};

/// What is copied of a file, under names of its own for each run.
class Source {
 public:
  /// `bytes` outlive it. The weights of sources that are copied into one graph need names of their
  /// own: "<weights>/" and the file's name.
  Source(std::string_view bytes, std::string path, std::string weights = "w");

  [[nodiscard]] const Names& outputs() const { return outputs_; }

  // Whether some node writes it.
  [[nodiscard]] bool writes(const std::string& tensor) const;

  // Weights keep one name, all other tensors get one a run: "w/", or "1/", "2/" and their own.
  [[nodiscard]] std::string named(const std::string& tensor, std::string_view run) const;

  void copy_weights(protozero::pbf_writer& to) const;

  void copy_nodes(protozero::pbf_writer& to, std::string_view run) const;

 private:
  static std::string name_of(protozero::pbf_reader message, uint32_t field);

  [[nodiscard]] std::string read_output(protozero::pbf_reader port) const;

  // As it stands there; from other files as numbers of its own. The model was loaded, so that they
  // are within the limits.
  void copy_tensor(protozero::pbf_reader tensor, protozero::pbf_writer& to, uint32_t field,
                   std::string_view run) const;

  void copy_node(protozero::pbf_reader node, protozero::pbf_writer& to, std::string_view run) const;

  void copy_attribute(protozero::pbf_reader attribute, protozero::pbf_writer& to,
                      std::string_view run) const;

  // A subgraph's tensors and those that it reads from outside, all under the run's names.
  void copy_subgraph(protozero::pbf_reader graph, protozero::pbf_writer& to, uint32_t field,
                     std::string_view run) const;

  void copy_port(protozero::pbf_reader message, protozero::pbf_writer& to, uint32_t field,
                 std::string_view run) const;

  std::string path_, prefix_;
  protozero::pbf_reader graph_;
  std::set<std::string> weights_;
  Names outputs_;
};

/// Parts of a flat input under the names and shapes of the network's own inputs.
void write_inputs(Nodes& nodes, const Source& source, const OnnxModel& model,
                  const std::string& flat, std::string_view run);

/// All outputs of a run, flat; the name of the tensor.
std::string flat_outputs(Nodes& nodes, const Source& source, std::string_view run);

/// The graph's input or output `name` [size], float32.
void write_port(protozero::pbf_writer& graph, uint32_t field, const std::string& name,
                int64_t size);

/// A model around `graph`, of what `files` say of versions and functions. Throws kUnsupported,
/// naming `path`, for one of more than 2 GiB, files of different opsets, and functions in several.
std::string write_model(const std::vector<std::string_view>& files, const std::string& path,
                        const std::string& graph);

}  // namespace grapeshot::onnx
