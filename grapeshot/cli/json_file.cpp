// grapeshot/cli/json_file.cpp: nlohmann's parser with our errors.
#include "grapeshot/cli/json_file.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"

namespace grapeshot::cli {

nlohmann::json read_json(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // `byte` counts from 1 up to the byte that does not fit.
    const std::string_view before = std::string_view(text).substr(
        0, std::min(std::max<size_t>(error.byte, 1) - 1, text.size()));
    const size_t newline = before.rfind('\n');
    const size_t column = newline == before.npos ? before.size() + 1 : before.size() - newline;
    throw Error(ErrorCode::kParse,
                str(path, ":", 1 + std::ranges::count(before, '\n'), ":", column, ": not JSON",
                    before.size() == text.size() ? ": the file ends too early" : ""));
  }
}

template <class T>
T json_field(const nlohmann::json& object, const char* key, const std::string& path) {
  GRAPESHOT_CHECK(object.is_object(), kParse, path, ": not a JSON object");
  const auto field = object.find(key);
  GRAPESHOT_CHECK(field != object.end(), kParse, path, ": lacks '", key, "'");
  try {
    return field->template get<T>();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kParse, str(path, ": '", key, "' is of the wrong type"));
  }
}

template std::string json_field(const nlohmann::json&, const char*, const std::string&);
template int64_t json_field(const nlohmann::json&, const char*, const std::string&);
template bool json_field(const nlohmann::json&, const char*, const std::string&);
template double json_field(const nlohmann::json&, const char*, const std::string&);
template std::vector<std::string> json_field(const nlohmann::json&, const char*,
                                             const std::string&);
template nlohmann::json json_field(const nlohmann::json&, const char*, const std::string&);

}  // namespace grapeshot::cli
