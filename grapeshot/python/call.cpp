#include "grapeshot/python/call.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/deadline.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/cli/calls.h"
#include "grapeshot/cli/process.h"

namespace grapeshot::python {

namespace py = pybind11;

namespace {

using nlohmann::ordered_json;

constexpr auto kTick = std::chrono::milliseconds(50);

// What the process had before: the engine sets both for itself.
class Settings {
 public:
  Settings() : threads_(at::get_num_threads()) { cli::keep_freed_memory(); }
  ~Settings() {
    at::set_num_threads(threads_);
    cli::give_freed_memory_back();
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

 private:
  int threads_;
};

// The command's thread, and what it says.
class Running {
 public:
  Running(cli::Call action, cli::GivenModels models) {
    session_.models = std::move(models);
    session_.note = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      out_.notes.push_back(cli::one_line(text));
    };
    session_.stop = [this]() -> const std::atomic<bool>& {
      stoppable_ = true;
      return stop_;
    };
    session_.age_s = [this] { return seconds_since(began_); };
    session_.progress = [this](const ordered_json& line) {
      const std::lock_guard lock(mutex_);
      line_ = line.dump();
    };
    session_.found = [this](const std::string& id, const Finding& finding) {
      const std::lock_guard lock(mutex_);
      out_.findings.emplace_back(id, finding);
    };
    thread_ = std::thread([this, action = std::move(action)] { run(action); });
  }
  ~Running() {
    stop_ = true;
    thread_.join();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void stop() { stop_ = true; }
  // Whether the command has taken the flag: others run to their end.
  [[nodiscard]] bool stoppable() const { return stoppable_; }

  // Waits for a tick, or less at the end; whether it has ended.
  bool wait() {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, kTick, [this] { return done_; });
  }

  // The last line that was not taken yet.
  std::optional<std::string> take_line() {
    const std::lock_guard lock(mutex_);
    return std::exchange(line_, std::nullopt);
  }

  // After its end.
  Called result() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(out_);
  }

 private:
  void run(const cli::Call& action) {
    std::string json;
    std::exception_ptr failure;
    try {
      json = action(session_).dump();
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    out_.json = std::move(json);
    failure_ = failure;
    done_ = true;
    ended_.notify_all();
  }

  const Clock::time_point began_ = Clock::now();
  std::atomic<bool> stop_ = false, stoppable_ = false;
  cli::Session session_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  std::optional<std::string> line_;
  Called out_;
  std::exception_ptr failure_;
  bool done_ = false;
  std::thread thread_;
};

// Runs what waits in Python for a signal; whether that was Ctrl-C and nobody else's handler.
bool interrupted() {
  if (PyErr_CheckSignals() == 0) return false;
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) == 0) throw py::error_already_set();
  PyErr_Clear();
  return true;
}

}  // namespace

Called call(const std::string& command, std::vector<std::string> arguments, cli::GivenModels models,
            const py::object& progress) {
  CLI::App app("", command);
  cli::Call action = find_row(cli::calls(), command, "call").declare(app);
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::kInvalidArgument, cli::usage_sentence(error));
  }
  const Settings settings;
  Running running(std::move(action), std::move(models));
  bool ended = false, heard = false;
  try {
    while (!ended) {
      {
        const py::gil_scoped_release unlocked;
        ended = running.wait();
      }
      // A second one waits in the interpreter, which raises it after this call.
      if (!heard && interrupted()) {
        heard = true;
        running.stop();
      }
      const std::optional<std::string> line = running.take_line();
      if (line && !progress.is_none()) progress(*line);
    }
  } catch (...) {
    const py::gil_scoped_release unlocked;  // a lane may wait for it
    running.stop();
    while (!running.wait()) {
    }
    throw;
  }
  Called out = running.result();
  if (heard && !running.stoppable()) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  return out;
}

}  // namespace grapeshot::python
