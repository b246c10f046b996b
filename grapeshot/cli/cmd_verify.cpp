// grapeshot/cli/cmd_verify.cpp: `grapeshot verify`, the command line of the VNN-LIB 2.0 standard.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/falsify_run.h"
#include "grapeshot/cli/network_files.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/tensor_proto.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyCommand {
  FalsifyRun search;
  std::string query, folder;

  int run() {
    GRAPESHOT_CHECK(
        query::is_query(read_file(query)), kUnsupported, query,
        ": not of VNN-LIB 2.0; `grapeshot falsify MODEL SPEC` takes other specifications");
    // Before the search, so that nothing found is lost.
    if (!folder.empty()) {
      std::error_code failure;
      fs::create_directories(folder, failure);
      GRAPESHOT_CHECK(!failure && fs::is_directory(folder), kInvalidArgument, folder,
                      ": cannot be made a folder");
    }
    search.files.specs = {query};
    search.quiet = true;
    return falsify_in_time(search, [this](const FalsifyAnswer& answer) { return report(answer); });
  }

  // Every answer is status 0: the standard knows none, and callers take others for a failure.
  [[nodiscard]] int report(const FalsifyAnswer& a) const {
    if (!a.finding) {
      std::cout << (a.answer == "timeout" ? "timed-out" : a.answer) << "\n";
      return kNothingFound;
    }
    const query::Query& q = *a.problem.instances[0].query;
    const at::Tensor& x = a.finding->x;
    const std::span<const float> row(x.const_data_ptr<float>(), static_cast<size_t>(x.numel()));
    const std::vector<double>& y = a.finding->confirmation.y32;
    for (const query::Variable& each : q.variables) {
      if (folder.empty()) break;
      const std::vector<double> values = q.values(each, row, y);
      const std::vector<float> narrow(values.begin(), values.end());
      write_file((fs::path(folder) / (each.name + ".pb")).string(),
                 onnx::write_tensor(each.name, narrow, each.shape));
    }
    std::cout << "sat\n" << (folder.empty() ? query::write_assignment(q, row, y) : std::string());
    std::cout.flush();
    return kNothingFound;
  }
};

}  // namespace

Action declare_verify(CLI::App& app) {
  auto command = std::make_shared<VerifyCommand>();
  app.add_option("QUERY", command->query, "A VNN-LIB 2.0 file")->required();
  add_network_option(app, command->search.files.networks);
  app.add_option("--timeout", command->search.timeout,
                 "Seconds from the start of the process to the answer")
      ->capture_default_str();
  // The standard's text has both names.
  app.add_option(
      "--serialise-assignments,--assignments", command->folder,
      "Write every variable of a counterexample here as NAME.pb, a TensorProto, in place "
      "of printing it");
  app.add_option("--seed", command->search.seed, "Seed of all randomness")->capture_default_str();
  app.add_option("--threads", command->search.threads, "Lanes, one core each (0: all cores)")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1024}));
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
