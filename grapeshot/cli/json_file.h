// grapeshot/cli/json_file.h: JSON from files, with errors that name the place.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace grapeshot::cli {

/// Throws kParse "path:line:column: ..." when the file holds no JSON, as read_file for the rest.
[[nodiscard]] nlohmann::json read_json(const std::string& path);

/// object[key] as T; throws kParse "path: ..." when it is missing or of another type.
template <class T>
[[nodiscard]] T json_field(const nlohmann::json& object, const char* key, const std::string& path);

}  // namespace grapeshot::cli
