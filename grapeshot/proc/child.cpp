#include "grapeshot/proc/child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grapeshot/base/error.h"

extern char** environ;

namespace grapeshot {
namespace {

constexpr int kTick_ms = 20;

// Two ends, closed when they go; not inherited by children.
struct Pipe {
  std::array<int, 2> ends = {-1, -1};

  Pipe() {
    GRAPESHOT_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, kSystem,
                    "no pipe for a child process: ", std::strerror(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_end(size_t i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
};

// Reads what is there; closes the end at the end of the file.
void drain(Pipe& pipe, std::string& to) {
  std::array<char, 65536> buffer;
  const ssize_t n = read(pipe.ends[0], buffer.data(), buffer.size());
  if (n > 0) {
    to.append(buffer.data(), std::min(static_cast<size_t>(n), kMostOutput - to.size()));
  } else if (n == 0 || errno != EINTR) {
    pipe.close_end(0);
  }
}

pid_t start(const std::vector<std::string>& command, const Pipe& out, const Pipe& err) {
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int failure =
      posix_spawn(&pid, command[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  GRAPESHOT_CHECK(failure == 0, kSystem, command[0],
                  ": cannot be started: ", std::strerror(failure));
  return pid;
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& command, double limit_s,
                      const std::atomic<bool>* stop) {
  GRAPESHOT_CHECK(!command.empty(), kInvalidArgument, "a child needs a program");
  Pipe out, err;
  ChildResult result;
  const Clock::time_point begin = Clock::now();
  const Deadline deadline(limit_s, stop);
  const pid_t pid = start(command, out, err);
  out.close_end(1);
  err.close_end(1);
  bool killed = false, gone = false;
  int status = 0;
  // The child may close its outputs before it ends, and leave them to others when it does.
  while (!gone) {
    std::array<pollfd, 2> wait = {pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
    (void)poll(wait.data(), wait.size(), kTick_ms);
    if (wait[0].fd >= 0 && wait[0].revents != 0) drain(out, result.out);
    if (wait[1].fd >= 0 && wait[1].revents != 0) drain(err, result.err);
    if (!killed && deadline.expired()) {
      result.timed_out = !deadline.stopped();
      killed = true;
      kill(-pid, SIGKILL);
    }
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    // Where SIGCHLD is ignored the system keeps no status for us.
    gone = ended == pid || (ended < 0 && errno == ECHILD);
  }
  result.seconds = seconds_since(begin);
  // What is still in the pipes; others that hold them open are not waited for.
  for (const auto& [pipe, text] : {std::pair{&out, &result.out}, std::pair{&err, &result.err}}) {
    pollfd rest = {pipe->ends[0], POLLIN, 0};
    while (pipe->ends[0] >= 0 && poll(&rest, 1, 0) > 0) drain(*pipe, *text);
  }
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string own_program() {
  std::array<char, 4096> path;
  const ssize_t n = readlink("/proc/self/exe", path.data(), path.size());
  GRAPESHOT_CHECK(n > 0, kSystem, "the path of this program is not known: ", std::strerror(errno));
  return {path.data(), static_cast<size_t>(n)};
}

}  // namespace grapeshot
