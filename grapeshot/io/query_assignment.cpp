// grapeshot/io/query_assignment.cpp: assignments in the form of the standard's command line.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/query.h"
#include "grapeshot/io/vnnlib_internal.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::query {
namespace {

struct Line {
  std::string_view text;
  size_t offset = 0;
};

/// Lines that are not blank, without the blanks around them and without a leading `sat`.
class Lines {
 public:
  explicit Lines(const vnnlib::Source& source) : source_(source) {
    next();
    if (line_ && line_->text == "sat") next();
  }

  [[nodiscard]] const std::optional<Line>& line() const { return line_; }

  void next() {
    line_.reset();
    while (!line_ && at_ < source_.text.size()) {
      const size_t end = std::min(source_.text.find('\n', at_), source_.text.size());
      size_t begin = at_, last = end;
      while (begin < last && vnnlib::is_blank(source_.text[begin])) ++begin;
      while (last > begin && vnnlib::is_blank(source_.text[last - 1])) --last;
      if (last > begin) line_ = Line{source_.text.substr(begin, last - begin), begin};
      at_ = end + 1;
    }
  }

 private:
  const vnnlib::Source& source_;
  size_t at_ = 0;
  std::optional<Line> line_;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    if (end > at) out.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// "[1,2]", whatever blanks stand inside.
std::optional<std::vector<int64_t>> shape_of(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text += word;
  if (text.size() < 2 || !text.starts_with('[') || !text.ends_with(']')) return std::nullopt;
  std::vector<int64_t> out;
  if (text == "[]") return out;
  for (const std::string_view size :
       split_at(',', std::string_view(text).substr(1, text.size() - 2))) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
    if (error != std::errc{} || end != size.data() + size.size()) return std::nullopt;
    out.push_back(value);
  }
  return out;
}

class Reader {
 public:
  Reader(const Query& query, const vnnlib::Source& source)
      : query_(query), source_(source), lines_(source) {}

  Assignment run() {
    while (lines_.line()) variable();
    Assignment out;
    out.x.resize(static_cast<size_t>(query_.property.inputs));
    std::vector<std::string> names(out.x.size());
    bool complete = true;
    for (const Variable& each : query_.variables) {
      const auto known = values_.find(each.name);
      if (each.role != Role::kInput) {
        complete = complete && known != values_.end();
        if (complete) out.y.insert(out.y.end(), known->second.begin(), known->second.end());
        continue;
      }
      GRAPESHOT_CHECK(known != values_.end(), kParse, source_.path, ": has no values of the input ",
                      each.name);
      for (size_t i = 0; i < known->second.size(); ++i) {
        const auto to = static_cast<size_t>(query_.place[static_cast<size_t>(each.begin) + i]);
        const std::string name = query_.element(each, static_cast<int64_t>(i));
        GRAPESHOT_CHECK(names[to].empty() || out.x[to] == known->second[i], kParse, source_.path,
                        ": ", names[to], " and ", name, " differ, and the query sets them equal");
        out.x[to] = known->second[i];
        names[to] = name;
      }
    }
    if (!complete) out.y.clear();
    return out;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Line& line, const Parts&... parts) const {
    throw Error(ErrorCode::kParse, str(source_.at(line.offset), ": ", parts...));
  }

  void variable() {
    const Line header = *lines_.line();
    const std::vector<std::string_view> words = words_of(header.text);
    const auto shape = words.size() < 3 ? std::nullopt : shape_of(std::span(words).subspan(2));
    if (!shape)
      fail(header, "expected a variable such as 'X float32 [1,2]', found '",
           printable(header.text.substr(0, 40)), "'");
    const auto known = std::ranges::find(query_.variables, words[0], &Variable::name);
    if (known == query_.variables.end())
      fail(header, "the query declares no ", printable(words[0]));
    if (known->shape != *shape) fail(header, known->name, " is of another shape in the query");
    if (values_.contains(known->name)) fail(header, known->name, " has values already");
    std::vector<double>& values = values_[known->name];
    for (int64_t i = 0; i < known->size; ++i) {
      lines_.next();
      const Line line = lines_.line().value_or(Line{{}, source_.text.size()});
      const std::optional<double> value = parse_witness_number(line.text);
      if (!value)
        fail(line, "expected value ", i + 1, " of the ", known->size, " of ", known->name,
             line.text.empty() ? std::string(", found the end of the file")
                               : str(", found '", printable(line.text.substr(0, 40)), "'"));
      values.push_back(*value);
    }
    lines_.next();
  }

  const Query& query_;
  const vnnlib::Source& source_;
  Lines lines_;
  std::map<std::string, std::vector<double>> values_;
};

}  // namespace

Assignment parse_assignment(const Query& query, std::string_view text, const std::string& path) {
  const vnnlib::Source source{text, path};
  return Reader(query, source).run();
}

bool is_assignment(std::string_view text) {
  const std::string none;
  const vnnlib::Source source{text, none};
  const Lines lines(source);
  return lines.line() && !lines.line()->text.starts_with('(') && lines.line()->text.ends_with(']');
}

}  // namespace grapeshot::query
