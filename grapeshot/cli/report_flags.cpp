#include "grapeshot/cli/report_flags.h"

#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/recorded_run.h"
#include "grapeshot/io/file.h"
#include "grapeshot/report/formats.h"
#include "grapeshot/report/gate.h"

namespace grapeshot::cli {
namespace {

// A gate looks at no finding's content.
report::Run read_counts(const std::string& path) {
  return read_run(path, {.most_findings = 0});
}

}  // namespace

void GateFlags::check() const {
  if (!any()) {
    GRAPESHOT_CHECK(baseline.empty(), kInvalidArgument, "--baseline goes with --fail-on new");
    return;
  }
  std::optional<report::Run> before;
  if (!baseline.empty()) before = read_counts(baseline);
  (void)report::failure(report::parse_gate(fail_on), {}, before ? &*before : nullptr);
}

bool GateFlags::fails(const report::Run& run) const {
  if (!any()) return false;
  std::optional<report::Run> before;
  if (!baseline.empty()) before = read_counts(baseline);
  const std::optional<std::string> why =
      report::failure(report::parse_gate(fail_on), run, before ? &*before : nullptr);
  if (why) std::cerr << "grapeshot: --fail-on: " << *why << "\n";
  return why.has_value();
}

void add_gate_flags(CLI::App& app, GateFlags& gate) {
  app.add_option("--fail-on", gate.fail_on,
                 "Exit status 1 when one of these conditions holds and 0 otherwise: "
                 "falsified>0, share>=0.1, new, ...; joined by commas, see `grapeshot list gates`");
  app.add_option("--baseline", gate.baseline, "An earlier run folder, for --fail-on new");
}

int finish_run(const std::string& folder, const AfterRun& after, bool say, int found) {
  if (after.page) {
    try {
      const report::Format& html = report::find_format("html");
      const report::Run run = read_run(folder, {.inputs = html.inputs});
      const std::string page = (std::filesystem::path(folder) / "report.html").string();
      write_file(page, html.write(run));
      if (say) std::cout << "report: " << page << "\n";
    } catch (const Error& error) {
      std::cerr << "grapeshot: note: no report.html: " << error.what() << "\n";
    }
  }
  if (!after.gate.any()) return found;
  return after.gate.fails(read_counts(folder)) ? kFound : kNothingFound;
}

}  // namespace grapeshot::cli
