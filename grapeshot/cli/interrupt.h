// grapeshot/cli/interrupt.h: Ctrl-C and SIGTERM as a flag.
#pragma once

#include <atomic>

namespace grapeshot::cli {

/// Installs the handlers once and returns the flag they set. A second signal ends the process at
/// once.
[[nodiscard]] const std::atomic<bool>& stop_on_interrupt();

}  // namespace grapeshot::cli
