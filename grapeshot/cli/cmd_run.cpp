// grapeshot/cli/cmd_run.cpp: `grapeshot run`.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/data_rows.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/rows.h"
#include "grapeshot/core/loop.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {
namespace {

struct RunCommand {
  DataOptions from;
  std::string model, out, gradient, shape;
  int64_t output = 0;
  bool float64 = false, unlowered = false, row_by_row = false, json = false;

  at::Tensor outputs(const onnx::OnnxModel& net, const at::Tensor& x) const {
    if (row_by_row) return net.evaluate(x);
    if (unlowered || float64) return net.forward_unlowered(x);
    return net.forward(x, Head::kOutputs);
  }

  // Of one output, by the lowered graph as the loop has it.
  at::Tensor gradients(const onnx::OnnxModel& net, const at::Tensor& x) const {
    const auto pick = [&](const at::Tensor& y) {
      at::Tensor cotangent = at::zeros_like(y);
      cotangent.select(1, output).fill_(1);
      return cotangent;
    };
    return net.gradient(x, Head::kOutputs, Surrogate::kLoose, pick).x;
  }

  // fn over micro-batches.
  template <class Fn>
  static at::Tensor in_pieces(const at::Tensor& x, int64_t rows, int64_t width, Fn fn) {
    at::Tensor result = at::empty({x.size(0), width}, x.options());
    for (int64_t begin = 0; begin < x.size(0); begin += rows) {
      const int64_t end = std::min(begin + rows, x.size(0));
      result.slice(0, begin, end).copy_(fn(x.slice(0, begin, end)));
    }
    return result;
  }

  // Several outputs of a model besides in a file each: Y.npy -> Y_0.npy, Y_1.npy, ...
  std::vector<std::string> write_parts(const onnx::OnnxModel& net, const at::Tensor& y) const {
    const std::filesystem::path whole(out);
    std::vector<std::string> names;
    for (const onnx::PortSlice& port : net.network().outputs) {
      std::filesystem::path part = whole;
      part.replace_filename(
          str(whole.stem().string(), "_", names.size(), whole.extension().string()));
      write_tensor(part.string(), y.slice(1, port.begin, port.begin + port.size));
      names.push_back(part.string());
    }
    return names;
  }

  // How many rows have their label as the largest output.
  static void count_right(const at::Tensor& labels, const at::Tensor& y,
                          nlohmann::ordered_json& report) {
    const at::Tensor known = labels >= 0;
    report["labelled"] = known.sum().item<int64_t>();
    report["predicted_as_labelled"] =
        (y.argmax(1) == labels).logical_and(known).sum().item<int64_t>();
  }

  int run() const {
    GRAPESHOT_CHECK(!out.empty() || !gradient.empty(), kInvalidArgument,
                    "run needs --out Y.npy or --gradient G.npy");
    for (const std::string& path : {out, gradient}) {
      if (!path.empty()) check_can_write(path);
    }
    at::set_num_threads(1);  // as a lane of the loop computes
    const std::unique_ptr<onnx::OnnxModel> net = open_network(model, input_shape(shape, from.data));
    GRAPESHOT_CHECK(output >= 0 && output < net->outputs(), kInvalidArgument, "--output ", output,
                    ": ", net->name(), " has outputs 0 to ", net->outputs() - 1);
    const DataRows rows(from, *net);
    // Before anything is written: a label may be wrong.
    at::Tensor labels;
    if (!rows.labels().empty()) labels = at::tensor(labels_of(rows, from, net->outputs()));
    const at::Tensor x = rows.x().to(float64 ? at::kDouble : at::kFloat);
    const int64_t piece = even_pieces(x.size(0), micro_batch(*net));
    nlohmann::ordered_json report = {
        {"command", "run"},          {"model", model},
        {"rows", x.size(0)},         {"inputs", net->inputs()},
        {"outputs", net->outputs()}, {"runs_as_one_batch", net->fallback().empty()}};
    if (!net->fallback().empty()) report["fallback"] = net->fallback();
    if (!out.empty()) {
      const at::Tensor y = in_pieces(x, piece, net->outputs(),
                                     [&](const at::Tensor& part) { return outputs(*net, part); });
      write_tensor(out, y);
      report["out"] = out;
      if (net->network().outputs.size() > 1) report["parts"] = write_parts(*net, y);
      if (labels.defined()) count_right(labels, y, report);
    }
    if (!gradient.empty()) {
      write_tensor(gradient, in_pieces(x, piece, net->inputs(), [&](const at::Tensor& part) {
                     return gradients(*net, part);
                   }));
      report["gradient"] = gradient;
    }
    if (json) {
      std::cout << report.dump(2) << "\n";
    } else {
      if (!out.empty()) {
        std::cout << out << ": " << x.size(0) << " rows of " << net->outputs() << " outputs\n";
        if (report.contains("labelled")) {
          std::cout << report["predicted_as_labelled"] << " of " << report["labelled"]
                    << " labelled rows are predicted as their labels say\n";
        }
      }
      if (!gradient.empty()) {
        std::cout << gradient << ": gradient of output " << output << ", " << x.size(0)
                  << " rows of " << net->inputs() << " inputs\n";
      }
    }
    return kNothingFound;
  }
};

}  // namespace

Action declare_run(CLI::App& app) {
  auto command = std::make_shared<RunCommand>();
  app.add_option("MODEL", command->model, kModelHelp)->required();
  add_shape_option(app, command->shape);
  add_data_options(app, command->from, "Inputs [N, ...]; several inputs flat, one after the other")
      ->required();
  app.add_option("--out", command->out,
                 "Where the outputs go, .npy, [N, K]; several outputs side by side, and besides in "
                 "Y_0.npy, Y_1.npy, ...");
  app.add_option("--gradient", command->gradient,
                 "Where the gradient of one output with respect to the inputs goes, .npy, [N, D]");
  app.add_option("--output", command->output, "Which output --gradient is of")
      ->capture_default_str();
  app.add_flag("--float64", command->float64,
               "In float64, by the graph as read; the files are float64 too");
  app.add_flag("--unlowered", command->unlowered, "By the graph as read, not the lowered one");
  app.add_flag("--row-by-row", command->row_by_row,
               "One row at a time by the graph as read, as findings are confirmed");
  app.add_flag("--json", command->json, "One JSON object on stdout");
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
