// Bad specifications: the exact message of each, and no input that does worse than an Error.
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "grapeshot/io/vnnlib.h"
#include "tests/support/files.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

namespace {

const std::string kDeclared =
    "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n(declare-const "
    "Y_1 Real)\n";
const std::string kBounded =
    kDeclared + "(assert (>= X_0 0))(assert (<= X_0 1))(assert (>= X_1 0))(assert (<= X_1 1))\n";

std::string message(ErrorCode code, const std::string& text) {
  return testing::message_of(code, [&] { (void)parse_vnnlib(text, "p.vnnlib"); });
}

std::string parse_error(const std::string& text) {
  return message(ErrorCode::kParse, text);
}

/// Of one more assertion in line 6, after the bounds.
std::string assertion_error(const std::string& formula) {
  return parse_error(kBounded + "(assert " + formula + ")");
}

std::string unsupported(const std::string& formula) {
  return message(ErrorCode::kUnsupported, kBounded + "(assert " + formula + ")");
}

/// Whether it is read; an Error is the only other outcome allowed.
bool survives(const std::string& text) {
  try {
    const Property property = parse_vnnlib(text, "p.vnnlib");
    CHECK(!property.regions.empty());
    for (const Region& region : property.regions) {
      CHECK(std::ssize(region.box.lo) == property.inputs);
      CHECK(!region.cases.empty());
      for (const Case& c : region.cases) CHECK(!c.rows.empty());
    }
    return true;
  } catch (const Error& error) {
    CHECK(std::string(error.what()).starts_with("p.vnnlib:"));
    return false;
  }
}

}  // namespace

TEST_CASE("bad specification: bounds that leave nothing between them") {
  CHECK(
      parse_error(kDeclared + "(assert (>= X_0 0.6))\n(assert (<= X_0 0.5))\n") ==
      "p.vnnlib:6:9: the lower bound 0.6 of X_0 exceeds its upper bound 0.5; correct this line or "
      "line 5");
  CHECK(assertion_error("(>= X_1 1.0000000000000000000001)") ==
        "p.vnnlib:6:9: the lower bound 1.0000000000000000000001 of X_1 exceeds its upper bound 1; "
        "correct this line or line 5");
  CHECK(
      assertion_error("(or (and (>= X_0 0.7) (<= X_0 0.2) (<= Y_0 0)) (<= Y_0 1))") ==
      "p.vnnlib:6:31: the lower bound 0.7 of X_0 exceeds its upper bound 0.2; correct this line or "
      "line 6");
  CHECK(assertion_error("(or (and (>= X_0 2) (<= Y_0 0)))") ==
        "p.vnnlib:6:18: the lower bound 2 of X_0 exceeds its upper bound 1; correct this line or "
        "line 5");
  CHECK(assertion_error("(or (and (>= X_0 2) (<= Y_0 0)) (and (<= X_1 -1) (<= Y_0 0)))") ==
        "p.vnnlib:6:71: every disjunct contradicts bounds asserted elsewhere, so that no input is "
        "left");
}

TEST_CASE("bad specification: bounds that are no finite number") {
  for (const std::string bound : {"nan", "NaN", "-nan", "inf", "+inf", "-Infinity"})
    CHECK(assertion_error("(<= X_0 " + bound + ")") ==
          "p.vnnlib:6:17: '" + bound + "' is no bound; write a finite decimal");
  CHECK(assertion_error("(<= X_0 1e39)") ==
        "p.vnnlib:6:17: the bound 1e39 of X_0 does not fit float32; write one within +-3.4e38");
  CHECK(assertion_error("(<= Y_0 -1e400)") ==
        "p.vnnlib:6:17: the bound -1e400 does not fit float64; write one within +-1.797e308");
}

TEST_CASE("bad specification: an input without both bounds") {
  const std::string rest = "(assert (<= Y_0 0))";
  CHECK(parse_error(kDeclared + "(assert (>= X_0 0))(assert (<= X_0 1))(assert (>= X_1 0))" +
                    rest) == "p.vnnlib:2:16: X_1 has no upper bound; add (assert (<= X_1 ...))");
  CHECK(
      parse_error(kDeclared + "(assert (<= X_0 1))" + rest) ==
      "p.vnnlib:1:16: X_0 has no lower bound (2 inputs are unbounded); add (assert (>= X_0 ...))");
  CHECK(parse_error(kDeclared + rest) ==
        "p.vnnlib:1:16: X_0 has no bounds (2 inputs are unbounded); add (assert (>= X_0 ...))");
  CHECK(
      parse_error(kDeclared + "(assert (>= X_0 0))(assert (<= X_0 1))(assert (>= X_1 0))\n"
                              "(assert (or (and (<= X_1 1) (<= Y_0 0))\n(<= Y_0 1)))") ==
      "p.vnnlib:2:16: X_1 has no upper bound in the disjunct of line 7; add (assert (<= X_1 ...))");
}

TEST_CASE("bad specification: nothing in it") {
  const std::string expected =
      "p.vnnlib:1:1: the specification is empty; declare X_0..., Y_0... and assert what a "
      "violation "
      "is";
  CHECK(parse_error("") == expected);
  CHECK(parse_error("; only a comment\n\n\t") == expected);
  CHECK(parse_error(kBounded) ==
        "p.vnnlib:6:1: no assertion is about the outputs; add one that says what a violation is, "
        "such "
        "as (assert (<= Y_0 0))");
  CHECK(assertion_error("(or (<= Y_0 0) (<= X_0 0.5))") ==
        "p.vnnlib:6:24: this disjunct says nothing about the outputs, so that all of its box would "
        "be violations; add a relation about Y");
  CHECK(parse_error("(declare-const Y_0 Real)\n") ==
        "p.vnnlib:2:1: no input is declared; add (declare-const X_0 Real)");
  CHECK(parse_error("(declare-const X_0 Real)\n") ==
        "p.vnnlib:2:1: no output is declared; add (declare-const Y_0 Real)");
}

TEST_CASE("bad specification: declarations") {
  CHECK(parse_error("(declare-const X_0 Real)\n(declare-const X_0 Real)") ==
        "p.vnnlib:2:16: X_0 is declared twice, first in line 1");
  CHECK(parse_error("(declare-const X_0 Real)(declare-const X_2 Real)\n(declare-const Y_0 Real)") ==
        "p.vnnlib:1:40: X_2 leaves a gap: X_1 is not declared");
  CHECK(parse_error("(declare-const X_0 Real)(declare-const Y_1 Real)") ==
        "p.vnnlib:1:40: Y_1 leaves a gap: Y_0 is not declared");
  CHECK(
      parse_error("(declare-const X_99999999999999999999999 Real)") ==
      "p.vnnlib:1:16: X_99999999999999999999999 leaves a gap; number the variables from 0 without "
      "one");
  for (const std::string name : {"Z_0", "X_", "X_01", "X_-1", "X0", "x_0", "("})
    CHECK(parse_error("(declare-const " + name + " Real)") ==
          "p.vnnlib:1:16: expected a variable X_i or Y_j to declare, found '" + name + "'");
  CHECK(message(ErrorCode::kUnsupported, "(declare-const X_0 Int)") ==
        "p.vnnlib:1:20: the sort 'Int' is not supported; declare X_0 as Real");
  CHECK(parse_error("(declare-const X_0 Real 5)") == "p.vnnlib:1:25: expected ')', found '5'");
  CHECK(parse_error("(declare-const X_0 Real)\n(assert (<= X_0 1))(declare-const X_0 Real)\n") ==
        "p.vnnlib:2:35: X_0 is declared twice, first in line 1");
  CHECK(parse_error("(declare-const X_0 Real)\n(declare-const Y_0 Real)(declare-const Y_0 Real)") ==
        "p.vnnlib:2:40: Y_0 is declared twice, first in line 2");
  CHECK(assertion_error("(<= Y_7 Y_0)") ==
        "p.vnnlib:6:13: Y_7 is not declared; add (declare-const Y_7 Real) before this line");
  CHECK(assertion_error("(<= X_2 1)") ==
        "p.vnnlib:6:13: X_2 is not declared; add (declare-const X_2 Real) before this line");
}

TEST_CASE("bad specification: well formed, but nothing that can be done") {
  CHECK(unsupported("(< Y_0 0)") ==
        "p.vnnlib:6:10: the strict relation '<' is not supported; write <=");
  CHECK(unsupported("(> Y_0 0)") ==
        "p.vnnlib:6:10: the strict relation '>' is not supported; write >=");
  CHECK(unsupported("(= Y_0 0)") ==
        "p.vnnlib:6:10: the relation '=' is not supported; write <= and >=");
  CHECK(unsupported("(not (<= Y_0 0))") ==
        "p.vnnlib:6:10: the operator 'not' is not supported; write the assertion with and, or, <= "
        "and "
        ">=");
  CHECK(unsupported("true").starts_with("p.vnnlib:6:9: the operator 'true' is not supported; "));
  for (const std::string op : {"+", "-", "*", "/"})
    CHECK(unsupported("(<= (" + op + " Y_0 Y_1) 0)") ==
          "p.vnnlib:6:13: arithmetic with '" + op +
              "' is not supported; compare an input or output with a decimal, or two outputs");
  CHECK(
      unsupported("(<= X_0 Y_0)") ==
      "p.vnnlib:6:9: comparing X_0 with Y_0 is not supported; an input is compared with a decimal "
      "only");
  CHECK(
      unsupported("(>= X_0 X_1)") ==
      "p.vnnlib:6:9: comparing X_1 with X_0 is not supported; an input is compared with a decimal "
      "only");
  CHECK(unsupported("(<= Y_0 Y_0)") ==
        "p.vnnlib:6:9: Y_0 is compared with itself, which always holds; remove the relation");
  CHECK(
      message(ErrorCode::kUnsupported, "(declare-fun X_0 () Real)") ==
      "p.vnnlib:1:2: the command 'declare-fun' is not supported; use declare-const and assert, as "
      "VNN-LIB 1.0 does");
  CHECK(message(ErrorCode::kUnsupported, "(vnnlib-version <2.0>)")
            .starts_with("p.vnnlib:1:2: the command 'vnnlib-version' is not supported; "));
}

TEST_CASE("bad specification: malformed text") {
  CHECK(parse_error("hello") ==
        "p.vnnlib:1:1: expected a command such as (assert ...), found 'hello'");
  CHECK(parse_error(kBounded + "(assert (<= Y_0 0)))") ==
        "p.vnnlib:6:20: this ')' closes nothing; remove it");
  CHECK(parse_error("()") == "p.vnnlib:1:2: expected declare-const or assert, found ')'");
  CHECK(
      parse_error(kBounded + "\n(assert (<= Y_0\n") ==
      "p.vnnlib:8:1: the file ends inside the command that starts in line 7; it may be truncated");
  for (const std::string cut :
       {"(", "(declare-co", "(declare-const X_", "(assert (<= Y_0 0", "(assert"})
    CHECK(parse_error(kBounded + cut) ==
          str("p.vnnlib:6:", cut.size() + 1,
              ": the file ends inside the command that starts in line 6; it may be truncated"));
  CHECK(assertion_error("(<= Y_0 0) (<= Y_1 0)") == "p.vnnlib:6:20: expected ')', found '('");
  CHECK(assertion_error("(<= X_0)") == "p.vnnlib:6:16: this '<=' lacks an operand");
  CHECK(assertion_error("(<=)") == "p.vnnlib:6:12: this '<=' lacks an operand");
  CHECK(assertion_error("(<= Y_0)") == "p.vnnlib:6:16: this '<=' lacks an operand");
  CHECK(assertion_error("(>= Y_0 1 2)") == "p.vnnlib:6:19: this '>=' has more than two operands");
  CHECK(assertion_error("(<= 1 2)") ==
        "p.vnnlib:6:9: two decimals are compared; one side must be an input or output");
  CHECK(assertion_error("(<= Y_0 (Y_1))") ==
        "p.vnnlib:6:17: expected a variable X_i, Y_j or a decimal, found '('");
  CHECK(assertion_error("(<= Y_0 0x10)") ==
        "p.vnnlib:6:17: expected a variable X_i, Y_j or a decimal, found '0x10'");
  CHECK(assertion_error("(<= Y_0 .5)") ==
        "p.vnnlib:6:17: expected a variable X_i, Y_j or a decimal, found '.5'");
  CHECK(assertion_error("(or)") == "p.vnnlib:6:10: this 'or' has no operand");
  CHECK(assertion_error("(and)") == "p.vnnlib:6:10: this 'and' has no operand");
  CHECK(assertion_error("(foo Y_0 1)") ==
        "p.vnnlib:6:10: expected a formula of and, or, <= and >=, found 'foo'");
  CHECK(assertion_error("(<= Y_0 \xff\x01)") ==
        "p.vnnlib:6:17: expected a variable X_i, Y_j or a decimal, found '\\xff\\x01'");
  CHECK(assertion_error("(<= Y_0 " + std::string(1000, 'a') + ")") ==
        "p.vnnlib:6:17: expected a variable X_i, Y_j or a decimal, found '" + std::string(40, 'a') +
            "...'");
}

TEST_CASE("bad specification: nesting, cases and boxes have limits") {
  for (const std::string head : {"(and ", "(or  "}) {
    for (const int depth : {201, 10000, 100000}) {
      std::string deep = kBounded + "(assert ";
      for (int i = 0; i < depth; ++i) deep += head;
      CHECK(message(ErrorCode::kUnsupported, deep + "(<= Y_0 0)") ==
            "p.vnnlib:6:1009: the parentheses are nested more than 200 deep");
    }
  }
  std::string open = kBounded + "(assert " + std::string(100000, '(');
  CHECK(parse_error(open) == "p.vnnlib:6:10: expected a formula of and, or, <= and >=, found '('");

  std::string wide = kBounded;
  for (int i = 0; i < 21; ++i) wide += "(assert (or (<= Y_0 0) (<= Y_1 0)))\n";
  CHECK(message(ErrorCode::kUnsupported, wide) ==
        "p.vnnlib:26:10: the disjunctions up to here make more than 1048576 cases or 33554432 "
        "relations in them; split the specification");

  std::string boxes = kBounded;
  for (int i = 2; i < 50000; ++i)
    boxes +=
        str("(declare-const X_", i, " Real)(assert (>= X_", i, " 0))(assert (<= X_", i, " 1))");
  boxes += "\n(assert (or";
  for (int i = 0; i < 3000; ++i) boxes += str(" (and (<= X_0 0.", i + 1, ") (<= Y_0 0))");
  CHECK(message(ErrorCode::kUnsupported, boxes + "))")
            .ends_with(": the boxes up to here have more than 134217728 inputs together; split the "
                       "specification"));
}

TEST_CASE("bad specification: limits are the caller's") {
  const auto read = [](const std::string& formula, const VnnlibLimits& limits) {
    return testing::message_of(ErrorCode::kUnsupported, [&] {
      (void)parse_vnnlib(kBounded + "(assert " + formula + ")", "p.vnnlib", limits);
    });
  };
  const std::string cases = "(or (<= Y_0 0) (<= Y_0 1) (<= Y_0 2))";
  CHECK(read(cases, {.cases = 2}) ==
        "p.vnnlib:6:35: the disjunctions up to here make more than 2 cases or 33554432 relations "
        "in them; split the specification");
  CHECK(read(cases, {.relations = 2}).find("1048576 cases or 2 relations") != std::string::npos);
  CHECK(read(cases, {.rows = 2}) ==
        "p.vnnlib:6:35: the cases up to here have more than 2 rows; split the specification");
  CHECK(read("(or (and (<= X_0 0.5) (<= Y_0 0)) (<= Y_0 1))", {.bounds = 3}) ==
        "p.vnnlib:6:43: the boxes up to here have more than 3 inputs together; split the "
        "specification");
}

TEST_CASE("bad specification: every truncation is a property or an Error") {
  const std::string text = kBounded +
                           "; comment\n(assert (or (and (<= X_0 0.5) (<= Y_0 Y_1))\n (and (>= X_1 "
                           "1.5e-1) (>= Y_0 -2.5) (<= Y_1 7))))\n(assert (<= Y_1 8.0))";
  CHECK(survives(text));
  size_t read = 0;
  for (size_t size = 0; size < text.size(); ++size) read += survives(text.substr(0, size));
  CHECK(read > 0);  // without the last assertion it is a whole file
  CHECK(read < 30);
}

TEST_CASE(
    "bad specification: changed, removed, doubled and random bytes are a property or an Error") {
  const std::string text = kBounded +
                           "(assert (or (and (<= X_0 0.5) (<= Y_0 Y_1)) (and (>= X_1 0.25) (>= Y_0 "
                           "-2.5))))\n(assert (or (<= Y_1 8.0) (<= 0.5 X_0)))";
  const std::string alphabet = "()<>=;.+-eXY_0123456789 \n\tandorassertdeclare-constReal\xff";
  std::mt19937 random(1);
  size_t read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = text;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0:
          changed[at] = static_cast<char>(random());
          break;
        case 1:
          changed[at] = alphabet[random() % alphabet.size()];
          break;
        case 2:
          changed.erase(at, 1 + random() % 8);
          break;
        default:
          changed.insert(at, changed.substr(random() % changed.size(), random() % 20));
      }
    }
    read += survives(changed);
  }
  CHECK(read > 100);
  CHECK(read < 19000);
  for (int i = 0; i < 2000; ++i) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise)
      c = i % 2 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    survives(noise);
  }
}

TEST_CASE(
    "bad specification: a text larger than its offsets can say is refused before it is read") {
  const std::string_view text(kDeclared.data(), (size_t{1} << 32) + 1);
  CHECK(testing::message_of(ErrorCode::kUnsupported, [&] {
          (void)parse_vnnlib(text, "p.vnnlib");
        }) == "p.vnnlib:1:1: the text is larger than 4 GiB; split the specification");
}
