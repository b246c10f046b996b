// grapeshot/io/file_lock.h: one process at a time.
#pragma once

#include <string>
#include <utility>

namespace grapeshot {

/// A lock on a file, made when it is not there, that the system gives back when the process ends,
/// however it does.
class FileLock {
 public:
  FileLock() = default;
  /// Tries once; throws Error{kSystem} when the file cannot be opened.
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Whether somebody has the lock; no when there is no such file. Looking takes it for a moment,
  /// so that whoever wants it should try again.
  [[nodiscard]] static bool is_taken(const std::string& path);

  /// Whether nobody else had it.
  [[nodiscard]] bool held() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

}  // namespace grapeshot
