// grapeshot/cli/time_limit.h: an answer in time, whatever the process is busy with.
//
// A search looks at the clock between two passes, but reading a file, preparing a large network and
// ONNX Runtime do not. When the limit is over, a thread of its own answers and ends the process.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace grapeshot::cli {

class TimeLimit {
 public:
  /// When the process is `age_s` seconds old (see process_age_s()), `answer` is called from another
  /// thread and the process ends with the status that it returns; not after claim() or
  /// ~TimeLimit().
  TimeLimit(double age_s, std::function<int()> answer);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  /// The limit is another one from now on.
  void move_to(double age_s);
  /// The caller answers: nothing else will. Does not return when the limit came first.
  void claim();

 private:
  void wait(const std::function<int()>& answer);

  std::mutex mutex_;
  std::condition_variable changed_;
  double age_s_;
  bool claimed_ = false;
  std::thread thread_;
};

}  // namespace grapeshot::cli
