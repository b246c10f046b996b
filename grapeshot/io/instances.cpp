#include "grapeshot/io/instances.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/file.h"

namespace grapeshot {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// What precedes the first `mark` of `text`, which loses both.
std::string_view cut(std::string_view& text, char mark) {
  const size_t end = std::min(text.find(mark), text.size());
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return out;
}

/// The three fields of a line; throws when there are more or fewer.
std::array<std::string_view, 3> fields(std::string_view line, const std::string& where) {
  const auto count = std::ranges::count(line, ',') + 1;
  GRAPESHOT_CHECK(count == 3, kParse, where, ": expected three fields, onnx,vnnlib,timeout, found ",
                  count);
  std::array<std::string_view, 3> out;
  for (std::string_view& field : out) field = trim(cut(line, ','));
  return out;
}

std::string find_file(const std::filesystem::path& folder, std::string_view field,
                      std::string_view what, const std::string& where) {
  GRAPESHOT_CHECK(!field.empty(), kParse, where, ": the ", what, " field is empty");
  // The system would open what stands before the zero.
  GRAPESHOT_CHECK(field.find('\0') == std::string_view::npos, kParse, where, ": the ", what,
                  " field is no path: '", printable(field), "'");
  const std::string path = (folder / field).lexically_normal().string();
  try {
    return resolve_file(path);
  } catch (const Error& error) {
    throw Error(ErrorCode::kParse, str(where, ": ", error.what()));
  }
}

}  // namespace

std::vector<InstanceRow> parse_instances(std::string_view text, const std::string& csv_path) {
  const std::filesystem::path folder = std::filesystem::absolute(csv_path).parent_path();
  std::vector<InstanceRow> rows;
  std::string_view rest = text;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = trim(cut(rest, '\n'));
    if (line.empty()) continue;
    const std::string where = str(csv_path, ":", number);
    const auto [model, spec, timeout] = fields(line, where);
    if (rows.empty() && model == "onnx" && spec == "vnnlib") continue;
    const std::optional<Decimal> seconds = parse_decimal(timeout);
    InstanceRow row{.model = find_file(folder, model, "onnx", where),
                    .spec = find_file(folder, spec, "vnnlib", where),
                    .timeout_s = seconds ? seconds->nearest : 0.,
                    .line = number};
    GRAPESHOT_CHECK(row.timeout_s > 0. && std::isfinite(row.timeout_s), kParse, where,
                    ": the timeout must be a positive number of seconds, found '",
                    printable(timeout), "'");
    rows.push_back(std::move(row));
  }
  GRAPESHOT_CHECK(!rows.empty(), kParse, csv_path,
                  ": no instance in it; write lines onnx,vnnlib,timeout");
  return rows;
}

std::vector<InstanceRow> read_instances(const std::string& csv_path) {
  return parse_instances(read_file(csv_path), csv_path);
}

}  // namespace grapeshot
