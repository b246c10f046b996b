// grapeshot/io/file.h: whole files, gzip or plain, with errors that name the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace grapeshot {

/// `path` when it exists, else `path`.gz when that exists; throws kNotFound "path: no such file",
/// kSystem when that cannot be found out.
[[nodiscard]] std::string resolve_file(const std::string& path);

/// The most MiB that read_file returns from one file, 2048 unless set. One number for the whole
/// process, as the limits of ulimit are, so that no reader can forget it; main() sets it once.
[[nodiscard]] uint64_t max_file_mib();
void set_max_file_mib(uint64_t mib);

/// The bytes of resolve_file(path), unzipped when they are gzip (by magic, not by name).
/// Throws kNotFound, kInvalidArgument (a folder), kSystem (unreadable) or kParse (damaged gzip;
/// more than `max_mib` MiB), each naming the file.
[[nodiscard]] std::string read_file(const std::string& path, uint64_t max_mib = max_file_mib());

/// `bytes` when they are no gzip, else what they unpack to; throws kParse as read_file does.
/// Holds little more than what it returns, however much the gzip claims to unpack to.
[[nodiscard]] std::string unzip(std::string bytes, const std::string& path,
                                uint64_t max_mib = max_file_mib());

/// Writes `bytes` to `path` by way of a temporary file beside it and a rename, so that a reader
/// never sees half a file; with `durable` not even after a power failure. Throws kSystem naming
/// the path.
void write_file(const std::string& path, std::string_view bytes, bool durable = false);

/// SHA-256 of the file's stored bytes (gzip left as it is), lower-case hexadecimal.
[[nodiscard]] std::string sha256_file(const std::string& path);
/// The same of `bytes`.
[[nodiscard]] std::string sha256(std::string_view bytes);

}  // namespace grapeshot
