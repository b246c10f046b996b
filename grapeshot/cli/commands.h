// grapeshot/cli/commands.h: the table of commands.
//
// A command is one file cmd_<name>.cpp and one row of the table in commands.cpp.
#pragma once

#include <functional>
#include <span>
#include <string_view>

namespace CLI {
class App;
}

namespace grapeshot::cli {

/// Exit statuses that scripts may rely on.
enum ExitStatus : int {
  kNothingFound = 0,  ///< or: it holds
  kFound = 1,         ///< or: it does not hold
  kBadInput = 2,      ///< usage, a file or an option is wrong
  kFailed = 3,        ///< the system, or a bug in grapeshot
};

/// Runs the command after parsing; returns the exit status.
using Action = std::function<int()>;

struct Command {
  std::string_view name, summary;
  std::string_view examples;  ///< lines for the end of its help page
  /// Declares the command's arguments on `app` and returns what to do once they are parsed.
  Action (*declare)(CLI::App& app);
};

[[nodiscard]] std::span<const Command> commands();

// One per file.
Action declare_falsify(CLI::App& app);
Action declare_fuzz(CLI::App& app);
Action declare_replay(CLI::App& app);
Action declare_resume(CLI::App& app);
Action declare_report(CLI::App& app);
Action declare_status(CLI::App& app);
Action declare_check(CLI::App& app);
Action declare_run(CLI::App& app);
Action declare_coverage(CLI::App& app);
Action declare_diff(CLI::App& app);
Action declare_profile(CLI::App& app);
Action declare_doctor(CLI::App& app);
Action declare_list(CLI::App& app);
Action declare_minimize(CLI::App& app);
Action declare_vnncomp(CLI::App& app);
Action declare_bench(CLI::App& app);
Action declare_verify(CLI::App& app);
Action declare_supports(CLI::App& app);
Action declare_version(CLI::App& app);

}  // namespace grapeshot::cli
