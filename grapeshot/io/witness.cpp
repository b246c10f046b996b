// grapeshot/io/witness.cpp: a scanner for pairs, and their writer.
#include "grapeshot/io/witness.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/vnnlib_internal.h"

namespace grapeshot {
namespace {

constexpr int64_t kMostVariables = int64_t{1} << 27;

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& path) : source_{text, path} { next(); }

  Witness run() {
    if (token_ == "sat") next();
    int64_t depth = 0;
    while (!token_.empty()) {
      if (token_ == "(") {
        next();
        if (is_variable()) {
          pair();
        } else {
          ++depth;
        }
      } else if (token_ == ")" && depth > 0) {
        --depth;
        next();
      } else {
        fail("expected a pair such as (X_0 0.5)");
      }
    }
    if (depth > 0) fail("a parenthesis is not closed");
    Witness out;
    out.x = column(0, 'X');
    out.y = column(1, 'Y');
    GRAPESHOT_CHECK(!out.x.empty(), kParse, source_.path,
                    ": no input in it; a witness is a .npy file or pairs such as (X_0 0.5)");
    return out;
  }

 private:
  struct Value {
    int64_t index;
    double value;
    size_t offset;
  };

  [[noreturn]] void fail(std::string_view what) const {
    const std::string found =
        token_.empty() ? "the end of the file" : str("'", printable(token_), "'");
    throw Error(ErrorCode::kParse, str(source_.at(begin_), ": ", what, ", found ", found));
  }

  void next() {
    const std::string_view text = source_.text;
    constexpr std::string_view kBlank = " \t\r\n";
    size_t at = end_;
    while (at < text.size() && (kBlank.find(text[at]) != kBlank.npos || text[at] == ';')) {
      at = text[at] == ';' ? std::min(text.find('\n', at), text.size()) : at + 1;
    }
    begin_ = end_ = at;
    if (at < text.size()) {
      end_ = text[at] == '(' || text[at] == ')'
                 ? at + 1
                 : std::min(text.find_first_of("(); \t\r\n", at), text.size());
    }
    token_ = text.substr(begin_, end_ - begin_);
  }

  bool is_variable() const { return token_.starts_with("X_") || token_.starts_with("Y_"); }

  void pair() {
    const bool output = token_[0] == 'Y';
    const std::string_view digits = token_.substr(2);
    Value value{0, 0., begin_};
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value.index);
    if (failure != std::errc() || end != digits.data() + digits.size() || value.index < 0 ||
        value.index >= kMostVariables) {
      fail("expected a variable such as X_0");
    }
    next();
    const std::optional<double> number = parse_witness_number(token_);
    if (!number) fail("expected a number");
    value.value = *number;
    next();
    if (token_ != ")") fail("expected ) after the number");
    next();
    values_[output ? 1 : 0].push_back(value);
  }

  // In the order of the indices, which have to be 0, 1, 2, ...
  std::vector<double> column(size_t which, char letter) {
    std::vector<Value>& values = values_[which];
    std::ranges::stable_sort(values, {}, &Value::index);
    std::vector<double> out;
    for (const Value& each : values) {
      const auto expected = std::ssize(out);
      GRAPESHOT_CHECK(each.index >= expected, kParse, source_.at(each.offset), ": ", letter, "_",
                      each.index, " has a value already");
      GRAPESHOT_CHECK(each.index == expected, kParse, source_.at(each.offset), ": ", letter, "_",
                      each.index, " is there, ", letter, "_", expected, " is missing");
      out.push_back(each.value);
    }
    return out;
  }

  vnnlib::Source source_;
  std::string_view token_;  ///< empty at the end
  size_t begin_ = 0, end_ = 0;
  std::array<std::vector<Value>, 2> values_;
};

}  // namespace

std::optional<double> parse_witness_number(std::string_view text) {
  std::string_view body = text;
  const bool negative = body.starts_with('-');
  if (negative || body.starts_with('+')) body.remove_prefix(1);
  if (body == "nan" || body == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (body == "inf" || body == "Infinity") {
    return negative ? -std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::infinity();
  }
  std::string whole(text);
  const auto digit = [&](size_t at) { return at < whole.size() && std::isdigit(whole[at]) != 0; };
  if (size_t dot = whole.find('.'); dot != std::string::npos) {
    const bool before = dot > 0 && digit(dot - 1), after = digit(dot + 1);
    if (before && !after) whole.insert(dot + 1, 1, '0');
    if (!before && after) whole.insert(dot, 1, '0');
  }
  const std::optional<Decimal> value = parse_decimal(whole);
  return value ? std::optional(value->nearest) : std::nullopt;
}

Witness parse_witness(std::string_view text, const std::string& path) {
  return Scanner(text, path).run();
}

Witness read_witness(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.starts_with("\x93NUMPY")) return {read_npy(path).values, {}};
  return parse_witness(bytes, path);
}

std::string write_witness(std::span<const float> x, std::span<const double> y) {
  std::string out = "sat\n(";
  const auto add = [&](char letter, size_t i, double value) {
    out += str(out.back() == '(' ? "" : "\n ", "(", letter, "_", i, " ");
    out += shortest_decimal(value) + ")";
  };
  for (size_t i = 0; i < x.size(); ++i) add('X', i, static_cast<double>(x[i]));
  for (size_t i = 0; i < y.size(); ++i) add('Y', i, y[i]);
  return out + ")\n";
}

std::string shortest_decimal(double value) {
  std::array<char, 40> text;
  const auto [end, failure] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

}  // namespace grapeshot
