#include "grapeshot/io/vnnlib.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/vnnlib_internal.h"

namespace grapeshot {
namespace vnnlib {
namespace {

constexpr uint32_t kIndexBits = kMaxVariables - 1;
constexpr size_t kUndeclared = std::numeric_limits<size_t>::max();

struct Token {
  std::string_view text;  // "(", ")", a word; empty at the end
  size_t offset = 0;
};

/// One side of a relation.
struct Operand {
  char kind = '0';  // 'X', 'Y' or '0' for a literal
  int32_t index = 0;
  std::string_view text = {};
  double nearest = 0.;
  bool fits32 = true;  // its nearest float32 is finite
  size_t offset = 0;
};

/// The i of "X_i" and "Y_i", nullopt for every other word; saturates.
std::optional<size_t> variable_index(std::string_view word) {
  if (!word.starts_with("X_") && !word.starts_with("Y_")) return std::nullopt;
  word.remove_prefix(2);
  if (word.empty() || word.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  if (word.size() > 1 && word[0] == '0') return std::nullopt;
  size_t index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  return error == std::errc{} ? index : std::numeric_limits<size_t>::max();
}

bool is_no_number(std::string_view word) {
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  std::string lower(word.substr(0, 10));
  for (char& c : lower) c = static_cast<char>(c | 0x20);
  return lower == "nan" || lower == "inf" || lower == "infinity";
}

class Reader {
 public:
  Reader(const Source& source, const VnnlibLimits& limits) : source_(source), limits_(limits) {
    if (source_.text.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  Formula run() {
    if (source_.text.size() > kMaxText)
      fail(ErrorCode::kUnsupported, 0, "the text is larger than 4 GiB; split the specification");
    while (!peek().text.empty()) command();
    command_ = std::nullopt;
    if (!any_command_)
      fail(ErrorCode::kParse, 0,
           "the specification is empty; declare X_0..., Y_0... and assert what a violation is");
    check_declarations(formula_.inputs, 'X', "input");
    check_declarations(formula_.outputs, 'Y', "output");
    formula_.clauses = std::move(rest_);
    return std::move(formula_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(ErrorCode code, size_t offset, const Parts&... parts) const {
    throw Error(code, str(source_.at(offset), ": ", parts...));
  }

  void skip_blanks() {
    const std::string_view text = source_.text;
    while (at_ < text.size()) {
      if (text[at_] == ';') {
        at_ = std::min(text.find('\n', at_), text.size());
      } else if (is_blank(text[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }

  Token peek() {
    skip_blanks();
    const std::string_view word = source_.word(at_);
    return {word.empty() ? source_.text.substr(at_, 1) : word, at_};  // one is a parenthesis
  }

  /// The next token; inside a command the text must not end.
  Token next() {
    const Token token = peek();
    const size_t start = command_.value_or(0);
    at_ = token.offset + token.text.size();
    // A word that touches the end may be half of one, so it is not judged.
    const bool cut = at_ == source_.text.size() && token.text != ")" && token.offset != start;
    if (token.text.empty() || cut)
      fail(ErrorCode::kParse, at_, "the file ends inside the command that starts in line ",
           source_.line(start), "; it may be truncated");
    return token;
  }

  void expect(std::string_view text) {
    const Token token = next();
    if (token.text != text)
      fail(ErrorCode::kParse, token.offset, "expected '", text, "', found '", printable(token.text),
           "'");
  }

  bool accept(std::string_view text) {
    const Token token = peek();
    if (token.text != text) return false;
    at_ = token.offset + token.text.size();
    return true;
  }

  void command() {
    command_ = peek().offset;
    any_command_ = true;
    const Token open = next();
    if (open.text == ")")
      fail(ErrorCode::kParse, open.offset, "this ')' closes nothing; remove it");
    if (open.text != "(")
      fail(ErrorCode::kParse, open.offset, "expected a command such as (assert ...), found '",
           printable(open.text), "'");
    const Token name = next();
    if (name.text == "declare-const") {
      declare();
    } else if (name.text == "assert") {
      conjunct(formula_.common, rest_, 0, 0);
      expect(")");
    } else {
      if (name.text == "(" || name.text == ")")
        fail(ErrorCode::kParse, name.offset, "expected declare-const or assert, found '", name.text,
             "'");
      fail(ErrorCode::kUnsupported, name.offset, "the command '", printable(name.text),
           "' is not supported; use declare-const and assert, as VNN-LIB 1.0 does");
    }
  }

  void declare() {
    const Token name = next();
    const std::optional<size_t> index = variable_index(name.text);
    if (!index)
      fail(ErrorCode::kParse, name.offset, "expected a variable X_i or Y_j to declare, found '",
           printable(name.text), "'");
    const Token sort = next();
    if (sort.text != "Real")
      fail(ErrorCode::kUnsupported, sort.offset, "the sort '", printable(sort.text),
           "' is not supported; declare ", printable(name.text), " as Real");
    expect(")");
    // A text of n bytes declares fewer than n variables.
    if (*index >= std::min(source_.text.size(), kMaxVariables))
      fail(ErrorCode::kParse, name.offset, printable(name.text),
           " leaves a gap; number the variables from 0 without one");
    std::vector<size_t>& declared = name.text[0] == 'X' ? formula_.inputs : formula_.outputs;
    if (*index >= declared.size()) declared.resize(*index + 1, kUndeclared);
    size_t& place = declared[*index];
    if (place != kUndeclared)
      fail(ErrorCode::kParse, name.offset, name.text, " is declared twice, first in line ",
           source_.line(place));
    place = name.offset;
  }

  void check_declarations(const std::vector<size_t>& declared, char kind,
                          std::string_view what) const {
    if (declared.empty())
      fail(ErrorCode::kParse, source_.text.size(), "no ", what, " is declared; add (declare-const ",
           kind, "_0 Real)");
    const auto gap = std::ranges::find(declared, kUndeclared);
    if (gap == declared.end()) return;
    const auto after = std::ranges::find_if(gap, declared.end(),
                                            [](size_t place) { return place != kUndeclared; });
    fail(ErrorCode::kParse, *after, kind, '_', after - declared.begin(), " leaves a gap: ", kind,
         '_', gap - declared.begin(), " is not declared");
  }

  /// Reads one formula as one more conjunct of `common` and `rest`, for atoms of `group`.
  void conjunct(std::vector<int32_t>& common, Clauses& rest, int32_t group, int depth) {
    const Token open = next();
    if (open.text != "(") fail_as_formula(open);
    if (depth >= kMaxDepth)
      fail(ErrorCode::kUnsupported, open.offset, "the parentheses are nested more than ", kMaxDepth,
           " deep");
    const Token head = next();
    if (head.text == "<=" || head.text == ">=") {
      common.push_back(atom(head.text, open.offset, group));
      return;
    }
    if (head.text != "and" && head.text != "or") fail_as_formula(head);
    if (peek().text == ")")
      fail(ErrorCode::kParse, head.offset, "this '", head.text, "' has no operand");
    if (head.text == "and") {
      while (!accept(")")) conjunct(common, rest, group, depth + 1);
      return;
    }
    Clauses either = disjunction(depth);
    if (either.size() == 1) {
      common.insert(common.end(), either.atoms.begin(), either.atoms.end());
    } else {
      rest = product(rest, std::move(either), limits_, source_, head.offset);
    }
  }

  /// The operands of an `or`, up to its closing parenthesis.
  Clauses disjunction(int depth) {
    Clauses out;
    while (!accept(")")) {
      const size_t offset = peek().offset;
      std::vector<int32_t> common;
      Clauses rest = Clauses::nothing();
      conjunct(common, rest, formula_.groups++, depth + 1);
      append(out, product({.atoms = common, .ends = {common.size()}}, std::move(rest), limits_,
                          source_, offset));
      check_size(out.size(), out.atoms.size(), limits_, source_, offset);
    }
    return out;
  }

  [[noreturn]] void fail_as_formula(const Token& token) const {
    constexpr std::array<std::string_view, 10> kLogic = {
        "not", "=>", "xor", "ite", "let", "forall", "exists", "distinct", "true", "false"};
    const auto unsupported = [&](std::string_view what, std::string_view advice) {
      fail(ErrorCode::kUnsupported, token.offset, what, " '", token.text, "' is not supported; ",
           advice);
    };
    if (token.text == "<" || token.text == ">")
      unsupported("the strict relation", token.text == "<" ? "write <=" : "write >=");
    if (token.text == "=") unsupported("the relation", "write <= and >=");
    if (std::ranges::count(kLogic, token.text))
      unsupported("the operator", "write the assertion with and, or, <= and >=");
    fail(ErrorCode::kParse, token.offset, "expected a formula of and, or, <= and >=, found '",
         printable(token.text), "'");
  }

  Operand operand(std::string_view relation) {
    const Token token = next();
    if (token.text == ")")
      fail(ErrorCode::kParse, token.offset, "this '", relation, "' lacks an operand");
    if (token.text == "(") fail_as_operand(token);
    Operand out{.text = token.text, .offset = token.offset};
    if (const std::optional<size_t> index = variable_index(token.text)) {
      out.kind = token.text[0];
      const std::vector<size_t>& declared = out.kind == 'X' ? formula_.inputs : formula_.outputs;
      if (*index >= declared.size() || declared[*index] == kUndeclared)
        fail(ErrorCode::kParse, token.offset, printable(token.text),
             " is not declared; add (declare-const ", printable(token.text),
             " Real) before this line");
      out.index = static_cast<int32_t>(*index);
      return out;
    }
    if (is_no_number(token.text))
      fail(ErrorCode::kParse, token.offset, "'", printable(token.text),
           "' is no bound; write a finite decimal");
    const std::optional<Decimal> value = parse_decimal(token.text);
    if (!value)
      fail(ErrorCode::kParse, token.offset, "expected a variable X_i, Y_j or a decimal, found '",
           printable(token.text), "'");
    if (!std::isfinite(value->nearest))
      fail(ErrorCode::kParse, token.offset, "the bound ", printable(token.text),
           " does not fit float64; write one within +-1.797e308");
    out.nearest = value->nearest;
    out.fits32 = std::isfinite(value->nearest32);
    return out;
  }

  [[noreturn]] void fail_as_operand(const Token& open) {
    constexpr std::array<std::string_view, 4> kArithmetic = {"+", "-", "*", "/"};
    const Token head = next();
    if (std::ranges::count(kArithmetic, head.text))
      fail(ErrorCode::kUnsupported, open.offset, "arithmetic with '", head.text,
           "' is not supported; compare an input or output with a decimal, or two outputs");
    fail(ErrorCode::kParse, open.offset, "expected a variable X_i, Y_j or a decimal, found '('");
  }

  /// The rest of a relation, from its first operand to its closing parenthesis.
  int32_t atom(std::string_view relation, size_t offset, int32_t group) {
    Operand left = operand(relation), right = operand(relation);
    const Token close = next();
    if (close.text != ")")
      fail(ErrorCode::kParse, close.offset, "this '", relation, "' has more than two operands");
    if (relation == ">=") std::swap(left, right);
    Atom out{.offset = static_cast<uint32_t>(offset), .group = group & kGroupBits};
    if (left.kind == 'Y' && right.kind == 'Y') {
      if (left.index == right.index)
        fail(ErrorCode::kUnsupported, offset, left.text,
             " is compared with itself, which always holds; remove the relation");
      out.kind = Atom::Kind::kDifference;
      out.variable = static_cast<uint32_t>(left.index) & kIndexBits;
      out.second = static_cast<uint32_t>(right.index);
    } else {
      if (left.kind == '0' && right.kind == '0')
        fail(ErrorCode::kParse, offset,
             "two decimals are compared; one side must be an input or output");
      if (left.kind != '0' && right.kind != '0')
        fail(ErrorCode::kUnsupported, offset, "comparing ", left.text, " with ", right.text,
             " is not supported; an input is compared with a decimal only");
      out.upper = right.kind == '0';
      set_bound(out, out.upper ? left : right, out.upper ? right : left);
    }
    if (formula_.atoms.size() >= kMaxVariables)
      fail(ErrorCode::kUnsupported, offset, "the specification has more than ", kMaxVariables,
           " relations");
    formula_.atoms.push_back(out);
    return static_cast<int32_t>(formula_.atoms.size() - 1);
  }

  void set_bound(Atom& out, const Operand& variable, const Operand& literal) const {
    out.kind = variable.kind == 'X' ? Atom::Kind::kInput : Atom::Kind::kOutput;
    out.variable = static_cast<uint32_t>(variable.index) & kIndexBits;
    out.second = static_cast<uint32_t>(literal.offset);
    out.nearest = literal.nearest;
    if (variable.kind == 'X' && !literal.fits32)
      fail(ErrorCode::kParse, literal.offset, "the bound ", printable(literal.text), " of ",
           variable.text, " does not fit float32; write one within +-3.4e38");
  }

  const Source& source_;
  const VnnlibLimits& limits_;
  size_t at_ = 0;
  std::optional<size_t> command_;  // where the open command starts
  bool any_command_ = false;
  Clauses rest_ = Clauses::nothing();
  Formula formula_;
};

}  // namespace

Formula read_formula(const Source& source, const VnnlibLimits& limits) {
  return Reader(source, limits).run();
}

}  // namespace vnnlib

Property parse_vnnlib(std::string_view text, const std::string& path, const VnnlibLimits& limits) {
  const vnnlib::Source source{text, path};
  return vnnlib::build_property(vnnlib::read_formula(source, limits), source, limits);
}

Property read_vnnlib(const std::string& path) {
  const std::string found = resolve_file(path);
  return parse_vnnlib(read_file(found), found);
}

}  // namespace grapeshot
