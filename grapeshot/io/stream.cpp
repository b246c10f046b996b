#include "grapeshot/io/stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"

namespace grapeshot {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 18;

gzFile as_gzip(void* file) {
  return static_cast<gzFile>(file);
}

}  // namespace

void ByteSource::skip(uint64_t bytes) {
  while (bytes > 0) {
    const size_t got = read(std::min(bytes, kPiece)).size();
    if (got == 0) return;
    bytes -= got;
  }
}

std::string MemorySource::read(uint64_t most) {
  const std::string out(rest_.substr(0, most));
  rest_.remove_prefix(out.size());
  return out;
}

void FileSource::Close::operator()(void* file) const {
  gzclose_r(as_gzip(file));
}

FileSource::FileSource(const std::string& path) : path_(resolve_file(path)) {
  const auto reason = [] { return std::generic_category().message(errno); };
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  GRAPESHOT_CHECK(descriptor >= 0, kSystem, path_, ": cannot be opened (", reason(), ")");
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  file_.reset(gzdopen(descriptor, "rb"));
  if (!file_) ::close(descriptor);
  GRAPESHOT_CHECK(known && file_, kSystem, path_, ": cannot be read (", reason(), ")");
  GRAPESHOT_CHECK(!S_ISDIR(status.st_mode), kInvalidArgument, path_, ": is a folder, not a file");
  gzbuffer(as_gzip(file_.get()), kPiece);
  if (S_ISREG(status.st_mode) && gzdirect(as_gzip(file_.get())) == 1) {
    size_ = static_cast<uint64_t>(status.st_size);
  }
}

// More of the file onto `out`, which may stay as it is where the file has ended.
void FileSource::append(std::string& out, uint64_t most) {
  std::array<char, kPiece> piece;
  while (most > 0) {
    errno = 0;
    const int got = gzread(as_gzip(file_.get()), piece.data(),
                           static_cast<unsigned>(std::min<uint64_t>(most, piece.size())));
    int status = Z_OK;
    const char* text = gzerror(as_gzip(file_.get()), &status);
    GRAPESHOT_CHECK(status != Z_BUF_ERROR, kParse, path_,
                    ": damaged gzip: the file ends before its data does");
    GRAPESHOT_CHECK(status != Z_ERRNO, kSystem, path_, ": cannot be read (",
                    std::generic_category().message(errno), ")");
    // zlib puts a name of the file in front, "<fd:3>: ".
    GRAPESHOT_CHECK(got >= 0, kParse, path_, ": damaged gzip (",
                    std::string_view(text).substr(std::string_view(text).find(' ') + 1), ")");
    if (got == 0) return;
    out.append(piece.data(), static_cast<size_t>(got));
    most -= static_cast<uint64_t>(got);
    GRAPESHOT_CHECK(given_ + out.size() <= max_file_mib() << 20, kParse, path_, ": ",
                    size_ ? "holds" : "unpacks to", " more than ", max_file_mib(),
                    " MiB; --max-file-mib allows more");
  }
}

std::string FileSource::read(uint64_t most) {
  std::string out = ahead_.substr(0, most);
  ahead_.erase(0, out.size());
  append(out, most - out.size());
  given_ += out.size();
  return out;
}

void FileSource::skip(uint64_t bytes) {
  const uint64_t known = std::min<uint64_t>(bytes, ahead_.size());
  ahead_.erase(0, known);
  // Of a plain file zlib takes the short way; what cannot be passed over is read.
  bytes -= known;
  if (size_ && bytes > 0 && bytes <= *size_ &&
      gzseek(as_gzip(file_.get()), static_cast<z_off_t>(bytes), SEEK_CUR) >= 0) {
    return;
  }
  while (bytes > 0) {
    std::string dropped;
    append(dropped, std::min(bytes, kPiece));
    if (dropped.empty()) return;
    bytes -= dropped.size();
  }
}

std::string_view FileSource::head(size_t most) {
  if (ahead_.size() < most) append(ahead_, most - ahead_.size());
  return std::string_view(ahead_).substr(0, most);
}

}  // namespace grapeshot
