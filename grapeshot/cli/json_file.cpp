// grapeshot/cli/json_file.cpp: nlohmann's parser with our errors.
#include "grapeshot/cli/json_file.h"

#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/properties/field.h"

namespace grapeshot::cli {

nlohmann::json read_json(const std::string& path) {
  return properties::parse_strict(read_file(path), path);
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
template std::vector<double> json_field(const nlohmann::json&, const char*, const std::string&);
template nlohmann::json json_field(const nlohmann::json&, const char*, const std::string&);

}  // namespace grapeshot::cli
