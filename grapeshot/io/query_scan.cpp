// grapeshot/io/query_scan.cpp: the tokens of VNN-LIB 2.0 and its element types.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/query_internal.h"

namespace grapeshot::query {
namespace {

constexpr std::array<std::string_view, 8> kOpenings = {
    "(assert",        "(declare-input", "(declare-output",  "(declare-hidden",
    "(isomorphic-to", "(equal-to",      "(declare-network", "(vnnlib-version"};
constexpr std::array<std::string_view, 6> kRelations = {"<=", ">=", "==", "!=", "<", ">"};

constexpr std::pair<std::string_view, Family> kTypes[] = {{"real", Family::kFloat},
                                                          {"float16", Family::kFloat},
                                                          {"float32", Family::kFloat},
                                                          {"float64", Family::kFloat},
                                                          {"bfloat16", Family::kFloat},
                                                          {"float8e4m3fn", Family::kFloat},
                                                          {"float8e5m2", Family::kFloat},
                                                          {"float8e4m3fnuz", Family::kFloat},
                                                          {"float8e5m2fnuz", Family::kFloat},
                                                          {"float4e2m1", Family::kFloat},
                                                          {"int8", Family::kSigned},
                                                          {"int16", Family::kSigned},
                                                          {"int32", Family::kSigned},
                                                          {"int64", Family::kSigned},
                                                          {"uint8", Family::kUnsigned},
                                                          {"uint16", Family::kUnsigned},
                                                          {"uint32", Family::kUnsigned},
                                                          {"uint64", Family::kUnsigned},
                                                          {"complex64", Family::kOther},
                                                          {"complex128", Family::kOther},
                                                          {"bool", Family::kOther}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size()) {
    if (text[at] == ';') {
      at = std::min(text.find('\n', at), text.size());
    } else if (vnnlib::is_blank(text[at])) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

template <class Condition>
size_t while_true(std::string_view text, size_t at, Condition condition) {
  while (at < text.size() && condition(text[at])) ++at;
  return at;
}

/// The end of digits[.digits] from `at`, or `at`.
size_t number_end(std::string_view text, size_t at) {
  const size_t whole = while_true(text, at, is_digit);
  if (whole == at || whole + 1 >= text.size() || text[whole] != '.' || !is_digit(text[whole + 1])) {
    return whole;
  }
  return while_true(text, whole + 1, is_digit);
}

/// The end of a string from its opening quote, npos when it is none.
size_t string_end(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] != '\\') continue;
    ++at;
    if (at >= text.size() || std::string_view("\"\\nt").find(text[at]) == std::string_view::npos) {
      break;
    }
  }
  return std::string_view::npos;
}

/// Whether digits are followed by an exponent.
bool has_exponent(std::string_view text, size_t at) {
  if (at >= text.size() || (text[at] != 'e' && text[at] != 'E')) return false;
  ++at;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  return at < text.size() && is_digit(text[at]);
}

}  // namespace

Token scan(const vnnlib::Source& source, size_t offset) {
  const std::string_view text = source.text;
  const size_t at = skip_blanks(text, offset);
  const auto token = [&](TokenKind kind, size_t end) {
    return Token{kind, text.substr(at, end - at), at};
  };
  if (at >= text.size()) return token(TokenKind::kEnd, at);
  const char c = text[at];
  const std::string_view rest = text.substr(at);
  if (c == '(') {
    const auto opening = std::ranges::find_if(
        kOpenings, [&](std::string_view each) { return rest.starts_with(each); });
    if (opening != kOpenings.end()) return token(TokenKind::kOpening, at + opening->size());
    return token(TokenKind::kPunctuation, at + 1);
  }
  if (is_digit(c) || (c == '-' && rest.size() > 1 && is_digit(rest[1]))) {
    const size_t end = number_end(text, is_digit(c) ? at : at + 1);
    GRAPESHOT_CHECK(!has_exponent(text, end), kParse, source.at(at),
                    ": VNN-LIB 2.0 has no numbers with an exponent; write this one out, such as "
                    "0.00001");
    return token(TokenKind::kNumber, end);
  }
  if (c == '<' && rest.size() > 1 && is_digit(rest[1])) {
    const size_t end = number_end(text, at + 1);
    const bool dotted = text.substr(at, end - at).find('.') != std::string_view::npos;
    if (dotted && end < text.size() && text[end] == '>') return token(TokenKind::kVersion, end + 1);
  }
  for (const std::string_view relation : kRelations) {
    if (rest.starts_with(relation)) return token(TokenKind::kRelation, at + relation.size());
  }
  if (std::string_view(")[],+-*").find(c) != std::string_view::npos) {
    return token(TokenKind::kPunctuation, at + 1);
  }
  if (is_letter(c)) {
    const size_t end = while_true(
        text, at, [](char each) { return is_letter(each) || is_digit(each) || each == '_'; });
    const std::string_view word = text.substr(at, end - at);
    return token(word == "and" || word == "or" ? TokenKind::kConnective : TokenKind::kName, end);
  }
  const size_t quoted = c == '"' ? string_end(text, at) : std::string_view::npos;
  if (quoted != std::string_view::npos) return token(TokenKind::kString, quoted);
  if (c == '=') {
    throw Error(ErrorCode::kParse, str(source.at(at), ": write == for equality, not '='"));
  }
  throw Error(ErrorCode::kParse, str(source.at(at), ": '", printable(rest.substr(0, 1)),
                                     "' begins nothing that VNN-LIB 2.0 knows"));
}

Cursor::Cursor(const vnnlib::Source& source)
    : source_(source), token_(scan(source, source.text.starts_with("\xef\xbb\xbf") ? 3 : 0)) {}

Token Cursor::take() {
  const size_t end = token_.offset + token_.text.size();
  if (end == source_.text.size() && token_.text != ")") {
    fail(ErrorCode::kParse, end, "the file ends in the middle; it may be truncated");
  }
  return std::exchange(token_, scan(source_, end));
}

void Cursor::fail_as(std::string_view expected) const {
  if (token_.kind == TokenKind::kEnd)
    fail(ErrorCode::kParse, token_.offset, "expected ", expected,
         ", found the end of the file; it may be truncated");
  std::string_view advice;
  if (token_.text == "(") {
    const Token word = scan(source_, token_.offset + 1);
    const bool keyword = word.text == "assert" || word.text == "declare";
    if (keyword && word.offset > token_.offset + 1)
      advice = "; no blank may stand between '(' and such a word";
  }
  fail(ErrorCode::kParse, token_.offset, "expected ", expected, ", found '", printable(token_.text),
       "'", advice);
}

int64_t Cursor::whole(const Token& number, int64_t otherwise, std::string_view what) {
  int64_t value = 0;
  const char* last = number.text.data() + number.text.size();
  const auto [end, error] = std::from_chars(number.text.data(), last, value);
  if (error != std::errc{}) fail(ErrorCode::kParse, number.offset, number.text, " is out of range");
  if (end == last && value >= 0) return value;
  refuse(number.offset, "the ", what, " ", number.text, " is no whole number from 0");
  return otherwise;
}

Family family_of(std::string_view type) {
  const auto row = std::ranges::find(kTypes, type, &std::pair<std::string_view, Family>::first);
  return row == std::end(kTypes) ? Family::kUnknown : row->second;
}

bool is_query(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  size_t at = skip_blanks(text, 0);
  if (at >= text.size() || text[at] != '(') return false;
  at = skip_blanks(text, at + 1);
  // The second begins what lacks a version.
  return text.substr(at).starts_with("vnnlib-version") ||
         text.substr(at).starts_with("declare-network");
}

}  // namespace grapeshot::query
