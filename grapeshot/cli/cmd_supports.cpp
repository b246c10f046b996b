// grapeshot/cli/cmd_supports.cpp: `grapeshot supports`: what the VNN-LIB 2.0 standard asks of
// tools.
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/io/onnx/graph.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::cli {
namespace {

using Lines = std::vector<std::string>;

struct Capability {
  std::string_view flag, summary;
  Lines (*lines)();
};

// Of the identifiers of the standard, chapters 4 and 5.
constexpr Capability kTable[] = {
    {"--onnx-opset-versions", "Oldest and newest opset",
     [] { return Lines{std::to_string(onnx::kOldestOpset), std::to_string(onnx::kNewestOpset)}; }},
    {"--onnx-element-types", "Element types that a query may declare",
     [] { return Lines{"float32", "real"}; }},
    {"--onnx-operators", "Operators",
     [] {
       std::set<std::string> names;
       for (const onnx::Operator& row : onnx::operators()) names.emplace(row.name);
       return Lines(names.begin(), names.end());
     }},
    {"--vnnlib-versions", "Oldest and newest version of VNN-LIB that `verify` takes",
     [] { return Lines{"2.0", "2.0"}; }},
    {"--hidden-node-theories", "Queries without and with hidden tensors",
     [] { return Lines{"NH", "H"}; }},
    {"--multiple-input-output-theories", "Networks of one or several inputs and outputs",
     [] { return Lines{"SIO", "MIO"}; }},
    {"--multiple-network-theories", "One network, several equal, isomorphic or other ones",
     [] { return Lines{"SNET", "MENET", "MINET", "MNET"}; }},
    {"--multiple-node-comparison-theories", "Relations of one tensor or of several",
     [] { return Lines{"SNC", "MNC"}; }},
    {"--arithmetic-complexity-theories", "Bounds, comparisons, linear relations, polynomials",
     [] { return Lines{"BND", "OUTC", "LIN", "POLY"}; }},
    {"--optimised-disjunctive-reasoning", "Whether `or` is more than a disjunctive normal form",
     [] { return Lines{"false"}; }},
    {"--serialise-assignments", "Whether `verify` writes TensorProtos",
     [] { return Lines{"true"}; }},
};

}  // namespace

Action declare_supports(CLI::App& app) {
  auto asked = std::make_shared<std::vector<const Capability*>>();
  for (const Capability& row : kTable) {
    app.add_flag_callback(
        std::string(row.flag), [asked, &row] { asked->push_back(&row); }, std::string(row.summary));
  }
  return [asked] {
    GRAPESHOT_CHECK(asked->size() == 1, kInvalidArgument,
                    "supports answers one question; see `grapeshot supports --help`");
    for (const std::string& line : (*asked)[0]->lines()) std::cout << line << "\n";
    return kNothingFound;
  };
}

}  // namespace grapeshot::cli
