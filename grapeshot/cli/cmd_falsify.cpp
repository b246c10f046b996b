// grapeshot/cli/cmd_falsify.cpp: `grapeshot falsify`.
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>

#include <unistd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/calls.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/falsify_run.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/network_files.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/run_folder.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

struct FalsifyCommand {
  FalsifyRun search;
  std::string spec, witness;
  CommonOptions common;

  // Before the search, so that nothing found is lost.
  static void check_writable(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    GRAPESHOT_CHECK(access(folder.c_str(), W_OK) == 0 && !std::filesystem::is_directory(path),
                    kInvalidArgument, path, ": cannot be written");
  }

  void prepare() {
    if (!witness.empty()) check_writable(witness);
    search.files.specs = {spec};
    search.quiet = common.quiet || common.json;
  }

  int run() {
    prepare();
    return falsify_in_time(search, [this](const FalsifyAnswer& answer) { return report(answer); });
  }

  ordered_json call(const Session& session) {
    prepare();
    ordered_json out;
    falsify(search, session, [&](const FalsifyAnswer& answer) {
      if (answer.finding && session.found) session.found("", *answer.finding);
      out = describe(answer, session);
    });
    return out;
  }

  // What --json prints; writes the witness.
  ordered_json describe(const FalsifyAnswer& a, const Session& session) const {
    const InstanceResult instance = a.instance();
    const auto path = [](const std::string& given) {
      return std::filesystem::absolute(given).lexically_normal().string();
    };
    const bool read = !a.problem.models.empty();
    if (a.finding && !witness.empty()) {
      save_witness(witness, a.problem.instances[0], a.finding->x, a.finding->confirmation.y32,
                   a.problem.models[0].model->input_shape());
    }
    if (instance.nan.defined()) {
      session.note(str("the network's output is NaN for an input of the box",
                       nan_file(a.problem, instance.nan), "; NaN violates nothing"));
    }
    ordered_json out = {{"command", "falsify"},
                        {"answer", a.answer},
                        {"model", read ? a.problem.models[0].path : path(search.files.model)},
                        {"spec", read ? a.problem.instances[0].spec : path(spec)},
                        {"seconds", session.age_s()},
                        {"start_up_s", a.start_up_s},
                        {"seed", search.seed},
                        {"threads", a.result.lanes}};
    out["inputs_checked"] = a.result.totals.inputs_checked;
    out["best_margin"] =
        number(a.finding                            ? a.finding->confirmation.verdict32.margin
               : a.result.totals.inputs_checked > 0 ? a.result.totals.best_margin
                                                    : std::numeric_limits<double>::infinity());
    out["borderline"] = a.result.totals.borderline;
    out["exhausted"] = instance.exhausted;
    out["nan"] = instance.nan.defined();
    if (a.finding) {
      out["attack"] = a.finding->mutation;
      out["margin32"] = a.finding->confirmation.verdict32.margin;
      out["margin64"] = a.finding->confirmation.verdict64.margin;
      out["clear"] = a.finding->confirmation.clear;
      if (!a.words.empty()) out["words"] = a.words;
      out["onnxruntime"] = a.finding->opinion ? ordered_json(*a.finding->opinion) : ordered_json();
      out["witness"] = witness.empty() ? ordered_json() : ordered_json(witness);
    }
    return out;
  }

  int report(const FalsifyAnswer& a) const {
    const ordered_json out = describe(a, terminal_session());
    if (common.json) {
      std::cout << out.dump(2) << "\n";
    } else {
      std::cout << a.answer << "\n";
      if (a.finding && witness.empty()) {
        const std::string text =
            witness_text(a.problem.instances[0], a.finding->x, a.finding->confirmation.y32);
        std::cout << text.substr(text.find('\n') + 1);
      }
      if (!common.quiet) say(a, a.instance());
    }
    std::cout.flush();
    return a.finding ? kFound : kNothingFound;
  }

  void say(const FalsifyAnswer& a, const InstanceResult& instance) const {
    if (!a.words.empty()) std::fprintf(stderr, "%s\n", a.words.c_str());
    if (a.finding) {
      std::fprintf(stderr, "found by %s after %.2f s (start-up %.2f s), margin %.4g\n",
                   a.finding->mutation.c_str(), a.start_up_s + a.finding->seconds, a.start_up_s,
                   a.finding->confirmation.verdict32.margin);
    } else if (instance.exhausted && a.result.totals.inputs_checked > 0) {
      std::fprintf(stderr, "no input is free: all there are were tried\n");
    } else if (instance.exhausted) {
      std::fprintf(stderr, "none of these attacks applies to the instance\n");
    } else if (a.late) {
      std::fprintf(stderr, "the limit of %g s was over before the first input (start-up %.2f s)\n",
                   search.timeout, a.start_up_s);
    } else {
      std::fprintf(stderr, "%" PRId64 " inputs checked, best margin %.6g\n",
                   a.result.totals.inputs_checked, a.result.totals.best_margin);
    }
  }

  // Where it was written, for a note.
  [[nodiscard]] std::string nan_file(const Problem& problem, const at::Tensor& x) const {
    if (witness.empty()) return {};
    const std::string path = witness + ".nan.npy";
    try {
      save_npy(path, x, problem.models[0].model->input_shape());
    } catch (const Error& error) {
      return str(" (which could not be kept: ", error.what(), ")");
    }
    return str(", written to ", path);
  }
};

std::shared_ptr<FalsifyCommand> declare(CLI::App& app) {
  auto command = std::make_shared<FalsifyCommand>();
  app.add_option("MODEL", command->search.files.model, kModelHelp)->required();
  app.add_option("SPEC", command->spec, "A VNN-LIB or JSON file for it")->required();
  add_network_option(app, command->search.files.networks);
  app.add_option("--timeout", command->search.timeout,
                 "Seconds from the start of the process to the answer")
      ->capture_default_str();
  app.add_option("--witness", command->witness,
                 "Write the counterexample here: VNN-COMP's text, or an array (.npy)");
  app.add_option("--confirm", command->search.confirm,
                 "auto: ONNX Runtime, where it is installed, decides what rounding may undo; ort: "
                 "it has to agree with every counterexample; none")
      ->capture_default_str();
  app.add_option("--attacks", command->search.attacks, "all, or names joined by commas")
      ->capture_default_str();
  add_shape_option(app, command->search.files.shape);
  add_grid_options(app, command->search.files.change.integer, command->search.files.change.grid);
  app.add_option("--seed", command->search.seed, "Seed of all randomness")->capture_default_str();
  app.add_option("--threads", command->search.threads, "Lanes, one core each (0: all cores)")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1024}));
  add_common_options(app, command->common);
  return command;
}

}  // namespace

Action declare_falsify(CLI::App& app) {
  return [command = declare(app)] { return command->run(); };
}

Call declare_falsify_call(CLI::App& app) {
  return [command = declare(app)](const Session& session) { return command->call(session); };
}

}  // namespace grapeshot::cli
