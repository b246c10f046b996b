// grapeshot/io/stream.h: bytes in their order, no more of them than are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace grapeshot {

/// Bytes from their first on. One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// The next `most` bytes, fewer where they end. Takes memory for what is there alone.
  [[nodiscard]] virtual std::string read(uint64_t most) = 0;
  /// Passes over bytes, fewer where they end.
  virtual void skip(uint64_t bytes);
  /// How many there are from the first on, where that is known before they are read.
  [[nodiscard]] virtual std::optional<uint64_t> size() const { return std::nullopt; }
};

/// Bytes that lie in memory, which stays the caller's.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes), rest_(bytes) {}
  [[nodiscard]] std::string read(uint64_t most) override;
  [[nodiscard]] std::optional<uint64_t> size() const override { return bytes_.size(); }

 private:
  std::string_view bytes_, rest_;
};

/// A file, unzipped when it is gzip (by magic, not by name). Opened once, so that it may be a pipe.
class FileSource final : public ByteSource {
 public:
  /// Opens resolve_file(path). Throws kNotFound, kInvalidArgument (a folder) or kSystem, each
  /// naming the file.
  explicit FileSource(const std::string& path);

  /// Throws kParse for damaged gzip, and where all that was read is more than max_file_mib().
  [[nodiscard]] std::string read(uint64_t most) override;
  void skip(uint64_t bytes) override;
  /// Of a regular file that is no gzip.
  [[nodiscard]] std::optional<uint64_t> size() const override { return size_; }

  /// The first bytes, `most` or fewer where they end; they are read again afterwards. Only before
  /// anything was read.
  [[nodiscard]] std::string_view head(size_t most);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(void* file) const;
  };

  void append(std::string& out, uint64_t most);

  std::string path_;
  std::unique_ptr<void, Close> file_;  ///< zlib's gzFile
  std::optional<uint64_t> size_;
  std::string ahead_;  ///< read, and not given away yet
  uint64_t given_ = 0;
};

}  // namespace grapeshot
