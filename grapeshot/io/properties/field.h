// grapeshot/io/properties/field.h: values of a JSON file that know where they stand.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"

namespace grapeshot::properties {

/// One value. Every message starts "path: key.key[3]: ".
class Field {
 public:
  Field(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  [[nodiscard]] const nlohmann::json& value() const { return *value_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] bool has(const char* key) const { return value_->contains(key); }
  /// An object's member; throws when there is none.
  [[nodiscard]] Field at(const char* key) const;
  /// An object's members, in alphabetical order; an array's entries.
  [[nodiscard]] std::vector<std::pair<std::string, Field>> members() const;
  [[nodiscard]] std::vector<Field> entries() const;

  /// Throws unless it is an object with these keys and no others.
  void check_keys(std::initializer_list<std::string_view> known) const {
    check_keys(std::span(known.begin(), known.size()));
  }
  void check_keys(std::span<const std::string_view> known) const;

  [[nodiscard]] double number() const;
  [[nodiscard]] double number_from(double least) const;
  [[nodiscard]] int64_t integer(int64_t least, int64_t most) const;
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] std::vector<double> numbers() const;
  /// `count` numbers, or one that stands for all.
  [[nodiscard]] std::vector<double> numbers(int64_t count) const;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(ErrorCode::kParse, str(where(), parts...));
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw Error(ErrorCode::kUnsupported, str(where(), parts...));
  }

 private:
  Field(const nlohmann::json& value, std::string path, std::string key)
      : value_(&value), path_(std::move(path)), key_(std::move(key)) {}
  [[nodiscard]] std::string where() const;

  const nlohmann::json* value_;
  std::string path_, key_;
};

/// Throws kParse "path:line:column: ..." for text that is no JSON, "path: ..." for a key that is
/// there twice and numbers beyond float64.
[[nodiscard]] nlohmann::json parse_strict(std::string_view text, const std::string& path);

}  // namespace grapeshot::properties
