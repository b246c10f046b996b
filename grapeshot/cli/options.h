// grapeshot/cli/options.h: options of core/options.h as command-line flags, and those of every
// command.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/core/options.h"

namespace grapeshot::cli {

struct CommonOptions {
  bool json = false;   ///< one JSON object on stdout
  bool quiet = false;  ///< no progress on stderr
};

void add_common_options(CLI::App& app, CommonOptions& common);

/// The loop's options on a command: flags, --mode and --config.
class LoopFlags {
 public:
  explicit LoopFlags(CLI::App& app);

  /// Defaults, then --config, then --mode, then the flags: the later wins. Threads are resolved to
  /// a number. Throws Error for a bad file or an option out of range.
  [[nodiscard]] LoopOptions resolve() const;
  [[nodiscard]] const std::string& mode() const { return mode_; }

 private:
  CLI::App& app_;
  LoopOptions shown_;  ///< what the help page shows as defaults; parsing writes here
  std::string mode_, config_;
};

/// Options from an object of them, as to_json() made it; `path` is for messages. Throws Error for
/// what does not fit.
[[nodiscard]] LoopOptions options_from_json(const nlohmann::json& object, const std::string& path);

/// Every option by its flag's name.
[[nodiscard]] nlohmann::ordered_json to_json(const LoopOptions& options);

}  // namespace grapeshot::cli
