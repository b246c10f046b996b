// grapeshot/base/deadline.h: when work has to stop: a wall-clock limit and somebody's wish.
#pragma once

#include <atomic>
#include <chrono>
#include <limits>

namespace grapeshot {

using Clock = std::chrono::steady_clock;

/// Seconds from `start` to now.
[[nodiscard]] inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Passed by value. `stop`, when given, outlives it and may be set by a signal handler.
class Deadline {
 public:
  /// Never, unless `stop` becomes true.
  explicit Deadline(const std::atomic<bool>* stop = nullptr) : stop_(stop) {}

  /// `limit_s` seconds from now; infinity never ends.
  Deadline(double limit_s, const std::atomic<bool>* stop) : stop_(stop) {
    if (limit_s < kForever) {
      end_ = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
    }
  }

  [[nodiscard]] bool expired() const { return stopped() || Clock::now() >= end_; }
  [[nodiscard]] bool stopped() const { return stop_ && stop_->load(std::memory_order_relaxed); }

 private:
  static constexpr double kForever = 1e9;  // longer would overflow the clock's count
  Clock::time_point end_ = Clock::time_point::max();
  const std::atomic<bool>* stop_;
};

}  // namespace grapeshot
