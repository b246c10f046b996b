#include "grapeshot/cli/session.h"

#include <iostream>

#include "grapeshot/cli/interrupt.h"
#include "grapeshot/cli/machine.h"

namespace grapeshot::cli {

Session terminal_session() {
  return {[](const std::string& text) { std::cerr << "grapeshot: note: " << text << "\n"; },
          stop_on_interrupt, process_age_s};
}

}  // namespace grapeshot::cli
