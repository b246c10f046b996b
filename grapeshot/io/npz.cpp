#include "grapeshot/io/npz.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <zip.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/file.h"

namespace grapeshot {
namespace {

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

std::string message(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

// What libzip reads from or writes to: memory that stays ours.
zip_source_t* memory_source(const void* bytes, size_t size) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes, size, 0, &error);
  GRAPESHOT_CHECK(source, kSystem, "an archive in memory: ", message(error));
  return source;
}

Archive open(zip_source_t* source, int flags, const std::string& path) {
  zip_error_t error;
  zip_error_init(&error);
  Archive archive(zip_open_from_source(source, flags, &error));
  if (archive) return archive;
  zip_source_free(source);
  throw Error(ErrorCode::kParse, str(path, ": is no .npz archive (", message(error), ")"));
}

/// The unpacked bytes of one entry; grows with what is there, not with what is claimed.
class EntrySource final : public ByteSource {
 public:
  EntrySource(zip_t& archive, zip_uint64_t index, uint64_t size, std::string at)
      : file_(zip_fopen_index(&archive, index, 0)), left_(size), at_(std::move(at)) {
    GRAPESHOT_CHECK(file_, kParse, at_, ": ", zip_strerror(&archive));
  }

  [[nodiscard]] std::string read(uint64_t most) override {
    std::string bytes;
    char piece[1 << 16];
    while (most > 0) {
      const zip_int64_t n = zip_fread(file_.get(), piece, std::min<uint64_t>(most, sizeof piece));
      GRAPESHOT_CHECK(n >= 0, kParse, at_, ": is damaged");
      if (n == 0) break;
      const auto got = static_cast<uint64_t>(n);
      GRAPESHOT_CHECK(got <= left_, kParse, at_, ": is larger than it says");
      bytes.append(piece, got);
      left_ -= got;
      most -= got;
    }
    return bytes;
  }

 private:
  struct Close {
    void operator()(zip_file_t* file) const { zip_fclose(file); }
  };
  std::unique_ptr<zip_file_t, Close> file_;
  uint64_t left_;  ///< of what it says that it holds
  std::string at_;
};

std::string read_entry(zip_t& archive, zip_uint64_t index, uint64_t size, const std::string& at) {
  EntrySource source(archive, index, size, at);
  std::string bytes = source.read(size + 1);
  GRAPESHOT_CHECK(bytes.size() == size, kParse, at, ": ends early");
  return bytes;
}

Archive open_bytes(std::string_view bytes, const std::string& path) {
  // libzip takes nothing at all for an archive of nothing.
  GRAPESHOT_CHECK(!bytes.empty(), kParse, path, ": is no .npz archive (it is empty)");
  return open(memory_source(bytes.data(), bytes.size()), ZIP_RDONLY | ZIP_CHECKCONS, path);
}

struct Entry {
  std::string name;  ///< of the array
  std::string at;    ///< for messages
  uint64_t size;
};

Entry find_entry(zip_t& archive, zip_uint64_t index, const std::string& path) {
  zip_stat_t about;
  zip_stat_init(&about);
  GRAPESHOT_CHECK(zip_stat_index(&archive, index, 0, &about) == 0 && about.name &&
                      (about.valid & ZIP_STAT_SIZE),
                  kParse, path, ": entry ", index, " is damaged");
  Entry out{about.name, {}, about.size};
  out.at = str(path, ": ", printable(out.name));
  if (out.name.ends_with(".npy")) out.name.resize(out.name.size() - 4);
  return out;
}

}  // namespace

std::map<std::string, NpyArray> parse_npz(std::string_view bytes, const std::string& path) {
  const Archive archive = open_bytes(bytes, path);
  std::map<std::string, NpyArray> out;
  uint64_t left = max_file_mib() << 20;
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < entries; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const Entry entry = find_entry(*archive, index, path);
    GRAPESHOT_CHECK(entry.size <= left, kParse, entry.at, ": the archive unpacks to more than ",
                    max_file_mib(), " MiB; --max-file-mib allows more");
    NpyArray array = parse_npy(read_entry(*archive, index, entry.size, entry.at), entry.at);
    // Numbers take eight bytes each here, whatever they took there.
    const uint64_t held = std::max<uint64_t>(entry.size, array.values.size() * sizeof(double));
    left -= std::min(left, held);
    out[entry.name] = std::move(array);
  }
  return out;
}

NpyArray parse_npz_rows(std::string_view bytes, const std::string& path, const std::string& name,
                        int64_t begin, int64_t end) {
  const Archive archive = open_bytes(bytes, path);
  const auto entries = static_cast<zip_uint64_t>(zip_get_num_entries(archive.get(), 0));
  std::string known;
  for (zip_uint64_t index = 0; index < entries; ++index) {
    const Entry entry = find_entry(*archive, index, path);
    if (entry.name == name || (name.empty() && entries == 1)) {
      GRAPESHOT_CHECK(entry.size <= max_file_mib() << 20, kParse, entry.at,
                      ": the archive unpacks to more than ", max_file_mib(),
                      " MiB; --max-file-mib allows more");
      EntrySource source(*archive, index, entry.size, entry.at);
      return read_npy_rows(source, entry.at, begin, end);
    }
    known += str(known.empty() ? "" : ", ", printable(entry.name));
  }
  throw Error(ErrorCode::kNotFound,
              name.empty() ? str(path, ": holds the arrays ", known,
                                 "; name one of them after a colon, as in ", path, ":x")
                           : str(path, ": holds no array '", printable(name), "'; it has ", known));
}

std::map<std::string, NpyArray> read_npz(const std::string& path) {
  return parse_npz(read_file(path), path);
}

void write_npz(const std::string& path, const std::map<std::string, std::string>& arrays) {
  zip_source_t* target = memory_source(nullptr, 0);
  zip_source_keep(target);  // read after the archive is closed
  const std::unique_ptr<zip_source_t, decltype(&zip_source_free)> kept(target, &zip_source_free);
  Archive archive = open(target, ZIP_TRUNCATE, path);
  for (const auto& [name, bytes] : arrays) {
    zip_source_t* entry = memory_source(bytes.data(), bytes.size());
    const zip_int64_t index =
        zip_file_add(archive.get(), (name + ".npy").c_str(), entry, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(entry);
    GRAPESHOT_CHECK(index >= 0, kSystem, path, ": ", zip_strerror(archive.get()));
    // The same bytes for the same arrays, whenever they are written.
    zip_file_set_dostime(archive.get(), static_cast<zip_uint64_t>(index), 0, (1 << 5) | 1, 0);
  }
  GRAPESHOT_CHECK(zip_close(archive.get()) == 0, kSystem, path, ": ", zip_strerror(archive.get()));
  (void)archive.release();  // zip_close() has freed it
  zip_stat_t about;
  zip_stat_init(&about);
  GRAPESHOT_CHECK(zip_source_stat(target, &about) == 0 && zip_source_open(target) == 0, kSystem,
                  path, ": the archive cannot be read back");
  std::string bytes(about.size, '\0');
  const zip_int64_t n = zip_source_read(target, bytes.data(), bytes.size());
  zip_source_close(target);
  GRAPESHOT_CHECK(n == static_cast<zip_int64_t>(bytes.size()), kSystem, path,
                  ": the archive cannot be read back");
  write_file(path, bytes);
}

}  // namespace grapeshot
