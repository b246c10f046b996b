// grapeshot/cli/cmd_status.cpp: `grapeshot status`: how runs stand, from their folders.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "grapeshot/base/deadline.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/run_reader.h"
#include "grapeshot/cli/screen.h"
#include "grapeshot/cli/terminal.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

class Runs {
 public:
  explicit Runs(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      for (const std::string& folder : run_folders(path)) readers_.emplace_back(folder);
    }
  }

  void read() {
    standings_.clear();
    for (RunReader& each : readers_) standings_.push_back(each.read());
  }

  [[nodiscard]] const std::vector<Standing>& standings() const { return standings_; }
  [[nodiscard]] bool any_running() const { return std::ranges::any_of(standings_, goes_on); }
  [[nodiscard]] bool any_broken() const {
    return std::ranges::any_of(standings_, [](const Standing& s) { return s.broken > 0; });
  }

  [[nodiscard]] std::vector<std::string> lines(ScreenSize size, Look look) const {
    return standings_.size() == 1 ? draw(standings_[0], size, look)
                                  : draw_table(standings_, size, look);
  }

  [[nodiscard]] ordered_json to_json() const {
    if (readers_.size() == 1) return readers_[0].to_json();
    ordered_json out;
    int64_t running = 0, instances = 0, broken = 0, candidates = 0;
    for (const RunReader& each : readers_) out["runs"].push_back(each.to_json());
    for (const Standing& s : standings_) {
      running += goes_on(s) ? 1 : 0;
      instances += s.instances;
      broken += s.broken;
      candidates += s.candidates;
    }
    out["totals"] = {{"runs", readers_.size()},
                     {"running", running},
                     {"instances", instances},
                     {"instances_falsified", broken},
                     {"candidates", candidates}};
    return out;
  }

 private:
  std::vector<RunReader> readers_;
  std::vector<Standing> standings_;
};

struct StatusCommand {
  std::vector<std::string> paths;
  bool watch = false;
  CommonOptions common;

  int run() const {
    Runs runs(paths);
    runs.read();
    const bool terminal = isatty(STDOUT_FILENO) == 1;
    if (watch) terminal&& can_draw(STDOUT_FILENO) ? watch_screen(runs) : watch_lines(runs);
    if (common.json) {
      std::cout << runs.to_json().dump(2) << "\n";
    } else if (!common.quiet) {
      Look look = look_of_environment();
      look.colour = look.colour && terminal && can_draw(STDOUT_FILENO);
      ScreenSize size = size_of(STDOUT_FILENO);
      size.rows = std::max<int64_t>(size.rows, kAllRows);  // paper is long
      for (const std::string& line : runs.lines(size, look)) std::cout << line << "\n";
    }
    return runs.any_broken() ? kFound : kNothingFound;
  }

  // Until every run has ended, or an interrupt.
  static void watch_screen(Runs& runs) {
    const std::atomic<bool>& stop = stop_on_interrupt();
    Terminal terminal(STDOUT_FILENO);
    const Look look = look_of_environment();
    ScreenSize drawn = {0, 0};
    auto read = Clock::now();
    while (!stop && runs.any_running()) {
      const ScreenSize size = size_of(STDOUT_FILENO);
      const bool old = seconds_since(read) >= kBetween_s;
      if (old) {
        runs.read();
        read = Clock::now();
      }
      if (old || size != drawn) terminal.paint(runs.lines(size, look));
      drawn = size;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  static void watch_lines(Runs& runs) {
    const std::atomic<bool>& stop = stop_on_interrupt();
    for (double wait_s = 0.; !stop && runs.any_running();) {
      for (const Standing& s : runs.standings()) {
        if (goes_on(s)) std::cout << s.folder << ": " << plain_line(s) << std::endl;
      }
      wait_s = std::min(std::max(2., wait_s * 1.5), 60.);
      const auto began = Clock::now();
      while (!stop && runs.any_running() && seconds_since(began) < wait_s) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        runs.read();
      }
    }
  }

  static constexpr double kBetween_s = 1.;
  static constexpr int64_t kAllRows = 40;
};

}  // namespace

Action declare_status(CLI::App& app) {
  auto command = std::make_shared<StatusCommand>();
  app.add_option("RUN", command->paths, "Run folders of `fuzz` or `diff`, or folders of such")
      ->required();
  auto* watch = app.add_flag("--watch", command->watch,
                             "Look again every second until no run goes on, or Ctrl-C");
  add_common_options(app, command->common);
  app.get_option("--json")->excludes(watch);
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
