// grapeshot/cli/cmd_check.cpp: `grapeshot check`.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/judgement.h"
#include "grapeshot/cli/network_files.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

struct CheckCommand {
  std::string model, spec, witness, shape;
  std::vector<std::string> networks;
  bool json = false;

  // The networks', without what a query computes of them.
  static std::vector<double> own_outputs(const Judgement& judgement,
                                         const ProblemInstance& instance) {
    std::vector<double> out = judgement.confirmation.y64;
    if (instance.query) out.resize(static_cast<size_t>(instance.query->base_outputs));
    return out;
  }

  // How far the outputs that the witness names are from ours; nothing when it names none.
  static std::optional<double> output_difference(const Witness& file, const Judgement& judgement,
                                                 const ProblemInstance& instance) {
    if (file.y.empty() || !judgement.evaluated) return std::nullopt;
    const std::vector<double> own = own_outputs(judgement, instance);
    if (file.y.size() != own.size()) return std::numeric_limits<double>::infinity();
    double largest = 0.;
    for (size_t i = 0; i < own.size(); ++i) {
      const double difference = std::abs(file.y[i] - own[i]);
      largest = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                       : std::max(largest, difference);
    }
    return largest;
  }

  int run() const {
    ProblemFiles files;
    files.model = model;
    files.specs = {spec};
    files.networks = networks;
    files.shape = shape;
    const Problem problem = load_problem(files);
    const ProblemInstance& instance = problem.instances[0];
    const Witness file = read_witness_for(witness, instance);
    const Property& property = instance.property;
    const Judgement judgement = judge_witness(*problem.models[0].model, property, file.x,
                                              words_of(instance), input_names(instance));
    const std::optional<double> difference = output_difference(file, judgement, instance);
    if (json) {
      ordered_json out = {{"command", "check"},
                          {"model", problem.models[0].path},
                          {"spec", problem.instances[0].spec},
                          {"witness", witness}};
      out.update(to_json(judgement, property));
      if (difference) out["outputs_differ_by"] = number(*difference);
      std::cout << out.dump(2) << "\n";
    } else {
      std::cout << (judgement.holds ? "holds: " : "does not hold: ") << judgement.why << "\n";
      // 1e-3: what VNN-COMP allows between two runtimes.
      const bool odd = difference && !(*difference <= 1e-3);
      if (odd && file.y.size() == own_outputs(judgement, instance).size()) {
        std::cout << "note: the outputs in the witness differ from the network's by " << *difference
                  << "\n";
      } else if (odd) {
        std::cout << "note: the witness has " << file.y.size() << " outputs, the network "
                  << own_outputs(judgement, instance).size() << "\n";
      }
    }
    return judgement.holds ? kNothingFound : kFound;
  }
};

}  // namespace

Action declare_check(CLI::App& app) {
  auto command = std::make_shared<CheckCommand>();
  app.add_option("MODEL", command->model, kModelHelp)->required();
  app.add_option("SPEC", command->spec, "A VNN-LIB or JSON file")->required();
  app.add_option("WITNESS", command->witness,
                 "An input: .npy, or VNN-COMP's text of VNN-LIB 1.0 or 2.0")
      ->required();
  add_network_option(app, command->networks);
  add_shape_option(app, command->shape);
  app.add_flag("--json", command->json, "One JSON object on stdout");
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
