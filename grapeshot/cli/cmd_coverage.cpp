// grapeshot/cli/cmd_coverage.cpp: `grapeshot coverage`: how much of a network a set of inputs
// exercises.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/deadline.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/calls.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/data_rows.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/profile_file.h"
#include "grapeshot/cli/rows.h"
#include "grapeshot/cli/timing.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/core/memory.h"
#include "grapeshot/core/worker.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

// Points of a curve at most.
constexpr int64_t kPoints = 100;

// One criterion with what it has cost.
struct Measured {
  const CriterionRow* row;
  std::unique_ptr<Criterion> criterion;
  double seconds = 0.;
  int64_t bytes = 0;  ///< of tensors, for an update at most
  std::vector<double> curve = {};
};

struct CoverageCommand {
  DataOptions from;
  std::string model, criteria = "nc", stats, strategy = "global", curve, shape;
  CoverageOptions options;
  bool every_tap = false, json = false, quiet = false;

  std::vector<Measured> make(const CriterionSetup& setup, const Session& session) const {
    std::vector<Measured> out;
    for (const std::string_view name : split_at(',', criteria)) {
      if (name == "all") {
        for (const CriterionRow& row : grapeshot::criteria()) {
          if (row.profiled && !setup.profile) continue;
          try {
            out.push_back({&row, make_criterion(row, setup)});
          } catch (const Error& error) {
            if (error.code() != ErrorCode::kInvalidArgument) throw;
            session.note(str("left out: ", error.what()));
          }
        }
        continue;
      }
      const CriterionRow& row = find_criterion(name);
      out.push_back({&row, make_criterion(row, setup)});
    }
    GRAPESHOT_CHECK(!out.empty(), kInvalidArgument, "--criteria names none");
    return out;
  }

  ordered_json run(const Session& session) const {
    GRAPESHOT_CHECK(strategy == "global" || strategy == "best-input", kInvalidArgument,
                    "--coverage: '", strategy, "' is not one of global, best-input");
    check_criterion_options(options.more, options.tau);
    for (const std::string_view name : split_at(',', criteria)) {
      if (name != "all") (void)find_criterion(name);
    }
    if (!curve.empty()) check_can_write(curve);
    at::set_num_threads(1);
    const std::shared_ptr<const Model> net =
        open_model(model, input_shape(shape, from.data), session.models);
    if (is_script(*net)) (void)need_onnx(*net, "coverage");
    const at::Tensor x = DataRows(from, *net).x().to(at::kFloat);
    std::optional<Profile> profile;
    if (!stats.empty()) {
      profile = read_profile(stats, sha256_file(resolve_file(model)), net->name());
    }
    CriterionSetup setup = criterion_setup(*net, every_tap);
    setup.options = options;
    setup.options.strategy =
        strategy == "global" ? CoverageStrategy::kGlobal : CoverageStrategy::kBestInput;
    setup.profile = profile ? &*profile : nullptr;
    std::vector<Measured> all = make(setup, session);
    Wanted wanted = counted_taps(*net, every_tap);
    wanted.largest = false;
    for (const Measured& m : all) m.row->add_to(wanted);
    return report(x, all, setup, measure(*net, x, wanted, all, session));
  }

  struct Walk {
    std::vector<int64_t> inputs;  ///< at every point of the curves
    double network_s = 0.;        ///< in passes with what they record
    double forward_s = 0.;        ///< what passes that record nothing would take
  };

  Walk measure(const Model& net, const at::Tensor& x, const Wanted& wanted,
               std::vector<Measured>& all, const Session& session) const {
    Walk walk;
    const int64_t n = x.size(0), most = micro_batch(net);
    const auto began = Clock::now();
    double told = 0.;
    for (int64_t point = 1, begin = 0; begin < n; ++point) {
      // Points are spread over the inputs; a piece between two of them is a batch or several.
      const int64_t until = std::max(begin + 1, n * point / std::min(n, kPoints));
      for (; begin < until;) {
        const int64_t end = std::min(begin + most, until);
        const auto start = Clock::now();
        Trace trace = net.trace(x.slice(0, begin, end), Head::kLogits, wanted);
        walk.network_s += seconds_since(start);
        const Observation seen{trace.y,        trace.activations, trace.means,
                               trace.extremes, trace.states,      trace.attention};
        for (Measured& m : all) {
          const auto at = Clock::now();
          m.bytes = std::max(m.bytes, peak_tensor_bytes([&] { (void)m.criterion->update(seen); }));
          m.seconds += seconds_since(at);
        }
        begin = end;
      }
      walk.inputs.push_back(begin);
      for (Measured& m : all) m.curve.push_back(m.criterion->value());
      if (session.progress) {
        session.progress({{"seconds", seconds_since(began)}, {"inputs", begin}, {"of", n}});
      } else if (!quiet && seconds_since(began) > told + 2.) {
        told = seconds_since(began);
        std::fprintf(stderr, "%6.1f s  %lld of %lld inputs\n", told, static_cast<long long>(begin),
                     static_cast<long long>(n));
      }
    }
    constexpr double kBudget = 0.1;
    const int64_t timed = std::min(n, most);
    if (n > 0) walk.forward_s = forward_seconds(net, timed, kBudget) / static_cast<double>(timed);
    walk.forward_s *= static_cast<double>(n);
    return walk;
  }

  ordered_json report(const at::Tensor& x, const std::vector<Measured>& all,
                      const CriterionSetup& setup, const Walk& walk) const {
    const auto n = static_cast<double>(std::max<int64_t>(x.size(0), 1));
    ordered_json out = {{"command", "coverage"},
                        {"model", model},
                        {"data", from.data},
                        {"inputs", x.size(0)},
                        {"neurons", 0},
                        {"taps", ordered_json::array()},
                        {"network_s", walk.network_s},
                        {"forward_s", walk.forward_s},
                        {"criteria", ordered_json::object()},
                        {"curve", {{"inputs", walk.inputs}}}};
    int64_t neurons = 0;
    for (size_t t = 0; t < setup.taps.size(); ++t) {
      neurons += setup.neurons[t];
      out["taps"].push_back({{"name", setup.taps[t]}, {"neurons", setup.neurons[t]}});
    }
    out["neurons"] = neurons;
    for (const Measured& m : all) {
      const std::string name(m.row->name);
      out["criteria"][name] = {{"value", m.criterion->value()},
                               {"share", m.row->share},
                               {"seconds", m.seconds},
                               {"us_per_input", 1e6 * m.seconds / n},
                               {"of_forward", m.seconds / std::max(walk.forward_s, 1e-12)},
                               {"kept_mib", mib(kept_bytes(m))},
                               {"peak_mib", mib(m.bytes)}};
      out["curve"][name] = m.curve;
    }
    if (!curve.empty()) write_file(curve, csv(walk, all));
    return out;
  }

  // For a terminal; the exit status.
  int print() const {
    const ordered_json out = run(terminal_session());
    if (json) {
      std::cout << out.dump(2) << "\n";
      return kNothingFound;
    }
    std::printf(
        "%s: %lld inputs, %lld neurons in %zu layers; passes %.3g s, without recording "
        "%.3g s\n",
        resolve_file(model).c_str(), out["inputs"].get<long long>(),
        out["neurons"].get<long long>(), out["taps"].size(), out["network_s"].get<double>(),
        out["forward_s"].get<double>());
    std::printf("  %-10s %-12s %9s %14s %9s\n", "criterion", "value", "seconds", "of a forward",
                "MiB");
    for (const auto& [name, each] : out["criteria"].items()) {
      const double value = each["value"];
      const std::string text = each["share"] ? str(100. * value, " %") : str(value);
      std::printf("  %-10s %-12s %9.3g %12.2g %% %9.3g\n", name.c_str(), text.c_str(),
                  each["seconds"].get<double>(), 100. * each["of_forward"].get<double>(),
                  each["kept_mib"].get<double>() + each["peak_mib"].get<double>());
    }
    return kNothingFound;
  }

  static double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

  static int64_t kept_bytes(const Measured& m) {
    State state;
    m.criterion->save(state, "");
    return state.bytes();
  }

  static std::string csv(const Walk& walk, const std::vector<Measured>& all) {
    std::string text = "inputs";
    for (const Measured& m : all) text += str(",", m.row->name);
    for (size_t i = 0; i < walk.inputs.size(); ++i) {
      text += str("\n", walk.inputs[i]);
      for (const Measured& m : all) text += str(",", m.curve[i]);
    }
    return text + "\n";
  }
};

std::shared_ptr<CoverageCommand> declare(CLI::App& app) {
  auto command = std::make_shared<CoverageCommand>();
  app.add_option("MODEL", command->model, kModelHelp)->required();
  add_shape_option(app, command->shape);
  add_data_options(app, command->from, "Inputs")->required();
  app.add_option("--criteria", command->criteria,
                 "Names joined by commas, or all: those that have what they need")
      ->capture_default_str();
  app.add_option("--stats", command->stats,
                 "Reference statistics, as `grapeshot profile` makes them");
  app.add_option("--tau", command->options.tau, "nc, nc-scaled: a neuron fires above this")
      ->capture_default_str();
  app.add_option("--coverage", command->strategy,
                 "nc, nc-scaled: global (new neurons of the union) or best-input (more than any "
                 "single input)")
      ->capture_default_str();
  app.add_flag("--every-tap", command->every_tap,
               "Count a convolution and the ReLU behind it both");
  describe_criteria(command->options.more,
                    [&](std::string_view name, auto& member, std::string_view help) {
                      add_described(app, name, member, help);
                    });
  app.add_option("--curve", command->curve, "Where the values go by number of inputs, .csv");
  app.add_flag("--json", command->json, "One JSON object on stdout");
  app.add_flag("--quiet", command->quiet, "No progress on stderr");
  return command;
}

}  // namespace

Action declare_coverage(CLI::App& app) {
  return [command = declare(app)] { return command->print(); };
}

Call declare_coverage_call(CLI::App& app) {
  return [command = declare(app)](const Session& session) { return command->run(session); };
}

}  // namespace grapeshot::cli
