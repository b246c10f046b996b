// grapeshot/base/text.h: text of unknown origin, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace grapeshot {

/// `text` with every byte that is no printable ASCII as \xNN, cut after `limit` bytes with "...".
[[nodiscard]] std::string printable(std::string_view text, size_t limit = 40);

}  // namespace grapeshot
