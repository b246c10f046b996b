// grapeshot/io/npz.h: NumPy's .npz files, archives of arrays with names.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "grapeshot/io/npy.h"

namespace grapeshot {

/// All arrays of an archive. Throws kParse "path: ..." for what is none, is damaged or would unpack
/// to more than max_file_mib(); "path: name: ..." for an entry that parse_npy refuses.
[[nodiscard]] std::map<std::string, NpyArray> parse_npz(std::string_view bytes,
                                                        const std::string& path);

/// Rows of one array, as read_npy_rows has them; without a name, of the only one. Throws kNotFound,
/// with the names that there are, besides.
[[nodiscard]] NpyArray parse_npz_rows(std::string_view bytes, const std::string& path,
                                      const std::string& name, int64_t begin, int64_t end);

/// parse_npz of a file; throws as read_file does besides.
[[nodiscard]] std::map<std::string, NpyArray> read_npz(const std::string& path);

/// Writes an archive of arrays, each as encode_npy() has it, atomically.
void write_npz(const std::string& path, const std::map<std::string, std::string>& arrays);

}  // namespace grapeshot
