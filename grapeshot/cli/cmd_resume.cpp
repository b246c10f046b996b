// grapeshot/cli/cmd_resume.cpp: `grapeshot resume`.
#include <filesystem>
#include <memory>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/fuzz_campaign.h"
#include "grapeshot/cli/json_file.h"

namespace grapeshot::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct ResumeCommand {
  std::string path;
  double seconds = -1.;
  int64_t candidates = -1;
  CommonOptions common;

  int run() const {
    const Session session = terminal_session();
    RunFolder folder = RunFolder::reopen(path);
    const std::string file = (std::filesystem::path(folder.path()) / "run.json").string();
    const json run = read_json(file);
    GRAPESHOT_CHECK(json_field<std::string>(run, "command", file) == "fuzz", kInvalidArgument, file,
                    ": not of `grapeshot fuzz`");
    LoopOptions options = options_from_json(json_field<json>(run, "options", file), file);
    if (seconds >= 0.) options.seconds = seconds;
    if (candidates >= 0) options.candidates = candidates;
    const Problem problem = load_problem(problem_files(json_field<json>(run, "files", file), file));
    ordered_json same = ordered_json::parse(run.dump());
    same.update(describe_files(problem));
    check_unchanged(run, same, file);
    const std::optional<State> state = folder.read_checkpoint();
    if (!state) {
      session.note(path + ": no checkpoint yet, beginning again");
    }
    same["resumed"] = run.value("resumed", 0) + 1;
    const ordered_json summary = run_fuzz(problem, options, folder, std::move(same), common,
                                          state ? &*state : nullptr, session);
    return print_fuzz(summary, common);
  }

  // The files are still the ones that the run is about.
  static void check_unchanged(const json& run, const ordered_json& now, const std::string& file) {
    for (const char* key : {"models", "instances"}) {
      const json before = json_field<json>(run, key, file);
      GRAPESHOT_CHECK(before.size() == now[key].size(), kInvalidArgument, file, ": its ", key,
                      " are others now");
      for (size_t i = 0; i < before.size(); ++i) {
        GRAPESHOT_CHECK(before[i].value("sha256", "") == now[key][i].value("sha256", std::string()),
                        kInvalidArgument, now[key][i].value("path", std::string()),
                        ": changed since the run began (its SHA-256 differs)");
        const json files = now[key][i].contains("files") ? json(now[key][i]["files"]) : json();
        GRAPESHOT_CHECK(before[i].value("files", json()) == files, kInvalidArgument,
                        now[key][i].value("path", std::string()),
                        ": a file that it names changed since the run began (its SHA-256 differs)");
      }
    }
  }
};

}  // namespace

Action declare_resume(CLI::App& app) {
  auto command = std::make_shared<ResumeCommand>();
  app.add_option("RUN", command->path, "A run folder of `grapeshot fuzz`")->required();
  app.add_option("--seconds", command->seconds,
                 "Another limit for the whole run, with what it has had (0: none)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--candidates", command->candidates, "The same in candidates")
      ->check(CLI::NonNegativeNumber);
  add_common_options(app, command->common);
  add_screen_option(app, command->common);
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
