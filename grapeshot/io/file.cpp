#include "grapeshot/io/file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "grapeshot/base/error.h"

namespace grapeshot {
namespace {

std::atomic<uint64_t> process_max_mib{2048};

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

bool exists(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  GRAPESHOT_CHECK(errno == ENOENT || errno == ENOTDIR, kSystem, path, ": cannot be read (",
                  reason(errno), ")");
  return false;
}

/// Calls `take` with the stored bytes of `path`, chunk by chunk.
template <class Take>
void for_each_chunk(const std::string& path, Take take) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  GRAPESHOT_CHECK(file.get() >= 0, kSystem, path, ": cannot be opened (", reason(errno), ")");
  struct stat status {};
  GRAPESHOT_CHECK(::fstat(file.get(), &status) == 0, kSystem, path, ": cannot be read (",
                  reason(errno), ")");
  GRAPESHOT_CHECK(!S_ISDIR(status.st_mode), kInvalidArgument, path, ": is a folder, not a file");
  const auto buffer = std::make_unique<std::array<char, size_t{1} << 18>>();
  while (true) {
    const ssize_t got = ::read(file.get(), buffer->data(), buffer->size());
    if (got < 0 && errno == EINTR) continue;
    GRAPESHOT_CHECK(got >= 0, kSystem, path, ": cannot be read (", reason(errno), ")");
    if (got == 0) return;
    take(std::string_view(buffer->data(), static_cast<size_t>(got)));
  }
}

void check_limit(const std::string& path, std::string_view verb, uint64_t size, uint64_t max_mib) {
  GRAPESHOT_CHECK(size <= max_mib << 20, kParse, path, ": ", verb, " more than ", max_mib,
                  " MiB; --max-file-mib allows more");
}

std::string read_stored(const std::string& path, uint64_t max_mib) {
  std::string bytes;
  for_each_chunk(path, [&](std::string_view chunk) {
    check_limit(path, "holds", bytes.size() + chunk.size(), max_mib);
    bytes.append(chunk);
  });
  return bytes;
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

/// zlib's inflate over one buffer that may hold several gzip members, one after the other.
class Unzipper {
 public:
  Unzipper(const std::string& path, std::string_view stored) : path_(path), rest_(stored) {
    GRAPESHOT_CHECK(inflateInit2(&stream_, 15 + 16) == Z_OK, kSystem, path,
                    ": zlib could not be started");
  }
  ~Unzipper() { inflateEnd(&stream_); }
  Unzipper(const Unzipper&) = delete;
  Unzipper& operator=(const Unzipper&) = delete;

  std::string run(uint64_t max_mib) {
    std::string out;
    out.reserve(expected_size(max_mib));
    do {
      run_member(out, max_mib);
      inflateReset(&stream_);
    } while (is_gzip(rest_));
    const bool padded = rest_.find_first_not_of('\0') == std::string_view::npos;
    GRAPESHOT_CHECK(padded, kParse, path_, ": damaged gzip: ", rest_.size(),
                    " bytes that are no gzip follow its end");
    return out;
  }

 private:
  /// The size that the file's last four bytes tell, for a single allocation; they may lie, so no
  /// more than deflate can make of what is there.
  [[nodiscard]] size_t expected_size(uint64_t max_mib) const {
    constexpr uint64_t kMostExpansion = 1032;
    uint32_t told = 0;
    if (rest_.size() < sizeof told) return 0;
    std::memcpy(&told, rest_.data() + rest_.size() - sizeof told, sizeof told);
    return std::min({uint64_t{told}, max_mib << 20, rest_.size() * kMostExpansion});
  }

  void run_member(std::string& out, uint64_t max_mib) {
    std::array<char, size_t{1} << 16> chunk;
    int status = Z_OK;
    while (status != Z_STREAM_END) {
      // avail_in is 32 bits wide, so a large file goes in by pieces.
      const size_t piece = std::min(rest_.size(), size_t{1} << 30);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(piece);
      stream_.next_out = reinterpret_cast<Bytef*>(chunk.data());
      stream_.avail_out = static_cast<uInt>(chunk.size());
      status = inflate(&stream_, Z_NO_FLUSH);
      GRAPESHOT_CHECK(status != Z_BUF_ERROR, kParse, path_,
                      ": damaged gzip: the file ends before its data does");
      GRAPESHOT_CHECK(status == Z_OK || status == Z_STREAM_END, kParse, path_, ": damaged gzip",
                      stream_.msg ? str(" (", stream_.msg, ")") : "");
      rest_.remove_prefix(piece - stream_.avail_in);
      const size_t made = chunk.size() - stream_.avail_out;
      check_limit(path_, "unpacks to", out.size() + made, max_mib);
      out.append(chunk.data(), made);
    }
  }

  const std::string& path_;
  std::string_view rest_;
  z_stream stream_{};
};

/// A name beside `path` that no other write of this or another process uses.
std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> counter{0};
  return str(path, ".tmp-", ::getpid(), "-", counter.fetch_add(1));
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    GRAPESHOT_CHECK(put >= 0, kSystem, path, ": cannot be written (", reason(errno), ")");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

}  // namespace

std::string resolve_file(const std::string& path) {
  if (exists(path)) return path;
  if (exists(path + ".gz")) return path + ".gz";
  throw Error(ErrorCode::kNotFound, path + ": no such file");
}

uint64_t max_file_mib() {
  return process_max_mib;
}

void set_max_file_mib(uint64_t mib) {
  process_max_mib = mib;
}

std::string read_file(const std::string& path, uint64_t max_mib) {
  const std::string found = resolve_file(path);
  return unzip(read_stored(found, max_mib), found, max_mib);
}

std::string unzip(std::string bytes, const std::string& path, uint64_t max_mib) {
  if (!is_gzip(bytes)) return bytes;
  return Unzipper(path, bytes).run(max_mib);
}

void write_file(const std::string& path, std::string_view bytes, bool durable) {
  const std::string temporary = temporary_name(path);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  GRAPESHOT_CHECK(file.get() >= 0, kSystem, path, ": cannot be written (", reason(errno), ")");
  try {
    write_all(file.get(), bytes, path);
    GRAPESHOT_CHECK(!durable || ::fsync(file.get()) == 0, kSystem, path, ": cannot be written (",
                    reason(errno), ")");
    // A full disk or a lost server can first show here.
    GRAPESHOT_CHECK(::close(file.release()) == 0, kSystem, path, ": cannot be written (",
                    reason(errno), ")");
    GRAPESHOT_CHECK(std::rename(temporary.c_str(), path.c_str()) == 0, kSystem, path,
                    ": cannot be written (", reason(errno), ")");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

namespace {

// SHA-256 of what `feed` passes to its argument, piece by piece; `what` is for the message.
std::string digest_of(
    const std::string& what,
    const std::function<void(const std::function<void(std::string_view)>&)>& feed) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  bool fine = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  feed([&](std::string_view chunk) {
    fine = fine && EVP_DigestUpdate(context.get(), chunk.data(), chunk.size()) == 1;
  });
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  fine = fine && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  GRAPESHOT_CHECK(fine, kSystem, what, ": OpenSSL could not compute its SHA-256");
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    constexpr std::string_view kHex = "0123456789abcdef";
    out += kHex[digest[i] >> 4];
    out += kHex[digest[i] & 15];
  }
  return out;
}

}  // namespace

std::string sha256_file(const std::string& path) {
  return digest_of(path, [&](const auto& take) { for_each_chunk(resolve_file(path), take); });
}

std::string sha256(std::string_view bytes) {
  return digest_of("bytes", [&](const auto& take) { take(bytes); });
}

}  // namespace grapeshot
