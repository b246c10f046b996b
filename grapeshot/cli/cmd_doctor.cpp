// grapeshot/cli/cmd_doctor.cpp: `grapeshot doctor`: what a model is, and whether it is computed
// right.
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/data_rows.h"
#include "grapeshot/cli/doctor_report.h"
#include "grapeshot/cli/network_files.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/rows.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot::cli {
namespace {

constexpr int64_t kRows = 16;

struct DoctorCommand {
  DataOptions from;
  std::string model, spec, expected, shape;
  std::vector<std::string> networks;
  bool json = false;

  // Random rows in the boxes of the property, one after the other, or in [0, 1].
  static at::Tensor draw(const onnx::OnnxModel& net, const std::optional<Property>& property) {
    Rng rng(uint64_t{3});
    at::Tensor x = at::rand({kRows, net.inputs()}, rng.generator()).to(at::kDouble);
    if (!property) return x;
    const auto row = [](const std::vector<float>& values) {
      return at::tensor(values, at::kFloat).to(at::kDouble);
    };
    for (int64_t i = 0; i < kRows; ++i) {
      const size_t regions = property->regions.size();
      const Box& box = property->regions[static_cast<size_t>(i) * regions / kRows % regions].box;
      const at::Tensor lo = row(box.lo), hi = row(box.hi);
      x[i] = (lo + (hi - lo) * x[i]).to(at::kFloat).to(at::kDouble).clamp(lo, hi);
    }
    return x;
  }

  at::Tensor expected_outputs(const onnx::OnnxModel& net) const {
    NpyArray file = read_npy(expected);
    const auto size = static_cast<int64_t>(file.values.size());
    GRAPESHOT_CHECK(size > 0 && size % net.outputs() == 0, kInvalidArgument, expected, ": ", size,
                    " values, ", net.name(), " has ", net.outputs(), " outputs a row");
    return at::from_blob(file.values.data(), {size / net.outputs(), net.outputs()}, at::kDouble)
        .clone();
  }

  void print(const Report& report) const {
    for (const auto& [label, text] : report.lines) {
      std::cout << std::left << std::setw(12) << label << text << "\n";
    }
    for (const std::string& note : report.notes) std::cout << "note: " << note << "\n";
    for (const std::string& problem : report.problems) std::cout << "PROBLEM: " << problem << "\n";
    if (report.problems.empty()) std::cout << "everything holds\n";
  }

  int run() const {
    GRAPESHOT_CHECK(expected.empty() || !from.data.empty(), kInvalidArgument,
                    "--expected needs --data: outputs of these inputs");
    at::set_num_threads(1);
    std::shared_ptr<const Model> loaded;
    std::optional<Property> property;
    if (!spec.empty() && needs_networks(spec)) {
      ProblemFiles files;
      files.model = model;
      files.specs = {spec};
      files.networks = networks;
      files.shape = shape;
      Problem problem = load_problem(files);
      loaded = problem.models[0].model;
      property = std::move(problem.instances[0].property);
    } else {
      if (!spec.empty()) property = read_vnnlib(spec);
      std::vector<int64_t> sizes = input_shape(shape, from.data);
      if (sizes.empty() && property) sizes = {property->inputs};
      loaded = open_network(model, sizes);
      if (property) check_fits(*loaded, *property, spec);
    }
    const onnx::OnnxModel& net = *as_network(*loaded);  // of a file
    Patient patient{net, {}, {}, property ? &*property : nullptr, !from.data.empty()};
    if (from.data.empty()) {
      patient.x = draw(net, property);
    } else {
      patient.x = DataRows(from, net).x().to(at::kFloat).to(at::kDouble);
      GRAPESHOT_CHECK(patient.x.size(0) > 0, kInvalidArgument, from.data, ": holds no row");
      if (!expected.empty()) {
        patient.expected = expected_outputs(net);
        GRAPESHOT_CHECK(patient.expected.size(0) == patient.x.size(0), kInvalidArgument, expected,
                        ": ", patient.expected.size(0), " rows for ", patient.x.size(0), " of ",
                        from.data);
        patient.expected = patient.expected.slice(0, 0, kRows);
      }
      patient.x = patient.x.slice(0, 0, kRows);
    }
    Report report;
    examine_network(patient, report);
    examine_gradients(patient, report);
    const bool holds = report.problems.empty();
    if (json) {
      nlohmann::ordered_json out = {{"command", "doctor"}, {"model", model}, {"holds", holds}};
      out.update(report.json);
      out["problems"] = report.problems;
      out["notes"] = report.notes;
      std::cout << out.dump(2) << "\n";
    } else {
      print(report);
    }
    return holds ? kNothingFound : kFound;
  }
};

}  // namespace

Action declare_doctor(CLI::App& app) {
  auto command = std::make_shared<DoctorCommand>();
  app.add_option("MODEL", command->model, kModelHelp)->required();
  add_shape_option(app, command->shape);
  app.add_option("SPEC", command->spec,
                 "A VNN-LIB or JSON file: examine the model on 16 random inputs in its boxes");
  add_network_option(app, command->networks);
  add_data_options(app, command->from,
                   "Inputs to examine it on, the first 16 (default: random in [0, 1])");
  app.add_option(
      "--expected", command->expected,
      "What another runtime makes of --data, .npy, [N, K]: parity within 1e-4 (1 + |y|)");
  app.add_flag("--json", command->json, "One JSON object on stdout");
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
