#include "grapeshot/cli/options.h"

#include <algorithm>
#include <type_traits>

#include <unistd.h>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/error.h"
#include "grapeshot/cli/json_file.h"

namespace grapeshot::cli {
namespace {

using nlohmann::json;

// What a config file says, as an object of options.
json read_config(const std::string& path) {
  json config = read_json(path);
  if (config.is_object() && config.contains("options")) config = config["options"];  // a run.json
  GRAPESHOT_CHECK(config.is_object(), kParse, path, ": not a JSON object of options");
  return config;
}

// Whether `value` can be a T without loss; "batch" is text that is mostly a number.
template <class T>
bool fits(const json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_same_v<T, std::string>) return value.is_string() || value.is_number();
  if constexpr (std::is_floating_point_v<T>) return value.is_number();
  if constexpr (std::is_unsigned_v<T>) return value.is_number_unsigned();
  return value.is_number_integer();
}

template <class T>
void assign(T& member, const json& value, const std::string& where) {
  GRAPESHOT_CHECK(fits<T>(value), kInvalidArgument, where, ": ", value.dump(), " does not fit");
  if constexpr (std::is_same_v<T, std::string>) {
    member = value.is_string() ? value.get<std::string>() : value.dump();
  } else {
    member = value.get<T>();
  }
}

void apply_config(LoopOptions& options, const json& config, const std::string& path) {
  for (const auto& [key, value] : config.items()) {
    bool known = key == "mode";
    describe(options, [&](std::string_view name, auto& member, std::string_view) {
      if (name != key) return;
      known = true;
      assign(member, value, str(path, ": ", key));
    });
    GRAPESHOT_CHECK(known, kInvalidArgument, path, ": no option is called '", key, "'");
  }
}

}  // namespace

void add_common_options(CLI::App& app, CommonOptions& common) {
  app.add_flag("--json", common.json, "One JSON object on stdout");
  app.add_flag("--quiet", common.quiet, "No progress on stderr");
}

void add_screen_option(CLI::App& app, CommonOptions& common) {
  app.add_flag_function(
      "--screen,!--no-screen",
      [&common](int64_t given) {
        if (given > 0 && isatty(STDERR_FILENO) == 0) {
          throw CLI::ValidationError("--screen", "needs a terminal on stderr");
        }
        common.screen = given > 0;
      },
      "Progress as a screen, or else as lines (default: a screen where stderr is a terminal that "
      "can show one)");
}

LoopFlags::LoopFlags(CLI::App& app) : app_(app) {
  app.add_option("--mode", mode_,
                 "Preset of the paper's configurations: seq-fixed, batch-iso or batch-ani; flags "
                 "override it");
  app.add_option("--config", config_, "Options from a JSON file, such as an earlier run.json");
  describe(shown_, [&](std::string_view name, auto& member, std::string_view help) {
    add_described(app, name, member, help);
  });
}

LoopOptions LoopFlags::resolve() const {
  LoopOptions options;
  bool timed_by_config = false;
  if (!config_.empty()) {
    const json config = read_config(config_);
    timed_by_config = config.contains("seconds");
    // A mode in the file comes before the file's own options, one on the command line after them.
    std::string file_mode;
    if (config.contains("mode")) assign(file_mode, config["mode"], config_ + ": mode");
    if (!file_mode.empty()) apply_mode(options, file_mode);
    apply_config(options, config, config_);
  }
  if (!mode_.empty()) apply_mode(options, mode_);
  describe(options, [&](std::string_view name, auto& member, std::string_view) {
    const CLI::Option* option = app_.get_option("--" + std::string(name));
    if (option->count() > 0) option->results(member);
  });
  // A budget of candidates alone is not cut short by the default number of seconds.
  const bool timed = timed_by_config || app_.get_option("--seconds")->count() > 0;
  if (options.candidates > 0 && !timed) options.seconds = 0.;
  check_options(options);
  if (options.threads == 0) options.threads = core_count();
  return options;
}

LoopOptions options_from_json(const json& object, const std::string& path) {
  LoopOptions options;
  apply_config(options, object, path);
  check_options(options);
  return options;
}

nlohmann::ordered_json to_json(const LoopOptions& options) {
  nlohmann::ordered_json out;
  describe(options, [&](std::string_view name, const auto& member, std::string_view) {
    out[std::string(name)] = member;
  });
  return out;
}

}  // namespace grapeshot::cli
