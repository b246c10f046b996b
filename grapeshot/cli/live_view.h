// grapeshot/cli/live_view.h: what a command shows of a run while it goes on, on stderr.
//
// A screen where the terminal can show one, else a line that changes, else a line now and then. The
// screen is drawn by a thread of its own: a terminal that does not take what is written (Ctrl-S)
// stops nobody who works.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/base/deadline.h"
#include "grapeshot/cli/options.h"
#include "grapeshot/cli/session.h"
#include "grapeshot/cli/standing.h"

namespace grapeshot::cli {

class LiveView {
 public:
  /// `run` is what run.json says. `session`, which outlives this, hears of everything in place of
  /// the terminal where a program called.
  LiveView(const nlohmann::ordered_json& run, const CommonOptions& common, const Session& session);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  /// Whether the last line is so old that another one would be seen.
  [[nodiscard]] bool due() const;
  /// A line as for stats.jsonl.
  void show(const nlohmann::ordered_json& line);
  /// Something that the user should know: at once, and again after a screen.
  void note(const std::string& text);
  /// Gives the terminal back. Nothing is shown any more.
  void close();

 private:
  enum class Kind { kNothing, kLines, kLine, kScreen };

  void run_screen();
  void print_line();

  const Session& session_;
  Kind kind_;
  Clock::time_point shown_ = {};
  double next_line_ = 0.;
  bool drew_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Standing standing_;
  std::vector<std::string> notes_;
  bool fresh_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace grapeshot::cli
