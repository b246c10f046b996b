// grapeshot/cli/cmd_bench.cpp: `grapeshot bench`: the measurements of bench/, which are Python.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/proc/child.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;

// The folder that bench/run.py is in: above the program's, where it was built.
fs::path find_sources() {
  for (fs::path at = fs::path(own_program()).parent_path();; at = at.parent_path()) {
    if (fs::exists(at / "bench" / "run.py")) return at;
    GRAPESHOT_CHECK(at.has_relative_path(), kNotFound,
                    "the measurements come with the sources: there is no bench/run.py above ",
                    own_program());
  }
}

int run_bench(const std::vector<std::string>& names, const std::string& budget,
              const std::string& repeats) {
  const fs::path sources = find_sources();
  const fs::path own = sources / ".venv" / "bin" / "python";
  std::vector<std::string> command = {fs::exists(own) ? own.string() : "python3",
                                      (sources / "bench" / "run.py").string()};
  command.insert(command.end(), names.begin(), names.end());
  if (!budget.empty()) command.insert(command.end(), {"--budget", budget});
  if (!repeats.empty()) command.insert(command.end(), {"--repeats", repeats});
  std::vector<char*> arguments;
  for (std::string& each : command) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  setenv("GRAPESHOT_BUILD", fs::path(own_program()).parent_path().c_str(), 1);
  execvp(arguments[0], arguments.data());
  throw Error(ErrorCode::kSystem, str(command[0], " cannot be started"));
}

}  // namespace

Action declare_bench(CLI::App& app) {
  struct Chosen {
    std::vector<std::string> names;
    double budget = 0.;
    int64_t repeats = 0;
  };
  auto chosen = std::make_shared<Chosen>();
  app.add_option("NAME", chosen->names, "Measurements: paper, sensitivity, throughput, ...")
      ->required();
  app.add_option("--budget,--seconds", chosen->budget,
                 "Seconds: of one run, or of all runs together (paper, sensitivity)")
      ->check(CLI::PositiveNumber);
  app.add_option("--repeats", chosen->repeats, "Runs of each measurement")
      ->check(CLI::PositiveNumber);
  return [chosen] {
    return run_bench(chosen->names, chosen->budget > 0. ? str(chosen->budget) : "",
                     chosen->repeats > 0 ? str(chosen->repeats) : "");
  };
}

}  // namespace grapeshot::cli
