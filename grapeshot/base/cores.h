// grapeshot/base/cores.h: how many threads can run at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

namespace grapeshot {

/// Processors that this process may use, at least 1.
[[nodiscard]] inline int64_t core_count() {
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace grapeshot
