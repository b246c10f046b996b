#include "grapeshot/io/file_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "grapeshot/base/error.h"

namespace grapeshot {

FileLock::FileLock(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  GRAPESHOT_CHECK(file_ >= 0, kSystem, path, ": cannot be opened: ", std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const int why = errno;
  close(file_);
  file_ = -1;
  GRAPESHOT_CHECK(why == EWOULDBLOCK, kSystem, path, ": cannot be locked: ", std::strerror(why));
}

bool FileLock::is_taken(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  const bool taken = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(file);
  return taken;
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace grapeshot
