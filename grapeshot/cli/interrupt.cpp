#include "grapeshot/cli/interrupt.h"

#include <csignal>

#include "grapeshot/cli/terminal.h"

namespace grapeshot::cli {
namespace {

std::atomic<bool> stop{false};  // a signal handler can reach nothing but a global

void handle(int signal) {
  stop = true;
  std::signal(signal, end_by_signal);
}

}  // namespace

const std::atomic<bool>& stop_on_interrupt() {
  std::signal(SIGINT, handle);
  std::signal(SIGTERM, handle);
  return stop;
}

}  // namespace grapeshot::cli
