// grapeshot/cli/process.h: what a process does for all commands: memory, messages.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class Error;
}

namespace grapeshot::cli {

/// From here on the process keeps what it frees. A pass allocates and frees the same tensors again
/// and again; by default glibc gives large ones back to the system every time, and then the kernel
/// clears every page anew: up to 30 % of a pass. Larger blocks than those of a pass that fits the
/// cache are still given back.
void keep_freed_memory();

/// Gives back what is kept, and shrinks from here on as glibc does by default.
void give_freed_memory_back();

/// One line of what a message says: a damaged file may have line breaks and worse in its names.
[[nodiscard]] std::string one_line(std::string_view text);

/// What is wrong with arguments, as the rest of a sentence.
[[nodiscard]] std::string usage_sentence(const CLI::Error& error);

}  // namespace grapeshot::cli
