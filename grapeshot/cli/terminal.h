// grapeshot/cli/terminal.h: a screen on a terminal, given back as it was however the process ends.
//
// The screen is the terminal's alternate one (xterm's ?1049), so that what was there before is
// there afterwards. Nothing else of the terminal is changed. Only kill -9 leaves it behind.
#pragma once

#include <string>
#include <vector>

#include "grapeshot/cli/canvas.h"

namespace grapeshot::cli {

/// Whether `file` is a terminal whose cursor moves: TERM is neither unset nor "dumb".
[[nodiscard]] bool can_draw(int file);
/// Colours unless NO_COLOR (https://no-color.org) is there, UTF-8 where the locale has it.
[[nodiscard]] Look look_of_environment();
/// As the terminal has it now; 80x24 when it does not say.
[[nodiscard]] ScreenSize size_of(int file);

/// One at a time; a thread at a time.
class Terminal {
 public:
  /// Signals that end or stop the process (a crash, Ctrl-\, Ctrl-Z) leave the screen first.
  explicit Terminal(int file);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Shows the lines from the top; nothing while the process is in the background.
  void paint(const std::vector<std::string>& lines);

 private:
  int file_;
};

/// A signal handler: gives the terminal back if a Terminal has it, and lets the signal do what it
/// does by default.
void end_by_signal(int signal);

}  // namespace grapeshot::cli
