#include "grapeshot/io/properties/field.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "grapeshot/base/text.h"

namespace grapeshot::properties {

using nlohmann::json;

std::string Field::where() const {
  return key_.empty() ? path_ + ": " : str(path_, ": ", key_, ": ");
}

Field Field::at(const char* key) const {
  if (!value_->is_object()) fail("must be an object");
  const auto it = value_->find(key);
  if (it == value_->end()) fail("lacks '", key, "'");
  return {*it, path_, key_.empty() ? key : str(key_, ".", key)};
}

std::vector<std::pair<std::string, Field>> Field::members() const {
  if (!value_->is_object()) fail("must be an object");
  std::vector<std::pair<std::string, Field>> out;
  for (const auto& [key, value] : value_->items()) {
    const std::string shown = printable(key);
    out.emplace_back(key, Field(value, path_, key_.empty() ? shown : str(key_, ".", shown)));
  }
  return out;
}

std::vector<Field> Field::entries() const {
  if (!value_->is_array()) fail("must be an array");
  std::vector<Field> out;
  for (size_t i = 0; i < value_->size(); ++i) {
    out.push_back({(*value_)[i], path_, str(key_, "[", i, "]")});
  }
  return out;
}

void Field::check_keys(std::span<const std::string_view> known) const {
  if (!value_->is_object()) fail("must be an object");
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    std::string names;
    for (const std::string_view name : known) names += str(names.empty() ? "" : ", ", name);
    fail("no key is called '", printable(key), "' here; known: ", names);
  }
}

double Field::number() const {
  if (!value_->is_number()) fail("must be a number");
  const auto out = value_->get<double>();
  if (!std::isfinite(out)) fail("must be a finite number");
  return out;
}

double Field::number_from(double least) const {
  const double out = number();
  if (!(out >= least)) fail("must be at least ", least, ", is ", out);
  return out;
}

int64_t Field::integer(int64_t least, int64_t most) const {
  if (!value_->is_number_integer()) fail("must be a whole number");
  // Beyond int64 is beyond all that is asked for.
  const bool fits = !value_->is_number_unsigned() || value_->get<uint64_t>() <= uint64_t{1} << 62;
  if (!fits || value_->get<int64_t>() < least || value_->get<int64_t>() > most) {
    fail("must be from ", least, " to ", most, ", is ", value_->dump());
  }
  return value_->get<int64_t>();
}

const std::string& Field::text() const {
  if (!value_->is_string()) fail("must be a text");
  return value_->get_ref<const std::string&>();
}

std::vector<double> Field::numbers() const {
  if (!value_->is_array()) fail("must be an array");
  std::vector<double> out;
  out.reserve(value_->size());
  for (const json& each : *value_) {
    // With its place only where that is needed: there may be a million of them.
    const bool fine = each.is_number() && std::isfinite(each.get<double>());
    out.push_back(fine ? each.get<double>()
                       : Field(each, path_, str(key_, "[", out.size(), "]")).number());
  }
  return out;
}

std::vector<double> Field::numbers(int64_t count) const {
  if (value_->is_number()) return std::vector<double>(static_cast<size_t>(count), number());
  if (!value_->is_array()) fail("must be a number or an array of ", count);
  if (std::ssize(*value_) != count) fail("has ", value_->size(), " numbers, must have ", count);
  return numbers();
}

json parse_strict(std::string_view text, const std::string& path) {
  std::vector<std::set<std::string>> open;
  const auto check = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      GRAPESHOT_CHECK(open.back().insert(key).second, kParse, path, ": the key '", printable(key),
                      "' is there twice in one object");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& error) {
    // `byte` counts from 1 up to the byte that does not fit.
    const std::string_view before =
        text.substr(0, std::min(std::max<size_t>(error.byte, 1) - 1, text.size()));
    const size_t newline = before.rfind('\n');
    const size_t column = newline == before.npos ? before.size() + 1 : before.size() - newline;
    throw Error(ErrorCode::kParse,
                str(path, ":", 1 + std::ranges::count(before, '\n'), ":", column, ": not JSON",
                    before.size() == text.size() ? ": the file ends too early" : ""));
  } catch (const json::out_of_range&) {
    throw Error(ErrorCode::kParse, path + ": a number is beyond the largest float64");
  }
}

}  // namespace grapeshot::properties
