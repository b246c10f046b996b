// grapeshot/cli/cmd_profile.cpp: `grapeshot profile`: reference statistics of a network.
#include <iostream>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/data_rows.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/profile_file.h"
#include "grapeshot/cli/rows.h"
#include "grapeshot/core/worker.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {
namespace {

struct ProfileCommand {
  DataOptions from;
  std::string model, out, layer, shape;
  bool json = false;

  int run() const {
    check_can_write(out);
    at::set_num_threads(1);
    const std::unique_ptr<onnx::OnnxModel> net = open_network(model, input_shape(shape, from.data));
    (void)need_onnx(*net, "coverage");
    const at::Tensor x = DataRows(from, *net).x().to(at::kFloat);
    GRAPESHOT_CHECK(x.size(0) > 0, kInvalidArgument, from.data, ": holds no input");
    Profile profile = make_profile(*net, x, layer, micro_batch(*net));
    profile.model_sha256 = sha256_file(resolve_file(model));
    write_profile(out, profile);
    if (json) {
      nlohmann::ordered_json report = {{"command", "profile"},
                                       {"model", model},
                                       {"rows", profile.rows},
                                       {"left_out", x.size(0) - profile.rows},
                                       {"layer", profile.layer},
                                       {"taps", nlohmann::ordered_json::array()},
                                       {"out", out}};
      for (const TapProfile& tap : profile.taps) {
        report["taps"].push_back({{"name", tap.name}, {"neurons", tap.low.numel()}});
      }
      std::cout << report.dump(2) << "\n";
      return kNothingFound;
    }
    std::cout << out << ": " << profile.rows << " inputs, " << profile.taps.size()
              << " layers; traces of '" << profile.layer << "', " << profile.traces.size(1)
              << " neurons\n";
    if (profile.rows < x.size(0)) {
      std::cout << x.size(0) - profile.rows << " inputs left out: NaN or infinite activations\n";
    }
    return kNothingFound;
  }
};

}  // namespace

Action declare_profile(CLI::App& app) {
  auto command = std::make_shared<ProfileCommand>();
  app.add_option("MODEL", command->model, kModelHelp)->required();
  add_shape_option(app, command->shape);
  add_data_options(app, command->from, "Inputs it was made for")->required();
  app.add_option("--out", command->out, "Where the statistics go, .npz")->required();
  app.add_option("--layer", command->layer,
                 "Whose traces lsa, dsa and mdsa compare with (default: the last before the "
                 "outputs)");
  app.add_flag("--json", command->json, "One JSON object on stdout");
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
