// grapeshot/cli/options.h: options of core/options.h as command-line flags, and those of every
// command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/core/options.h"

namespace grapeshot::cli {

struct CommonOptions {
  bool json = false;                ///< one JSON object on stdout
  bool quiet = false;               ///< no progress on stderr
  std::optional<bool> screen = {};  ///< of progress; empty: where the terminal can show one
};

void add_common_options(CLI::App& app, CommonOptions& common);
/// For commands whose progress has a screen.
void add_screen_option(CLI::App& app, CommonOptions& common);

/// Declares an option that a describe() visits: `member` with its default in the help page,
/// refusing negative numbers where it is unsigned.
template <class Member>
void add_described(CLI::App& app, std::string_view name, Member& member, std::string_view help) {
  const std::string flag = "--" + std::string(name);
  if constexpr (std::is_same_v<Member, bool>) {
    app.add_flag(flag, member, std::string(help));
  } else {
    CLI::Option* option = app.add_option(flag, member, std::string(help))->capture_default_str();
    // Without this a negative number would wrap around.
    if constexpr (std::is_unsigned_v<Member>) {
      option->check([](const std::string& text) {
        return text.starts_with('-') ? "must be at least 0" : std::string();
      });
    }
  }
}

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
