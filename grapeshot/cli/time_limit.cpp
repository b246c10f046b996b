#include "grapeshot/cli/time_limit.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/machine.h"

namespace grapeshot::cli {

TimeLimit::TimeLimit(double age_s, std::function<int()> answer)
    : age_s_(age_s), thread_([this, answer = std::move(answer)] { wait(answer); }) {}

TimeLimit::~TimeLimit() {
  claim();
  thread_.join();
}

void TimeLimit::move_to(double age_s) {
  const std::lock_guard lock(mutex_);
  age_s_ = age_s;
  changed_.notify_one();
}

void TimeLimit::claim() {
  const std::lock_guard lock(mutex_);
  claimed_ = true;
  changed_.notify_one();
}

void TimeLimit::wait(const std::function<int()>& answer) {
  constexpr double kLongest_s = 3600.;  // a clock takes no infinity
  std::unique_lock lock(mutex_);
  while (!claimed_) {
    const double left = age_s_ - process_age_s();
    if (left <= 0.) {  // holding the lock: who claims now waits for the end
      int status = kFailed;
      try {
        status = answer();
      } catch (const std::exception& error) {
        std::cerr << "grapeshot: " << error.what() << "\n";
      }
      std::cout.flush();
      std::cerr.flush();
      std::fflush(nullptr);
      std::_Exit(status);
    }
    changed_.wait_for(lock, std::chrono::duration<double>(std::min(left, kLongest_s)));
  }
}

}  // namespace grapeshot::cli
