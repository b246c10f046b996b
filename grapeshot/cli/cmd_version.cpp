// grapeshot/cli/cmd_version.cpp: `grapeshot version`.
#include <iomanip>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/machine.h"

namespace grapeshot::cli {

Action declare_version(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "One JSON object on stdout");
  return [json] {
    const nlohmann::ordered_json machine = describe_machine();
    if (*json) {
      std::cout << machine.dump(2) << "\n";
      return kNothingFound;
    }
    for (const auto& [key, value] : machine.items()) {
      std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (value.is_array()) {
        text.clear();
        for (const auto& each : value) text += (text.empty() ? "" : " ") + each.get<std::string>();
      }
      std::cout << std::left << std::setw(15) << key << text << "\n";
    }
    return kNothingFound;
  };
}

}  // namespace grapeshot::cli
