// grapeshot/cli/cmd_minimize.cpp: `grapeshot minimize`.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include <ATen/ATen.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/judgement.h"
#include "grapeshot/cli/network_files.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/problem.h"
#include "grapeshot/cli/recorded_finding.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/core/spec.h"
#include "grapeshot/falsify/minimize.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct MinimizeCommand {
  std::vector<std::string> what, networks;
  std::string original, norm = "linf", out, shape;
  double seconds = 10.;
  uint64_t seed = 0;
  CommonOptions common;

  // A finding's folder, or the three files.
  struct Files {
    ProblemFiles problem;
    std::string witness, original;
  };

  [[nodiscard]] Files files() const {
    if (what.size() == 3) {
      ProblemFiles problem;
      problem.model = what[0];
      problem.specs = {what[1]};
      problem.networks = networks;
      return {std::move(problem), what[2], original};
    }
    GRAPESHOT_CHECK(what.size() == 1 && networks.empty(), kInvalidArgument,
                    "minimize takes a FINDING folder, or MODEL SPEC WITNESS");
    const fs::path folder = what[0];
    const RecordedFinding finding = read_finding(folder);
    GRAPESHOT_CHECK(finding.variant.empty(), kInvalidArgument, what[0],
                    ": is about the model with its weights as ", finding.variant,
                    "; minimize works on models as they are");
    return {files_of(finding), (folder / "input.npy").string(),
            original.empty() ? (folder / "original.npy").string() : original};
  }

  int run() const {
    GRAPESHOT_CHECK(seconds > 0., kInvalidArgument, "--seconds must be above 0");
    const falsify::Norm& by = falsify::find_norm(norm);
    Files paths = files();
    // A finding knows its shape.
    paths.problem.shape = what.size() == 1 ? paths.witness : shape;
    const Problem problem = load_problem(paths.problem);
    const ProblemInstance& instance = problem.instances[0];
    const Witness given = read_witness_for(paths.witness, instance);
    const Model& model = *problem.models[0].model;
    const Property& property = instance.property;
    const Judgement judgement =
        judge_witness(model, property, given.x, words_of(instance), input_names(instance));
    GRAPESHOT_CHECK(judgement.holds, kInvalidArgument, paths.witness,
                    ": no counterexample to begin with: ", judgement.why);
    const at::Tensor x = at::tensor(given.x, at::kDouble).to(at::kFloat);
    const falsify::Oversized oversized{model,
                                       property,
                                       x,
                                       original_of(paths, instance, judgement, x),
                                       seed,
                                       seconds,
                                       &stop_on_interrupt()};
    const falsify::Smaller smaller = by.minimize(oversized);
    const std::string place = out.empty() ? default_place(paths) : out;
    save_witness(place, instance, smaller.x, smaller.confirmation.y32, model.input_shape());
    const ordered_json said = {{"command", "minimize"},
                               {"norm", norm},
                               {"before", smaller.before},
                               {"after", smaller.distance},
                               {"margin", number(smaller.confirmation.verdict32.margin)},
                               {"tries", smaller.tries},
                               {"out", place}};
    if (common.json) {
      std::cout << said.dump(2) << "\n";
    } else {
      std::printf("%s from %g to %g, margin %.4g, in %s\n", norm.c_str(), smaller.before,
                  smaller.distance, smaller.confirmation.verdict32.margin, place.c_str());
    }
    return kNothingFound;
  }

  // What is given, or the centre of the ball or the box that the witness is in.
  [[nodiscard]] static at::Tensor original_of(const Files& paths, const ProblemInstance& instance,
                                              const Judgement& judgement, const at::Tensor& x) {
    if (!paths.original.empty()) {
      const Witness file = read_witness_for(paths.original, instance);
      GRAPESHOT_CHECK(std::ssize(file.x) == x.numel(), kInvalidArgument, paths.original, ": has ",
                      file.x.size(), " numbers, the model takes ", x.numel());
      return at::tensor(file.x, at::kDouble).to(at::kFloat);
    }
    const auto region = static_cast<size_t>(judgement.confirmation.verdict32.region);
    const Box& box = instance.property.regions[region].box;
    if (box.set.ball.norm != BallNorm::kNone) return at::tensor(box.set.ball.centre);
    return box_centre(at::tensor(box.lo), at::tensor(box.hi));
  }

  [[nodiscard]] std::string default_place(const Files& paths) const {
    const fs::path from = paths.witness;
    return (from.parent_path() / str(from.stem().string(), "-", norm, ".npy")).string();
  }
};

}  // namespace

Action declare_minimize(CLI::App& app) {
  auto c = std::make_shared<MinimizeCommand>();
  app.add_option("FINDING", c->what, "A finding's folder, or MODEL SPEC WITNESS")
      ->required()
      ->expected(1, 3);
  app.add_option("--norm", c->norm, "What to make small: linf, l2, l1 or l0")
      ->capture_default_str();
  add_shape_option(app, c->shape);
  app.add_option("--original", c->original,
                 "Distance from here, .npy or text (default: the finding's original, else the "
                 "centre of the ball or the box)");
  add_network_option(app, c->networks);
  app.add_option("--out", c->out, "Where to write it, .npy or VNN-COMP's text (default: beside)");
  app.add_option("--seconds", c->seconds, "Time for it")->capture_default_str();
  app.add_option("--seed", c->seed, "Seed of all randomness")->capture_default_str();
  add_common_options(app, c->common);
  return [c] { return c->run(); };
}

}  // namespace grapeshot::cli
