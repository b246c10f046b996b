// grapeshot/cli/cmd_report.cpp: `grapeshot report`.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/recorded_run.h"
#include "grapeshot/cli/report_flags.h"
#include "grapeshot/io/file.h"
#include "grapeshot/report/formats.h"

namespace grapeshot::cli {
namespace {

constexpr std::string_view kStdout = "-";

// The lines of a file of names; line i names class or input i.
std::vector<std::string> read_names(const std::string& path) {
  std::vector<std::string> out;
  if (path.empty()) return out;
  const std::string text = read_file(path);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    out.push_back(std::move(line));
    begin = end + 1;
  }
  GRAPESHOT_CHECK(!out.empty(), kParse, path, ": holds no name");
  return out;
}

struct ReportCommand {
  std::string path, format = "html", out, names, features, shape;
  std::vector<std::string> files;  // by format, in table order; "" for none
  int64_t most = RunParts().most_findings;
  GateFlags gate;

  [[nodiscard]] int run() const {
    gate.check();
    const auto targets = chosen();
    RunParts parts{.most_findings = most};
    for (const auto& [each, place] : targets) {
      parts.inputs |= each->inputs;
      parts.constraints |= each->constraints;
    }
    const std::vector<std::string> class_names = read_names(names), inputs = read_names(features);
    report::Run run = read_run(path, parts);
    run.class_names = class_names;
    run.feature_names = inputs;
    run.input_shape = parse_shape();
    for (const auto& [each, place] : targets) {
      const std::string text = each->write(run);
      if (place == kStdout) {
        std::cout << text;
      } else {
        write_file(place, text);
        std::cerr << "grapeshot: wrote " << place << "\n";
      }
    }
    return gate.fails(run) ? kFound : kNothingFound;
  }

  // What is written where. The page goes into the run folder, the rest to stdout, unless told else.
  [[nodiscard]] std::vector<std::pair<const report::Format*, std::string>> chosen() const {
    std::vector<std::pair<const report::Format*, std::string>> targets;
    const auto table = report::formats();
    for (size_t i = 0; i < table.size(); ++i) {
      if (!files[i].empty()) targets.emplace_back(&table[i], files[i]);
    }
    if (targets.empty() || !out.empty() || format != "html") {
      const report::Format& one = report::find_format(format);
      const std::string page = (std::filesystem::path(path) / "report.html").string();
      const std::string usual = format == "html" ? page : std::string(kStdout);
      targets.emplace_back(&one, out.empty() ? usual : out);
    }
    return targets;
  }

  [[nodiscard]] std::vector<int64_t> parse_shape() const {
    std::vector<int64_t> dims;
    for (const std::string_view each : split_at(',', shape)) {
      const std::optional<Decimal> number = parse_decimal(each);
      const double dim = number ? number->nearest : 0.;
      GRAPESHOT_CHECK(
          dim >= 1. && dim <= 65536. && dim == static_cast<double>(static_cast<int64_t>(dim)),
          kInvalidArgument, "--input-shape: '", printable(each), "' is no dimension");
      dims.push_back(static_cast<int64_t>(dim));
    }
    return dims;
  }
};

}  // namespace

Action declare_report(CLI::App& app) {
  auto command = std::make_shared<ReportCommand>();
  app.add_option("RUN", command->path, "A run folder of `fuzz` or `diff`")->required();
  app.add_option("--format", command->format,
                 "What to write; `grapeshot list reports` says more of each")
      ->capture_default_str();
  app.add_option("--out", command->out,
                 "Where to, - for stdout (default: html RUN/report.html, the others stdout)");
  const auto table = report::formats();
  command->files.resize(table.size());
  for (size_t i = 0; i < table.size(); ++i) {
    app.add_option("--" + std::string(table[i].name), command->files[i],
                   "Short for --format " + std::string(table[i].name) +
                       " --out FILE; several at once are fine");
  }
  app.add_option("--names", command->names, "Names of the classes, a line each");
  app.add_option("--features", command->features, "Names of the inputs, a line each");
  app.add_option("--input-shape", command->shape,
                 "How inputs are drawn, such as 1,28,28, where the model takes them flat");
  app.add_option("--most-findings", command->most, "Findings looked at, the others are counted")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  add_gate_flags(app, command->gate);
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
