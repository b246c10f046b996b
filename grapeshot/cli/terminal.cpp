#include "grapeshot/cli/terminal.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace grapeshot::cli {
namespace {

// The alternate screen, no cursor, no lines that go on below; and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

// A signal handler can reach nothing but a global: the file whose screen is taken, or -1.
std::atomic<int> taken{-1};
static_assert(std::atomic<int>::is_always_lock_free);

constexpr std::array kEnding = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGHUP};
std::array<struct sigaction, kEnding.size() + 1> before;

// What cannot be written is not shown; there is nobody to tell.
void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void leave_screen() {
  const int file = taken.exchange(-1);
  if (file >= 0) write_all(file, kLeave);
}

// The next paint() takes the screen again, when the process is in the foreground.
void stop_with(int /*signal*/) {
  leave_screen();
  ::kill(::getpid(), SIGSTOP);
}

void install(int signal, void (*handler)(int), struct sigaction& old) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, nullptr, &old);
  if (old.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // as nohup has it
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool can_draw(int file) {
  const std::string_view term = variable("TERM");
  return isatty(file) == 1 && !term.empty() && term != "dumb";
}

Look look_of_environment() {
  std::string_view locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set decides
    if (locale.empty()) locale = variable(name);
  }
  const bool utf8 = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  return {variable("NO_COLOR").empty(), utf8};
}

ScreenSize size_of(int file) {
  winsize size = {};
  if (ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

Terminal::Terminal(int file) : file_(file) {
  for (size_t i = 0; i < kEnding.size(); ++i) install(kEnding[i], end_by_signal, before[i]);
  install(SIGTSTP, stop_with, before.back());
}

Terminal::~Terminal() {
  leave_screen();
  for (size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &before[i], nullptr);
  sigaction(SIGTSTP, &before.back(), nullptr);
}

void Terminal::paint(const std::vector<std::string>& lines) {
  const pid_t front = tcgetpgrp(file_);
  if (front > 0 && front != getpgrp()) return;
  std::string all;
  if (taken.exchange(file_) < 0) all += kEnter;
  // What is below the lines goes first, and of each line before it is written: after the last
  // column the cursor still stands on it.
  all += "\x1b[" + std::to_string(lines.size() + 1) + ";1H\x1b[J\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) all += (i > 0 ? "\r\n\x1b[K" : "\x1b[K") + lines[i];
  all += "\x1b[H";
  write_all(file_, all);
}

void end_by_signal(int signal) {
  leave_screen();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace grapeshot::cli
