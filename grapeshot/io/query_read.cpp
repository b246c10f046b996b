// grapeshot/io/query_read.cpp: the grammar and the types of VNN-LIB 2.0, to a Formula.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/query_internal.h"

namespace grapeshot::query {
namespace {

using vnnlib::Atom;
using vnnlib::Clauses;
using vnnlib::Formula;

constexpr size_t kMostTerms = 4096;  // of a polynomial
constexpr size_t kMostDegree = 8;
constexpr size_t kMostDigits = 100;  // of a number in a polynomial
constexpr size_t kMostAllTerms = size_t{1} << 20;
constexpr size_t kMostExtras = size_t{1} << 16;

/// One side of a relation, or a part of it.
struct Expression {
  enum class Kind : uint8_t { kVariable, kLiteral, kTerms };
  Kind kind = Kind::kTerms;
  int32_t variable = 0;  ///< declared inputs, then base outputs
  Token literal = {};
  Terms terms = {};
};

/// Types of an expression so far: of its first constant, or of its variables.
struct Typing {
  std::string_view type;  ///< of variables, empty without
  Family family = Family::kUnknown;
  bool constant = false;

  [[nodiscard]] bool open() const { return !constant && family == Family::kUnknown; }
};

Family constant_family(std::string_view number) {
  if (number.find('.') != std::string_view::npos) return Family::kFloat;
  return number.starts_with('-') ? Family::kSigned : Family::kUnsigned;
}

/// Whether a constant of family `constant` goes with a type of family `type`.
bool fits(Family constant, Family type) {
  if (constant == Family::kUnsigned) return type == Family::kSigned || type == Family::kUnsigned;
  return constant == type;
}

class Reader {
 public:
  Reader(const vnnlib::Source& source, const VnnlibLimits& limits)
      : source_(source), limits_(limits), cursor_(source) {
    if (source_.text.size() > vnnlib::kMaxText)
      cursor_.fail(ErrorCode::kUnsupported, 0, "the text is larger than 4 GiB; split the query");
  }

  Query run() {
    Declarations declared = read_declarations(cursor_);
    query_.path = source_.path;
    query_.networks = std::move(declared.networks);
    query_.variables = std::move(declared.variables);
    query_.base_outputs = declared.outputs;
    inputs_ = declared.inputs;
    index_ = std::move(declared.index);
    same_.resize(static_cast<size_t>(inputs_));
    std::iota(same_.begin(), same_.end(), 0);
    do assertion();
    while (cursor_.token().text == "(assert");
    if (cursor_.token().kind != TokenKind::kEnd) cursor_.fail_as("another (assert ...) or the end");
    cursor_.throw_refusal();
    return finish();
  }

 private:
  void assertion() {
    if (cursor_.token().text != "(assert")
      cursor_.fail_as("(assert ...) or another (declare-network ...)");
    cursor_.take();
    conjunct(formula_.common, rest_, 0, 0);
    cursor_.expect(")");
  }

  void check_depth(int depth) const {
    if (depth >= vnnlib::kMaxDepth)
      cursor_.fail(ErrorCode::kUnsupported, cursor_.token().offset,
                   "the parentheses are nested more than ", vnnlib::kMaxDepth, " deep");
  }

  /// Reads one formula as one more conjunct of `common` and `rest`, for atoms of `group`.
  void conjunct(std::vector<int32_t>& common, Clauses& rest, int32_t group, int depth) {
    check_depth(depth);
    const size_t offset = cursor_.token().offset;
    cursor_.expect("(");
    if (cursor_.token().kind == TokenKind::kRelation) {
      comparison(common, rest, group, offset, depth);
      return;
    }
    const Token head = cursor_.take(TokenKind::kConnective, "and, or or a comparison");
    if (cursor_.token().text == ")") cursor_.fail_as(str("an operand of '", head.text, "'"));
    if (head.text == "and") {
      while (!cursor_.accept(")")) conjunct(common, rest, group, depth + 1);
      return;
    }
    Clauses either;
    while (!cursor_.accept(")")) {
      const size_t place = cursor_.token().offset;
      std::vector<int32_t> own;
      Clauses inner = Clauses::nothing();
      conjunct(own, inner, formula_.groups++, depth + 1);
      append(either, product({.atoms = own, .ends = {own.size()}}, std::move(inner), limits_,
                             source_, place));
      check_size(either.size(), either.atoms.size(), limits_, source_, place);
    }
    rest = product(rest, std::move(either), limits_, source_, offset);
  }

  void comparison(std::vector<int32_t>& common, Clauses& rest, int32_t group, size_t offset,
                  int depth) {
    const std::string_view relation = cursor_.take().text;
    typing_ = {};
    Expression a = expression(depth), b = expression(depth);
    if (cursor_.token().text != ")")
      cursor_.fail_as(str("')' behind the two sides of '", relation, "'"));
    const size_t end = cursor_.take().offset + 1;
    if (relation == "==" && group == 0 && is_input(a) && is_input(b)) {
      unite(a.variable, b.variable);
      return;
    }
    const std::optional<int32_t> extra = extra_of(a, b, offset, end);
    const auto add = [&](bool less, bool strict, int32_t to) {
      return atom(a, b, extra, less, strict, offset, to);
    };
    if (relation == "!=") {
      Clauses either;
      for (const bool less : {true, false})
        append(either, {.atoms = {add(less, true, formula_.groups++)}, .ends = {1}});
      rest = product(rest, std::move(either), limits_, source_, offset);
    } else if (relation == "==") {
      for (const bool less : {true, false}) common.push_back(add(less, false, group));
    } else {
      common.push_back(add(relation[0] == '<', relation.size() == 1, group));
    }
  }

  [[nodiscard]] bool is_input(const Expression& e) const {
    return e.kind == Expression::Kind::kVariable && e.variable < inputs_;
  }
  [[nodiscard]] bool is_output(const Expression& e) const {
    return e.kind == Expression::Kind::kVariable && e.variable >= inputs_;
  }

  void unite(int32_t a, int32_t b) {
    const int32_t one = first_of(a), other = first_of(b);
    same_[static_cast<size_t>(std::max(one, other))] = std::min(one, other);
  }
  /// The first of the inputs that equal this one.
  int32_t first_of(int32_t input) {
    while (same_[static_cast<size_t>(input)] != input) {
      int32_t& next = same_[static_cast<size_t>(input)];
      next = same_[static_cast<size_t>(next)];
      input = next;
    }
    return input;
  }

  /// The extra output that decides a against b, where that takes one.
  std::optional<int32_t> extra_of(const Expression& a, const Expression& b, size_t offset,
                                  size_t end) {
    using Kind = Expression::Kind;
    if (a.kind == Kind::kVariable && b.kind == Kind::kLiteral) return std::nullopt;
    if (a.kind == Kind::kLiteral && b.kind == Kind::kVariable) return std::nullopt;
    if (is_output(a) && is_output(b) && a.variable != b.variable) return std::nullopt;
    Terms terms = terms_of(a);
    add_terms(terms, terms_of(b), -1);
    return add_extra(std::move(terms), offset, end);
  }

  int32_t add_extra(Terms terms, size_t offset, size_t end) {
    all_terms_ += terms.size();
    if (exact_.extras.size() >= kMostExtras || all_terms_ > kMostAllTerms)
      cursor_.fail(ErrorCode::kUnsupported, offset, "the query has more than ", kMostExtras,
                   " polynomials or ", kMostAllTerms, " terms in them");
    exact_.extras.push_back(std::move(terms));
    std::string text;
    for (const char c : source_.text.substr(offset, std::min<size_t>(end - offset, 200)))
      if (!vnnlib::is_blank(c) || !text.ends_with(' ')) text += vnnlib::is_blank(c) ? ' ' : c;
    query_.extras.push_back({.text = end - offset > 200 ? text + "..." : text, .terms = {}});
    return static_cast<int32_t>(exact_.extras.size() - 1);
  }

  /// a <= b or, unless `less`, b <= a.
  int32_t atom(const Expression& a, const Expression& b, std::optional<int32_t> extra, bool less,
               bool strict, size_t offset, int32_t group) {
    Atom out{.offset = static_cast<uint32_t>(offset),
             .group = group & vnnlib::kGroupBits,
             .strict = strict};
    const auto set_variable = [&](int64_t number) {
      out.variable = static_cast<uint32_t>(number) & (vnnlib::kMaxVariables - 1);
    };
    if (extra) {
      out.kind = Atom::Kind::kExtra;
      set_variable(*extra);
      out.upper = less;
    } else if (is_output(a) && is_output(b)) {
      out.kind = Atom::Kind::kDifference;
      set_variable((less ? a : b).variable - inputs_);
      out.second = static_cast<uint32_t>((less ? b : a).variable - inputs_);
    } else {
      const bool variable_first = a.kind == Expression::Kind::kVariable;
      const Expression& variable = variable_first ? a : b;
      out.kind = is_input(variable) ? Atom::Kind::kInput : Atom::Kind::kOutput;
      set_variable(is_input(variable) ? variable.variable : variable.variable - inputs_);
      out.upper = less == variable_first;
      set_literal(out, (variable_first ? b : a).literal);
    }
    if (formula_.atoms.size() >= vnnlib::kMaxVariables)
      cursor_.fail(ErrorCode::kUnsupported, offset, "the query has more than ",
                   vnnlib::kMaxVariables, " relations");
    formula_.atoms.push_back(out);
    return static_cast<int32_t>(formula_.atoms.size() - 1);
  }

  void set_literal(Atom& out, const Token& literal) {
    const Decimal value = parse_decimal(literal.text).value_or(Decimal{});
    if (out.kind == Atom::Kind::kInput && !std::isfinite(value.nearest32))
      cursor_.refuse(literal.offset, "the bound ", printable(literal.text),
                     " does not fit float32; write one within +-3.4e38");
    out.nearest = value.nearest;
    out.second = static_cast<uint32_t>(formula_.literals.size());
    // In place of the text, where a literal may end in the middle of a word.
    formula_.literals += literal.text;
    formula_.literals += ' ';
    if (formula_.literals.size() > vnnlib::kMaxText)
      cursor_.fail(ErrorCode::kUnsupported, literal.offset,
                   "the numbers are larger than 4 GiB together");
  }

  Expression expression(int depth) {
    check_depth(depth);
    if (cursor_.token().kind == TokenKind::kNumber) return literal();
    if (cursor_.token().kind == TokenKind::kName) return element();
    if (cursor_.token().text != "(") cursor_.fail_as("a variable, a number or an operation");
    cursor_.take();
    const Token op = cursor_.token();
    if (op.text != "+" && op.text != "-" && op.text != "*") cursor_.fail_as("one of + - *");
    cursor_.take();
    if (cursor_.token().text == ")") cursor_.fail_as(str("an operand of '", op.text, "'"));
    Terms out = terms_of(expression(depth + 1));
    if (op.text == "-" && cursor_.token().text == ")") {
      Terms negative;
      add_terms(negative, out, -1);
      out = std::move(negative);
    }
    while (!cursor_.accept(")")) {
      const Terms next = terms_of(expression(depth + 1));
      if (op.text == "*") {
        out = multiply(out, next, op.offset);
      } else {
        add_terms(out, next, op.text == "+" ? 1 : -1);
      }
      if (out.size() > kMostTerms) fail_as_large(op.offset);
    }
    return {.terms = std::move(out)};
  }

  Expression literal() {
    const Token number = cursor_.take();
    const bool is_whole = number.text.find('.') == std::string_view::npos;
    int64_t value = 0;
    const char* last = number.text.data() + number.text.size();
    const bool fits64 = is_whole
                            ? std::from_chars(number.text.data(), last, value).ec == std::errc{}
                            : std::isfinite(parse_decimal(number.text).value_or(Decimal{}).nearest);
    if (!fits64)
      cursor_.fail(ErrorCode::kParse, number.offset, "the number does not fit ",
                   is_whole ? "int64" : "float64");
    const Family family = constant_family(number.text);
    const bool both_whole = (family == Family::kFloat) == (typing_.family == Family::kFloat);
    if (typing_.open()) {
      typing_ = {{}, family, true};
    } else if (!(typing_.constant ? both_whole : fits(family, typing_.family))) {
      cursor_.fail(
          ErrorCode::kParse, number.offset, "the constant ", number.text, " does not go with ",
          typing_.constant ? std::string("the constants before it")
                           : str("the type ", typing_.type),
          "; write fractions such as 1.0 with float types, whole numbers with integer ones");
    }
    return {.kind = Expression::Kind::kLiteral, .literal = number};
  }

  Expression element() {
    const Token name = cursor_.take();
    const auto known = index_.find(name.text);
    if (known == index_.end())
      cursor_.fail(ErrorCode::kParse, name.offset, printable(name.text), " is not declared");
    const Variable& variable = query_.variables[known->second];
    check_type(variable, name.offset);
    std::vector<int64_t> index;
    if (cursor_.accept("[")) {
      do index.push_back(cursor_.whole(cursor_.take(TokenKind::kNumber, "an index"), 0, "index"));
      while (cursor_.accept(","));
      cursor_.expect("]");
      if (variable.shape.empty())
        cursor_.fail(ErrorCode::kParse, name.offset, name.text, " is a scalar and takes no index");
    }
    if (index.size() != variable.shape.size())
      cursor_.fail(ErrorCode::kParse, name.offset, name.text, " takes ", variable.shape.size(),
                   variable.shape.size() == 1 ? " index, found " : " indices, found ",
                   index.size());
    int64_t flat = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      if (index[i] >= variable.shape[i])
        cursor_.fail(ErrorCode::kParse, name.offset, "the index ", index[i], " of ", name.text,
                     " is beyond its size ", variable.shape[i]);
      flat = flat * variable.shape[i] + index[i];
    }
    const int64_t base = variable.role == Role::kInput ? 0 : inputs_;
    return {.kind = Expression::Kind::kVariable,
            .variable = static_cast<int32_t>(base + variable.begin + flat)};
  }

  void check_type(const Variable& variable, size_t offset) {
    const Family family = family_of(variable.type);
    if (typing_.open() || (typing_.constant && fits(typing_.family, family))) {
      typing_ = {variable.type, family, false};
      return;
    }
    if (typing_.constant)
      cursor_.fail(
          ErrorCode::kParse, offset, variable.name, " is of type ", variable.type,
          ", which does not go with the constants before it; write fractions such as 1.0 with "
          "float types, whole numbers with integer ones");
    if (typing_.type != variable.type)
      cursor_.fail(ErrorCode::kParse, offset, variable.name, " is of type ", variable.type,
                   ", the variables before it are of type ", typing_.type);
  }

  Terms terms_of(const Expression& e) {
    switch (e.kind) {
      case Expression::Kind::kVariable:
        return {{{e.variable}, 1}};
      case Expression::Kind::kLiteral: {
        if (e.literal.text.size() > kMostDigits) {
          cursor_.refuse(e.literal.offset, "a number in a polynomial has more than ", kMostDigits,
                         " digits");
          return {};
        }
        mpq_class value = rational(e.literal.text);
        if (value == 0) return {};
        return {{{}, std::move(value)}};
      }
      case Expression::Kind::kTerms:
        return e.terms;
    }
    return {};
  }

  static void add_terms(Terms& to, const Terms& from, int sign) {
    for (const auto& [factors, coefficient] : from) {
      mpq_class& sum = to[factors];
      sum += coefficient * sign;
      if (sum == 0) to.erase(factors);
    }
  }

  Terms multiply(const Terms& a, const Terms& b, size_t offset) const {
    if (a.size() * b.size() > 16 * kMostTerms) fail_as_large(offset);
    Terms out;
    for (const auto& [fa, ca] : a) {
      for (const auto& [fb, cb] : b) {
        if (fa.size() + fb.size() > kMostDegree) fail_as_large(offset);
        std::vector<int32_t> factors;
        std::ranges::merge(fa, fb, std::back_inserter(factors));
        mpq_class& sum = out[factors];
        sum += ca * cb;
        if (sum == 0) out.erase(factors);
      }
    }
    return out;
  }

  [[noreturn]] void fail_as_large(size_t offset) const {
    cursor_.fail(ErrorCode::kUnsupported, offset, "multiplies out to more than ", kMostTerms,
                 " terms or to a degree above ", kMostDegree);
  }

  Query finish() {
    place_inputs();
    require_rows();
    formula_.extras = exact_.extras.size();
    formula_.clauses = std::move(rest_);
    query_.exact = std::make_shared<const Exact>(std::move(exact_));
    try {
      query_.property = vnnlib::build_property(formula_, source_, limits_);
    } catch (const Error& error) {
      // Inputs without bounds and bounds that contradict each other are no mistakes of the text
      // here.
      throw Error(ErrorCode::kUnsupported, error.what());
    }
    return std::move(query_);
  }

  /// Numbers the inputs without those that equal another one, and all that mentions them.
  void place_inputs() {
    int32_t joined = 0;
    query_.place.resize(static_cast<size_t>(inputs_));
    for (const Variable& each : query_.variables) {
      if (each.role != Role::kInput) {
        formula_.outputs.insert(formula_.outputs.end(), static_cast<size_t>(each.size),
                                each.offset);
        continue;
      }
      for (int64_t i = each.begin; i < each.begin + each.size; ++i) {
        const int32_t first = first_of(static_cast<int32_t>(i));
        const bool own = first == i;
        query_.place[static_cast<size_t>(i)] =
            own ? joined++ : query_.place[static_cast<size_t>(first)];
        if (!own) continue;
        formula_.inputs.push_back(each.offset);
        formula_.input_names.push_back(query_.element(each, i - each.begin));
      }
    }
    for (Atom& each : formula_.atoms) {
      if (each.kind == Atom::Kind::kInput)
        each.variable =
            static_cast<uint32_t>(query_.place[each.variable]) & (vnnlib::kMaxVariables - 1);
    }
    const auto shift = static_cast<int32_t>(inputs_) - joined;
    for (size_t k = 0; k < exact_.extras.size(); ++k) {
      Terms placed;
      for (const auto& [factors, coefficient] : exact_.extras[k]) {
        std::vector<int32_t> now;
        for (const int32_t f : factors)
          now.push_back(f < inputs_ ? query_.place[static_cast<size_t>(f)] : f - shift);
        std::ranges::sort(now);
        add_terms(placed, {{std::move(now), coefficient}}, 1);
      }
      for (const auto& [factors, coefficient] : placed)
        query_.extras[k].terms.push_back({factors, coefficient.get_d()});
      exact_.extras[k] = std::move(placed);
    }
  }

  /// A case needs a row. A conjunction of bounds alone, which any input in them satisfies, gets 0
  /// <= 0.
  void require_rows() {
    const auto is_row = [&](int32_t index) {
      return formula_.atoms[static_cast<size_t>(index)].kind != Atom::Kind::kInput;
    };
    if (std::ranges::any_of(formula_.common, is_row)) return;
    bool all = true;
    for (size_t i = 0; i < rest_.size() && all; ++i) all = std::ranges::any_of(rest_[i], is_row);
    if (all) return;
    const int32_t extra = add_extra({}, 0, 0);
    query_.extras.back().text = "the bounds of the inputs";
    formula_.common.push_back(atom({}, {}, extra, true, false, 0, 0));
  }

  const vnnlib::Source& source_;
  const VnnlibLimits& limits_;
  Cursor cursor_;
  Query query_;
  Exact exact_;
  Formula formula_;
  Clauses rest_ = Clauses::nothing();
  int64_t inputs_ = 0;  // declared
  std::unordered_map<std::string_view, size_t> index_;
  std::vector<int32_t> same_;  // for every declared input an earlier one that equals it, or itself
  Typing typing_;              // of the comparison at hand
  size_t all_terms_ = 0;
};

}  // namespace

Query parse_query(std::string_view text, const std::string& path, const VnnlibLimits& limits) {
  const vnnlib::Source source{text, path};
  return Reader(source, limits).run();
}

}  // namespace grapeshot::query
