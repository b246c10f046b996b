// grapeshot/python/call.h: a command of the program, called from Python.
//
// The command runs on a thread of its own without the interpreter's lock. The calling thread waits,
// takes the lock a few times a second, hears signals and passes progress on: however busy Python
// is, lanes do not wait for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "grapeshot/cli/session.h"

namespace grapeshot::python {

struct Called {
  std::string json;                                       ///< what --json prints
  std::vector<std::pair<std::string, Finding>> findings;  ///< by id, in the order they were found
  std::vector<std::string> notes;
};

/// Runs `command` with the program's own arguments, MODEL among them being a file that stands for
/// one of `models`, perhaps. `progress` gets lines of stats.jsonl as JSON, or is None; what it
/// raises ends the command and is raised here. The first Ctrl-C ends the command in order; one that
/// comes after it, or that the command does not hear, is raised once it has ended. Needs the
/// interpreter's lock. Throws as the command does, kInvalidArgument for what its arguments refuse.
[[nodiscard]] Called call(const std::string& command, std::vector<std::string> arguments,
                          cli::GivenModels models, const pybind11::object& progress);

}  // namespace grapeshot::python
