// grapeshot/cli/calls.h: commands that a program can call (the Python package), a table.
//
// A call takes the command's own arguments and gives what --json prints.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "grapeshot/cli/session.h"

namespace CLI {
class App;
}

namespace grapeshot::cli {

/// Runs the command after parsing.
using Call = std::function<nlohmann::ordered_json(const Session& session)>;

struct CallRow {
  std::string_view name;  ///< of a row of commands()
  /// Declares the command's arguments on `app`, which outlives the call.
  Call (*declare)(CLI::App& app);
};

[[nodiscard]] std::span<const CallRow> calls();

// Each in the file of its command.
Call declare_fuzz_call(CLI::App& app);
Call declare_falsify_call(CLI::App& app);
Call declare_diff_call(CLI::App& app);
Call declare_coverage_call(CLI::App& app);
Call declare_replay_call(CLI::App& app);

}  // namespace grapeshot::cli
