#include "grapeshot/cli/live_view.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>

#include <unistd.h>

#include "grapeshot/base/text.h"
#include "grapeshot/cli/screen.h"
#include "grapeshot/cli/terminal.h"
#include "grapeshot/io/properties/field.h"

namespace grapeshot::cli {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// A run that is over before needs no screen.
constexpr milliseconds kPatience(500);
// Between two looks at the terminal's size.
constexpr milliseconds kTick(100);
// Between two lines that are shown.
constexpr double kBetween_s = 0.2;

}  // namespace

LiveView::LiveView(const nlohmann::ordered_json& run, const CommonOptions& common,
                   const Session& session)
    : session_(session) {
  const bool moves = can_draw(STDERR_FILENO);
  kind_ = common.quiet || session.progress ? Kind::kNothing
          : common.screen.value_or(moves)  ? Kind::kScreen
          : moves                          ? Kind::kLine
                                           : Kind::kLines;
  if (kind_ == Kind::kNothing) return;
  const json begun(run);
  standing_.begin(properties::Field(begun, "run.json"));
  standing_.state = RunState::kRunning;
  if (kind_ == Kind::kScreen) thread_ = std::thread([this] { run_screen(); });
}

LiveView::~LiveView() {
  close();
}

bool LiveView::due() const {
  return (kind_ != Kind::kNothing || session_.progress) && seconds_since(shown_) >= kBetween_s;
}

void LiveView::show(const nlohmann::ordered_json& line) {
  shown_ = Clock::now();
  if (session_.progress) session_.progress(line);
  if (kind_ == Kind::kNothing) return;
  const json plain(line);
  const std::lock_guard lock(mutex_);
  standing_.take(properties::Field(plain, "stats"));
  fresh_ = true;
  if (kind_ == Kind::kScreen) {
    changed_.notify_one();
  } else {
    print_line();
  }
}

// The line that changes every time, a log line less and less often.
void LiveView::print_line() {
  const double now = standing_.seconds;
  if (kind_ == Kind::kLine) {
    const auto columns = static_cast<size_t>(size_of(STDERR_FILENO).columns - 1);
    std::fprintf(stderr, "\r%s\x1b[K", plain_line(standing_).substr(0, columns).c_str());
    drew_ = true;
  } else if (now >= std::max(next_line_, 1.)) {
    next_line_ = std::max(2., now * 1.5);
    std::fprintf(stderr, "%s\n", plain_line(standing_).c_str());
  }
  std::fflush(stderr);
}

void LiveView::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (kind_ == Kind::kScreen && !over_) {
    notes_.push_back(text);
    return;
  }
  if (drew_) std::cerr << "\r\x1b[K";
  session_.note(text);
}

void LiveView::close() {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  if (drew_) std::fputc('\n', stderr);
  for (const std::string& text : notes_) session_.note(text);
}

void LiveView::run_screen() {
  const Look look = look_of_environment();
  std::optional<Terminal> terminal;
  ScreenSize drawn = {0, 0};
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kPatience, [this] { return over_; })) return;
  terminal.emplace(STDERR_FILENO);
  while (!over_) {
    const ScreenSize size = size_of(STDERR_FILENO);
    if (fresh_ || size != drawn) {
      fresh_ = false;
      drawn = size;
      const Standing standing = standing_;
      const std::string note = notes_.empty() ? "" : printable(notes_.back(), notes_.back().size());
      lock.unlock();
      terminal->paint(draw(standing, size, look, note));
      lock.lock();
    }
    changed_.wait_for(lock, kTick, [this] { return over_ || fresh_; });
  }
}

}  // namespace grapeshot::cli
