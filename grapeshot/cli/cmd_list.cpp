// grapeshot/cli/cmd_list.cpp: `grapeshot list`: the rows of every table.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/core/mutate.h"
#include "grapeshot/core/scale.h"
#include "grapeshot/core/spec.h"
#include "grapeshot/diff/constraint.h"
#include "grapeshot/diff/neurons.h"
#include "grapeshot/diff/objective.h"
#include "grapeshot/diff/transform.h"
#include "grapeshot/falsify/attack.h"
#include "grapeshot/falsify/minimize.h"
#include "grapeshot/io/data/data.h"
#include "grapeshot/io/onnx/lower.h"
#include "grapeshot/io/onnx/operator_notes.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/variant.h"
#include "grapeshot/io/properties/specification.h"
#include "grapeshot/report/formats.h"
#include "grapeshot/report/gate.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

struct Entry {
  std::string name, note, summary;
  ordered_json more = ordered_json::object();  ///< what `note` says, for programs
};

template <class Row>
Entry plain(const Row& row) {
  return {std::string(row.name), "", std::string(row.summary), ordered_json::object()};
}

template <class Row>
std::vector<Entry> plain_rows(std::span<const Row> rows) {
  std::vector<Entry> out;
  for (const Row& row : rows) out.push_back(plain(row));
  return out;
}

std::vector<Entry> mutation_entries() {
  std::vector<Entry> out;
  for (const Mutation& row : mutations()) {
    Entry& entry = out.emplace_back(plain(row));
    entry.note = str("default ", row.default_weight, ", paper ", row.paper_weight,
                     row.masks ? ", with --mask" : "");
    entry.more = {{"default_weight", row.default_weight},
                  {"paper_weight", row.paper_weight},
                  {"gradient", row.gradient},
                  {"masks", row.masks}};
  }
  return out;
}

std::vector<Entry> operator_entries() {
  std::vector<Entry> out;
  for (const onnx::Operator& row : onnx::operators()) {
    Entry& entry = out.emplace_back(plain(row));
    entry.note = str("opset ", row.since, "+");
    const bool gradient = onnx::passes_gradient(row.name);
    if (!gradient) entry.note += ", no gradient";
    entry.more = {{"since", row.since}, {"gradient", gradient}};
  }
  return out;
}

std::vector<Entry> attack_entries() {
  std::vector<Entry> out;
  for (const falsify::Attack& row : falsify::attacks()) out.push_back(plain(row));
  return out;
}

// "factor 0.7 to 1.1 (deeptest 0.5 to 1.9)", by parameter.
std::vector<Entry> transformation_entries() {
  std::vector<Entry> out;
  for (const diff::Transformation& row : diff::transformations()) {
    Entry& entry = out.emplace_back(plain(row));
    ordered_json parameters = ordered_json::array();
    for (const diff::Parameter& p : std::span(row.parameters).first(row.count)) {
      const auto& [low, high] = p.deephunter;
      ordered_json& said = parameters.emplace_back(
          ordered_json{{"name", p.name}, {"whole", p.whole}, {"deephunter", {low, high}}});
      entry.note += str(entry.note.empty() ? "" : ", ", p.name, " ", low, " to ", high);
      if (!row.deeptest) continue;
      said["deeptest"] = {p.deeptest.low, p.deeptest.high};
      entry.note += str(" (deeptest ", p.deeptest.low, " to ", p.deeptest.high, ")");
    }
    entry.more = {{"affine", row.affine}, {"parameters", parameters}};
  }
  return out;
}

struct Family {
  std::string_view name, summary;
  std::vector<Entry> (*entries)();
};

constexpr Family kFamilies[] = {
    {"commands", "What grapeshot can do", [] { return plain_rows(commands()); }},
    {"mutations", "Ways to change a batch of inputs (--mutations, --weights)", mutation_entries},
    {"attacks", "Attacks of `falsify` and --mutations portfolio (--attacks)", attack_entries},
    {"norms", "Distances of `minimize` (--norm)", [] { return plain_rows(falsify::norms()); }},
    {"scales", "Sizes of a mutation's step (--scale)", [] { return plain_rows(scales()); }},
    {"criteria", "Coverage criteria (--criterion, --criteria)",
     [] { return plain_rows(criteria()); }},
    {"strategies", "Ways of `diff` to choose neurons (--strategy)",
     [] { return plain_rows(diff::strategies()); }},
    {"objectives", "What a step of `diff` climbs (--objective)",
     [] { return plain_rows(diff::objectives()); }},
    {"constraints", "What `diff` may change and how far (--constraint, --linf, ...)",
     [] { return plain_rows(diff::constraints()); }},
    {"transformations", "Transformations of images by `diff` (--transform)",
     transformation_entries},
    {"data", "Files that inputs are read from (--data, --labels, --format)",
     [] { return plain_rows(data::formats()); }},
    {"variants", "Weights that `diff` compares a model with (--against)",
     [] { return plain_rows(onnx::variants()); }},
    {"properties", "Kinds of property that a JSON specification states",
     [] { return plain_rows(properties::kinds()); }},
    {"reports", "Formats of `report` (--format)", [] { return plain_rows(report::formats()); }},
    {"gates", "What --fail-on compares with a number",
     [] { return plain_rows(report::quantities()); }},
    {"output-kinds", "Kinds of output property", [] { return plain_rows(output_kinds()); }},
    {"operators", "ONNX operators that run", operator_entries},
    {"excluded-operators", "ONNX operators that do not run, and why",
     [] { return plain_rows(onnx::excluded_operators()); }},
    {"passes", "Lowering passes over a network, in their order",
     [] { return plain_rows(onnx::passes()); }},
};

std::vector<Entry> family_entries() {
  std::vector<Entry> out;
  for (const Family& family : kFamilies) {
    Entry& entry = out.emplace_back(plain(family));
    const size_t count = family.entries().size();
    entry.note = str(count);
    entry.more = {{"count", count}};
  }
  return out;
}

void print_table(const std::vector<Entry>& entries) {
  size_t name_width = 0, note_width = 0;
  for (const Entry& entry : entries) {
    name_width = std::max(name_width, entry.name.size());
    note_width = std::max(note_width, entry.note.size());
  }
  const auto pad = [](const std::string& text, size_t width) {
    return text + std::string(width - text.size() + 2, ' ');
  };
  for (const Entry& entry : entries) {
    std::cout << pad(entry.name, name_width);
    if (note_width > 0) std::cout << pad(entry.note, note_width);
    std::cout << entry.summary << "\n";
  }
}

int run(const std::string& name, bool json) {
  const std::vector<Entry> entries = name.empty() ? family_entries()
                                                  : find_row(std::span<const Family>(kFamilies),
                                                             name, "family of `grapeshot list`")
                                                        .entries();
  if (!json) {
    print_table(entries);
    return kNothingFound;
  }
  ordered_json rows = ordered_json::array();
  for (const Entry& entry : entries) {
    ordered_json& row = rows.emplace_back(ordered_json{{"name", entry.name}});
    row.update(entry.more);
    row["summary"] = entry.summary;
  }
  const std::string key = name.empty() ? "families" : name;
  std::cout << ordered_json{{"command", "list"}, {key, rows}}.dump(2) << "\n";
  return kNothingFound;
}

}  // namespace

Action declare_list(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  app.add_option("FAMILY", *name, "Whose rows; without it, the families");
  app.add_flag("--json", *json, "One JSON object on stdout");
  return [name, json] { return run(*name, *json); };
}

}  // namespace grapeshot::cli
