// grapeshot/base/text.h: text of unknown origin, made fit for an error message or taken apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace grapeshot {

/// `text` with every byte that is no printable ASCII as \xNN, cut after `limit` bytes with "...".
[[nodiscard]] std::string printable(std::string_view text, size_t limit = 40);

/// The parts of `text` between separators, without empty ones; they point into it.
[[nodiscard]] std::vector<std::string_view> split_at(char separator, std::string_view text);

}  // namespace grapeshot
