// grapeshot/cli/main.cpp: the program: parses, runs a command, turns errors into exit statuses.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/cli/process.h"
#include "grapeshot/io/file.h"

namespace {

using grapeshot::Error;
using grapeshot::ErrorCode;
namespace cli = grapeshot::cli;

int report(const Error& error, bool verbose) {
  std::cerr << "grapeshot: " << cli::one_line(error.what()) << "\n";
  if (verbose) {
    const auto& at = error.thrown_at();
    std::cerr << "  thrown at " << at.file_name() << ":" << at.line() << "\n";
  }
  const bool ours = error.code() == ErrorCode::kInternal;
  const bool system = error.code() == ErrorCode::kSystem;
  return ours || system ? cli::kFailed : cli::kBadInput;
}

// One line for a command line that does not parse.
std::string usage_message(const CLI::App* app, const CLI::Error& error) {
  const auto parsed = app->get_subcommands();
  const std::string command = parsed.empty() ? std::string() : parsed[0]->get_name() + " ";
  return "grapeshot: " + cli::usage_sentence(error) + "; see `grapeshot " + command + "--help`\n";
}

int run(int argc, char** argv) {
  CLI::App app("Grapeshot finds inputs that break neural networks.", "grapeshot");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  app.failure_message(usage_message);
  // As the VNN-LIB 2.0 standard asks of tools.
  app.set_version_flag("--version", cli::version(), "Print the version");
  app.add_flag_callback(
      "--name", [] { throw CLI::CallForVersion("Grapeshot", 0); }, "Print the tool's name");
  bool verbose = false;
  app.add_flag("--verbose", verbose, "Say where in grapeshot an error was thrown");
  app.add_option_function<uint64_t>("--max-file-mib", grapeshot::set_max_file_mib,
                                    "The most MiB of a file, unpacked if it is gzip; for every "
                                    "file that a command reads")
      ->default_str(std::to_string(grapeshot::max_file_mib()))
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30));
  std::vector<std::pair<CLI::App*, cli::Action>> actions;
  for (const cli::Command& command : cli::commands()) {
    CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    sub->fallthrough();
    sub->footer("Examples:\n" + std::string(command.examples));
    actions.emplace_back(sub, command.declare(*sub));
  }
  try {
    if (argc > 1 && argv[1][0] != '-') {
      (void)grapeshot::find_row(cli::commands(), argv[1], "command");
    }
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? cli::kNothingFound : cli::kBadInput;
  } catch (const Error& e) {
    return report(e, verbose);
  }
  try {
    for (const auto& [sub, action] : actions) {
      if (sub->parsed()) return action();
    }
  } catch (const Error& e) {
    return report(e, verbose);
  } catch (const c10::Error& e) {
    std::cerr << "grapeshot: LibTorch refused: " << e.what_without_backtrace() << "\n";
    return cli::kFailed;
  } catch (const std::bad_alloc&) {
    std::cerr << "grapeshot: out of memory\n";
    return cli::kFailed;
  } catch (const std::exception& e) {
    std::cerr << "grapeshot: " << e.what() << "\n";
    return cli::kFailed;
  }
  return cli::kFailed;
}

// Taking LibTorch's tables apart at the end takes a tenth of a second that everybody waits for.
[[noreturn]] void leave(int status) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
#if defined(__SANITIZE_ADDRESS__)
  std::exit(status);  // which looks for leaks
#else
  std::_Exit(status);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  cli::keep_freed_memory();
  FLAGS_caffe2_log_level = 2;  // what torch notes on the way is for its own developers
  leave(run(argc, argv));
}
