// grapeshot/cli/session.h: whom a command works for: a terminal, or a program that called it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "grapeshot/core/ledger.h"
#include "grapeshot/core/model.h"

namespace grapeshot::cli {

/// Models that are loaded already, by the absolute path of the file that stands for them.
using GivenModels = std::map<std::string, std::shared_ptr<const Model>>;

struct Session {
  /// Something that the user should know. Called from any thread, one call at a time.
  std::function<void(const std::string& text)> note;
  /// The flag that ends the work in order. Called once everything is read and checked: until then
  /// an interrupt has nothing to save.
  std::function<const std::atomic<bool>&()> stop;
  /// Seconds since the command was started.
  std::function<double()> age_s;
  GivenModels models = {};

  // What a calling program hears in place of progress on stderr; none for a terminal.

  /// A line of stats.jsonl, a few times a second, from the thread that called the command.
  std::function<void(const nlohmann::ordered_json& line)> progress = nullptr;
  /// A finding that is on disk as findings/<id>. Called from any thread, one call at a time.
  std::function<void(const std::string& id, const Finding& finding)> found = nullptr;
};

/// Notes to stderr, Ctrl-C and SIGTERM, the age of the process.
[[nodiscard]] Session terminal_session();

}  // namespace grapeshot::cli
