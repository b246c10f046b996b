#include "grapeshot/io/vnncomp.h"

#include <algorithm>
#include <cmath>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"

namespace grapeshot {
namespace {

using Fields = std::vector<std::string>;

Fields split(std::string_view line) {
  Fields out;
  while (true) {
    const size_t comma = line.find(',');
    std::string_view field = line.substr(0, comma);
    while (!field.empty() && (field.back() == ' ' || field.back() == '\r')) field.remove_suffix(1);
    while (!field.empty() && field.front() == ' ') field.remove_prefix(1);
    out.emplace_back(field);
    if (comma == std::string_view::npos) return out;
    line.remove_prefix(comma + 1);
  }
}

std::string plain_verdict(std::string verdict) {
  if (verdict == "violated") return "sat";
  if (verdict == "holds") return "unsat";
  return verdict;
}

std::optional<double> number(const std::string& text) {
  const std::optional<Decimal> decimal = parse_decimal(text);
  if (!decimal || !std::isfinite(decimal->nearest)) return std::nullopt;
  return decimal->nearest;
}

// Rows with their line numbers, empty ones left out.
std::vector<std::pair<int64_t, Fields>> rows_of(std::string_view text) {
  std::vector<std::pair<int64_t, Fields>> out;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != line.npos) out.emplace_back(number, split(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<VerdictRow> with_header(const std::vector<std::pair<int64_t, Fields>>& rows,
                                    const std::string& path) {
  std::vector<VerdictRow> out;
  if (rows.empty()) return out;
  const Fields& header = rows[0].second;
  const auto column = [&](std::string_view name) {
    return static_cast<size_t>(std::ranges::find(header, name) - header.begin());
  };
  const size_t model = column("onnx"), spec = column("vnnlib"), verdict = column("verdict");
  for (const auto& [index, name] :
       {std::pair{model, "onnx"}, {spec, "vnnlib"}, {verdict, "verdict"}}) {
    GRAPESHOT_CHECK(index < header.size(), kParse, path, ":", rows[0].first,
                    ": the header names no column '", name, "'");
  }
  const size_t tool = column("best_tool"), seconds = column("best_time_s");
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto& [line, fields] = rows[i];
    GRAPESHOT_CHECK(fields.size() == header.size(), kParse, path, ":", line, ": ", fields.size(),
                    " fields, the header has ", header.size());
    out.push_back({"", fields[model], fields[spec], plain_verdict(fields[verdict]),
                   tool < fields.size() ? fields[tool] : "",
                   seconds < fields.size() ? number(fields[seconds]) : std::nullopt, line});
  }
  return out;
}

}  // namespace

std::vector<VerdictRow> parse_expected(std::string_view text, const std::string& path) {
  const auto rows = rows_of(text);
  GRAPESHOT_CHECK(!rows.empty(), kParse, path, ": empty; write a header onnx,vnnlib,verdict first");
  return with_header(rows, path);
}

std::vector<VerdictRow> parse_results(std::string_view text, const std::string& path) {
  const auto rows = rows_of(text);
  GRAPESHOT_CHECK(!rows.empty(), kParse, path,
                  ": empty; write rows category,onnx,vnnlib,prepare time,result,run time");
  if (std::ranges::find(rows[0].second, "onnx") != rows[0].second.end()) {
    return with_header(rows, path);
  }
  std::vector<VerdictRow> out;
  for (const auto& [line, fields] : rows) {
    GRAPESHOT_CHECK(fields.size() >= 6, kParse, path, ":", line, ": ", fields.size(),
                    " fields instead of category,onnx,vnnlib,prepare time,result,run time");
    out.push_back(
        {fields[0], fields[1], fields[2], plain_verdict(fields[4]), "", number(fields[5]), line});
  }
  return out;
}

bool same_file_name(std::string_view a, std::string_view b) {
  if (a == b) return !a.empty();  // ".gz" too
  const auto plain = [](std::string_view path) {
    if (path.ends_with(".gz")) path.remove_suffix(3);
    if (path.starts_with("./")) path.remove_prefix(2);
    return path;
  };
  a = plain(a);
  b = plain(b);
  if (a.size() < b.size()) std::swap(a, b);
  if (b.empty() || !a.ends_with(b)) return false;
  return a.size() == b.size() || a[a.size() - b.size() - 1] == '/';
}

}  // namespace grapeshot
