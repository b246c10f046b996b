#include "grapeshot/io/onnx/pair_model.h"

#include <utility>
#include <vector>

#include "grapeshot/io/onnx/graph_writer.h"

namespace grapeshot::onnx {
namespace {

using properties::Pair;
using properties::Relation;
using protozero::pbf_writer;

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
  return write_model({bytes}, path, write_graph(bytes, path, model, pair));
}

}  // namespace grapeshot::onnx
