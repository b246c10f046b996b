// grapeshot/cli/cmd_fuzz.cpp: `grapeshot fuzz`.
#include <algorithm>
#include <memory>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/calls.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/fuzz_campaign.h"
#include "grapeshot/cli/network_files.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/core/mutate.h"
#include "grapeshot/io/torchscript/torchscript.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

struct FuzzCommand {
  ProblemFiles files;
  std::string out;
  CommonOptions common;
  std::unique_ptr<LoopFlags> flags;
  AfterRun after;

  void check_usage() const {
    const bool specs = !files.specs.empty(), data = !files.data.empty();
    const int forms = static_cast<int>(specs) + static_cast<int>(data) +
                      static_cast<int>(!files.instances.empty());
    GRAPESHOT_CHECK(forms == 1, kInvalidArgument,
                    "fuzz needs one of: MODEL SPEC..., --instances FILE.csv, or MODEL --data X.npy "
                    "--eps E");
    GRAPESHOT_CHECK(
        files.instances.empty() == !files.model.empty(), kInvalidArgument,
        files.instances.empty() ? "fuzz needs a MODEL" : "--instances names its models itself");
    check_perturbation(files.change, data, !files.eps_file.empty());
    GRAPESHOT_CHECK(files.mask.empty() || files.change.norm == "linf", kInvalidArgument,
                    "--mask goes with --norm linf: a bit that is dropped has no length");
    GRAPESHOT_CHECK(!data || files.networks.empty(), kInvalidArgument,
                    "--network goes with a VNN-LIB 2.0 file");
    GRAPESHOT_CHECK(files.drop >= 0, kInvalidArgument, "--drop must be at least 0");
  }

  // Of a set, mutations of masks are left out where there are none; of a choice they are not.
  void check_mutations(const LoopOptions& options) const {
    if (!files.mask.empty() && files.drop > 0) return;
    for (const std::string& list : {options.mutations, options.weights}) {
      for (const std::string_view each : split_at(',', list)) {
        const std::string_view name = each.substr(0, each.find('='));
        const auto all = mutations();
        const auto row = std::ranges::find(all, name, &Mutation::name);
        GRAPESHOT_CHECK(row == all.end() || !row->masks, kInvalidArgument, "mutation ", name,
                        " needs --mask, the model's input that says which tokens are there, and "
                        "--drop above 0");
      }
    }
  }

  // Of what has no layers to look into none is driven by; one that was chosen is missed.
  static void leave_out_coverage(const Problem& problem, LoopOptions& options,
                                 const Session& session) {
    for (const ProblemModel& each : problem.models) {
      if (!is_script(*each.model) || options.criterion == "none") continue;
      const bool chosen = options.criterion != LoopOptions().criterion || !options.criteria.empty();
      if (chosen) (void)need_onnx(*each.model, "coverage");
      session.note(each.path +
                   ": nothing is known of the layers inside of TorchScript: without coverage");
      options.criterion = "none";
    }
  }

  ordered_json run(const Session& session) const {
    check_usage();
    after.gate.check();
    LoopOptions options = flags->resolve();
    check_mutations(options);
    const Problem problem = load_problem(files, session.models);
    GRAPESHOT_CHECK(!problem.instances.empty(), kInvalidArgument, files.instances,
                    ": holds no instance");
    leave_out_coverage(problem, options, session);
    for (const ProblemInstance& each : problem.instances) {
      const auto& regions = each.property.regions;
      if (std::ranges::all_of(regions, [](const Region& r) { return r.box.empty; })) {
        session.note(each.name + ": no float32 input lies in its box");
      }
    }
    RunFolder folder(out.empty() ? default_run_path(problem.models[0].path) : out);
    ordered_json run;
    run["command"] = "fuzz";
    run["mode"] = flags->mode();
    run["files"] = to_json(files);
    run.update(describe_files(problem));
    return run_fuzz(problem, options, folder, std::move(run), common, nullptr, session);
  }
};

std::shared_ptr<FuzzCommand> declare(CLI::App& app) {
  auto command = std::make_shared<FuzzCommand>();
  app.add_option("MODEL", command->files.model, kModelHelp);
  add_shape_option(app, command->files.shape);
  app.add_option("SPEC", command->files.specs, "VNN-LIB or JSON files for it");
  add_network_option(app, command->files.networks);
  app.add_option("--instances", command->files.instances,
                 "A csv of onnx,vnnlib,timeout rows, as VNN-COMP has them");
  CLI::Option* data = add_data_options(app, command->files, "Inputs to search around");
  add_perturbation_options(app, command->files.change, data);
  app.add_option("--eps-file", command->files.eps_file,
                 "A radius for each input in place of --eps: a file of one row, by the names of "
                 "columns where both are tables")
      ->needs(data);
  app.add_option("--low", command->files.low,
                 "Smallest valid value, in the units of --data; one number, or as --mean")
      ->needs(data);
  app.add_option("--high", command->files.high, "Largest valid value")->needs(data);
  app.add_flag("--misclassified", command->files.misclassified,
               "Also inputs that the model does not predict as labelled")
      ->needs(data);
  app.add_option(
         "--frozen", command->files.frozen,
         "Inputs that never change, such as padding: a file of 1 for them, else 0, [N, ...] "
         "or a row; or names of columns, joined by commas")
      ->needs(data);
  auto* mask =
      app.add_option("--mask", command->files.mask,
                     "The model's input that is 1 for tokens that are there and 0 for padding")
          ->needs(data);
  app.add_option("--drop", command->files.drop,
                 "With --mask: tokens of a row that mutation mask may drop at a time")
      ->needs(mask)
      ->capture_default_str();
  auto* vocabulary =
      app.add_option("--vocabulary", command->files.vocabulary,
                     "Embeddings of words, .npy, [V, E]: findings say which are nearest")
          ->needs(data);
  app.add_option("--words", command->files.words, "Those words, a line each")->needs(vocabulary);
  app.add_option("--stats", command->files.stats,
                 "Reference statistics for --criterion and --criteria, as `grapeshot profile` "
                 "makes them");
  app.add_option("--out", command->out, "Run folder (default grapeshot-out/<time>-<model>)");
  app.add_flag_callback(
      "--no-report", [after = &command->after] { after->page = false; }, "Write no report.html");
  add_gate_flags(app, command->after.gate);
  add_common_options(app, command->common);
  add_screen_option(app, command->common);
  command->flags = std::make_unique<LoopFlags>(app);
  return command;
}

}  // namespace

Action declare_fuzz(CLI::App& app) {
  return [command = declare(app)] {
    return print_fuzz(command->run(terminal_session()), command->common, command->after);
  };
}

Call declare_fuzz_call(CLI::App& app) {
  return [command = declare(app)](const Session& session) { return command->run(session); };
}

}  // namespace grapeshot::cli
