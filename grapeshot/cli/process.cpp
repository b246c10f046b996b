#include "grapeshot/cli/process.h"

#include <cctype>
#include <limits>

#include <CLI/Error.hpp>
#include <malloc.h>

#include "grapeshot/base/text.h"

namespace grapeshot::cli {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 26);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

void give_freed_memory_back() {
#ifdef __GLIBC__
  constexpr int kDefaultTrim = 128 << 10;
  mallopt(M_TRIM_THRESHOLD, kDefaultTrim);
  mallopt(M_TOP_PAD, 0);
  malloc_trim(0);
#endif
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? printable({&c, 1}) : std::string(1, c);
  }
  return out;
}

std::string usage_sentence(const CLI::Error& error) {
  std::string what = error.what();
  // Not the name of a positional such as SPEC.
  const auto letter = [&](size_t i) { return static_cast<unsigned char>(what[i]); };
  if (what.size() > 1 && std::isupper(letter(1)) == 0) {
    what[0] = static_cast<char>(std::tolower(letter(0)));
  }
  return what;
}

}  // namespace grapeshot::cli
