// grapeshot/io/data/csv.cpp: tables with a line of names above their numbers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <set>

#include <csv.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/data/formats_internal.h"

namespace grapeshot::data {
namespace {

// libcsv calls back with fields and ends of lines; an exception must not pass through its C.
struct Lines {
  const TakeLine& take;
  std::vector<std::string> fields = {};
  int64_t line = 1, first_line = 1;  ///< where we are; where the fields' line began
  bool going = true;
  std::exception_ptr failure = {};

  void add_field(std::string_view text) {
    if (fields.empty()) first_line = line;
    line += std::ranges::count(text, '\n');
    fields.emplace_back(text);
  }

  // `end` is the character that ended it, -1 at the end of the file.
  void end_line(int end) {
    if (!fields.empty() && going) {
      try {
        going = take(fields, first_line);
      } catch (...) {
        failure = std::current_exception();
        going = false;
      }
    }
    fields.clear();
    if (end == '\n') ++line;
  }
};

// What separates the most fields in the first line, a comma where nothing does.
char separator_of(std::string_view head) {
  constexpr std::string_view kSeparators = ",;\t";
  std::array<int, kSeparators.size()> count = {};
  head.remove_prefix(std::min(head.find_first_not_of("\r\n"), head.size()));
  bool quoted = false;
  for (const char c : head.substr(0, head.find('\n'))) {
    if (c == '"') quoted = !quoted;
    const size_t which = kSeparators.find(c);
    if (!quoted && which != std::string_view::npos) ++count.at(which);
  }
  return kSeparators[static_cast<size_t>(std::ranges::max_element(count) - count.begin())];
}

std::optional<double> number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0.;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A table as its lines come by.
class Table {
 public:
  Table(const std::string& path, const Request& request) : path_(path), request_(request) {}

  bool take(const std::vector<std::string>& fields, int64_t line) {
    if (names_.empty()) {
      read_names(fields, line);
      return true;
    }
    const std::string where = str(path_, ":", line);
    GRAPESHOT_CHECK(fields.size() == names_.size(), kParse, where, ": has ", fields.size(),
                    " fields, the line of names has ", names_.size());
    if (row_++ < request_.begin) return true;
    if (row_ > request_.end) return false;
    for (size_t i = 0; i < fields.size(); ++i) {
      const double value = read_number(fields[i], i, where);
      if (static_cast<int64_t>(i) != label_) {
        out_.values.push_back(value);
        continue;
      }
      GRAPESHOT_CHECK(value == std::floor(value) && std::abs(value) < 9e15, kParse, where,
                      ": label ", value, " in column '", printable(names_[i]),
                      "' is no whole number; a class is a number from 0 on");
      out_.labels.push_back(static_cast<int64_t>(value));
    }
    return row_ < request_.end;
  }

  DataSet finish() {
    GRAPESHOT_CHECK(!names_.empty(), kParse, path_,
                    ": is empty; its first line is to name columns");
    const auto width = std::ssize(out_.columns);
    out_.shape = {width == 0 ? 0 : std::ssize(out_.values) / width, width};
    return std::move(out_);
  }

 private:
  void read_names(const std::vector<std::string>& fields, int64_t line) {
    const std::string where = str(path_, ":", line);
    std::set<std::string> seen;
    for (size_t i = 0; i < fields.size(); ++i) {
      GRAPESHOT_CHECK(!fields[i].empty(), kParse, where, ": column ", i + 1,
                      " has no name; pandas writes one for its index, not with index=False");
      GRAPESHOT_CHECK(!number(fields[i]), kParse, where, ": names of columns are expected, found '",
                      printable(fields[i]), "'");
      GRAPESHOT_CHECK(seen.insert(fields[i]).second, kParse, where, ": two columns are called '",
                      printable(fields[i]), "'");
      if (fields[i] == request_.label_column) {
        label_ = static_cast<int64_t>(i);
      } else {
        out_.columns.push_back(fields[i]);
      }
    }
    names_ = fields;
    if (request_.label_column.empty() || label_ >= 0) return;
    throw Error(ErrorCode::kInvalidArgument,
                str(where, ": no column is called '", printable(request_.label_column), "'"));
  }

  double read_number(const std::string& field, size_t column, const std::string& where) const {
    const auto at = [&] { return str(where, ": column '", printable(names_[column]), "' "); };
    GRAPESHOT_CHECK(!field.empty(), kParse, at(), "is empty; fill in what is missing first");
    const std::optional<double> value = number(field);
    GRAPESHOT_CHECK(value, kParse, at(), "holds '", printable(field),
                    "', which is no number; encode categories as numbers first");
    GRAPESHOT_CHECK(std::isfinite(*value), kParse, at(), "holds '", printable(field),
                    "', which is not finite");
    return *value;
  }

  const std::string& path_;
  const Request& request_;
  std::vector<std::string> names_;  // with the label's
  int64_t label_ = -1;              // its column
  int64_t row_ = 0;
  DataSet out_;
};

}  // namespace

void for_each_line(ByteSource& source, const std::string& path, const TakeLine& take) {
  struct Free {
    void operator()(csv_parser* parser) const {
      csv_free(parser);
      delete parser;
    }
  };
  const std::unique_ptr<csv_parser, Free> parser(new csv_parser);
  GRAPESHOT_CHECK(csv_init(parser.get(), CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL) == 0,
                  kSystem, path, ": libcsv could not be started");
  Lines lines{.take = take};
  const auto on_field = [](void* text, size_t size, void* data) {
    static_cast<Lines*>(data)->add_field({static_cast<const char*>(text), size});
  };
  const auto on_end = [](int end, void* data) { static_cast<Lines*>(data)->end_line(end); };
  const auto check = [&](bool fine) {
    if (lines.failure) std::rethrow_exception(lines.failure);
    GRAPESHOT_CHECK(fine, kParse, path, ":", lines.line, ": a quote that does not match another");
  };
  constexpr uint64_t kPiece = 1 << 16;
  for (bool first = true; lines.going; first = false) {
    const std::string piece = source.read(kPiece);
    if (piece.empty()) break;
    std::string_view text = piece;
    GRAPESHOT_CHECK(text.find('\0') == std::string_view::npos, kParse, path, ":", lines.line,
                    ": holds a zero byte here or below; it is no text");
    if (first) {
      if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
      csv_set_delim(parser.get(), static_cast<unsigned char>(separator_of(text)));
    }
    const size_t read = csv_parse(parser.get(), text.data(), text.size(), on_field, on_end, &lines);
    check(read == text.size());
  }
  if (!lines.going) return;
  const int status = csv_fini(parser.get(), on_field, on_end, &lines);
  check(status == 0);
}

bool is_csv(std::string_view path, std::string_view head, int64_t) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  const bool named = path.ends_with(".csv") || path.ends_with(".tsv");
  return named && !head.empty() && head.find('\0') == std::string_view::npos;
}

DataSet read_csv(ByteSource& source, const std::string& path, const Request& request) {
  Table table(path, request);
  for_each_line(source, path, [&](const std::vector<std::string>& fields, int64_t line) {
    return table.take(fields, line);
  });
  return table.finish();
}

}  // namespace grapeshot::data
