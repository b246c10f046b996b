#include "grapeshot/io/vnnlib.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/files.h"
#include "tests/support/gzip.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

namespace {

/// Declarations of that many variables, in one line.
std::string declare(int inputs, int outputs) {
  std::string out;
  for (int i = 0; i < inputs; ++i) out += str("(declare-const X_", i, " Real)");
  for (int i = 0; i < outputs; ++i) out += str("(declare-const Y_", i, " Real)");
  return out + "\n";
}

Property parse(const std::string& text) {
  return parse_vnnlib(text, "p.vnnlib");
}

/// One input in [0, 1] and two outputs, with those assertions.
Property parse_outputs(const std::string& asserts) {
  return parse(declare(1, 2) + "(assert (>= X_0 0))(assert (<= X_0 1))" + asserts);
}

/// "Y0-Y1<=0" of the only row of the only case.
std::string only_row(const Property& property) {
  REQUIRE(property.regions.size() == 1);
  REQUIRE(property.regions[0].cases.size() == 1);
  REQUIRE(property.regions[0].cases[0].rows.size() == 1);
  const LinearRow& row = property.regions[0].cases[0].rows[0];
  std::string out;
  for (const Term& term : row.terms) out += str(term.coefficient > 0 ? "+" : "-", "Y", term.output);
  return out + str("<=", row.bound);
}

/// Rows per case per region, "1,2|1".
std::string layout(const Property& property) {
  std::string out;
  for (const Region& region : property.regions) {
    out += out.empty() ? "" : "|";
    for (size_t i = 0; i < region.cases.size(); ++i)
      out += str(i == 0 ? "" : ",", region.cases[i].rows.size());
  }
  return out;
}

bool violates(const Property& property, std::vector<float> x, std::vector<double> y) {
  return judge(property, x, y).violates;
}

/// The box of one input with those bounds.
Box box_of(const std::string& lo, const std::string& hi) {
  return parse(declare(1, 1) + "(assert (>= X_0 " + lo + "))(assert (<= X_0 " + hi +
               "))(assert (<= Y_0 0))")
      .regions.at(0)
      .box;
}

bool same(const Box& a, const Box& b) {
  return a.lo == b.lo && a.hi == b.hi && a.nearest == b.nearest && a.empty == b.empty;
}

bool same(const Property& a, const Property& b) {
  const auto same_row = [](const LinearRow& left, const LinearRow& right) {
    return left.bound == right.bound &&
           std::ranges::equal(left.terms, right.terms, [](const Term& s, const Term& t) {
             return s.output == t.output && s.coefficient == t.coefficient;
           });
  };
  const auto same_case = [&](const Case& left, const Case& right) {
    return std::ranges::equal(left.rows, right.rows, same_row);
  };
  return a.inputs == b.inputs && a.outputs == b.outputs &&
         std::ranges::equal(a.regions, b.regions, [&](const Region& left, const Region& right) {
           return same(left.box, right.box) &&
                  std::ranges::equal(left.cases, right.cases, same_case);
         });
}

}  // namespace

TEST_CASE("parse_vnnlib: comments, tabs, signs and exponents") {
  const Property property = parse(
      "; a comment (with parentheses\n(declare-const X_0\tReal)\r\n( declare-const Y_0 Real );x\n"
      "(assert(>= X_0 -1.5e-1))(assert\n(<= X_0 +2.5E+1))\n\t(assert (<= Y_0 1e2)) ; end");
  CHECK(property.inputs == 1);
  CHECK(property.outputs == 1);
  REQUIRE(property.regions.size() == 1);
  CHECK(property.regions[0].box.lo[0] == doctest::Approx(-0.15f));
  CHECK(property.regions[0].box.hi[0] == 25.f);
  CHECK(only_row(property) == "+Y0<=100");
}

TEST_CASE("parse_vnnlib: variables may be declared in any order") {
  const Property property = parse(
      "(declare-const Y_1 Real)(declare-const X_1 Real)(declare-const X_0 Real)(declare-const Y_0 "
      "Real)(assert (and (<= 0 X_0) (<= X_0 1) (<= 2 X_1) (<= X_1 3) (<= Y_0 Y_1)))");
  CHECK(property.regions.at(0).box.lo == std::vector{0.f, 2.f});
  CHECK(property.regions.at(0).box.hi == std::vector{1.f, 3.f});
}

TEST_CASE("parse_vnnlib: a relation may be written from either side") {
  CHECK(only_row(parse_outputs("(assert (<= Y_0 2))")) == "+Y0<=2");
  CHECK(only_row(parse_outputs("(assert (>= 2 Y_0))")) == "+Y0<=2");
  CHECK(only_row(parse_outputs("(assert (>= Y_0 2))")) == "-Y0<=-2");
  CHECK(only_row(parse_outputs("(assert (<= 2 Y_0))")) == "-Y0<=-2");
  CHECK(only_row(parse_outputs("(assert (<= Y_0 Y_1))")) == "+Y0-Y1<=0");
  CHECK(only_row(parse_outputs("(assert (>= Y_1 Y_0))")) == "+Y0-Y1<=0");
  CHECK(only_row(parse_outputs("(assert (>= Y_0 Y_1))")) == "-Y0+Y1<=0");
}

TEST_CASE("parse_vnnlib: bounds of outputs are rounded so that no verdict changes") {
  const Property upper = parse_outputs("(assert (<= Y_0 0.1))");
  CHECK(upper.regions[0].cases[0].rows[0].bound == std::nextafter(0.1, 0.));  // 0.1 > one tenth
  CHECK(!violates(upper, {0.f}, {0.1f, 0.}));
  CHECK(violates(upper, {0.f}, {std::nextafter(0.1f, 0.f), 0.}));
  const Property lower = parse_outputs("(assert (>= Y_0 0.3))");
  CHECK(lower.regions[0].cases[0].rows[0].bound == -std::nextafter(0.3, 1.));  // 0.3 < three tenths
  const Property whole = parse_outputs("(assert (>= Y_0 0.5))");
  CHECK(violates(whole, {0.f}, {0.5, 0.}));
}

TEST_CASE("parse_vnnlib: bounds of inputs are rounded inwards") {
  const Box tenths = box_of("0.1", "0.3");
  CHECK(tenths.lo[0] == 0.1f);                       // the float is above one tenth
  CHECK(tenths.hi[0] == std::nextafter(0.3f, 0.f));  // and above three tenths
  const Box near = box_of("0.10000000149011612", "0.2");
  CHECK(near.lo[0] == std::nextafter(0.1f, 1.f));  // 0.1f is 0.1000000014901161193...
  CHECK(!tenths.empty);
  CHECK(tenths.nearest.empty());
  CHECK(box_of("-3.4e38", "3.4e38").hi[0] == 3.4e38f);
}

TEST_CASE("parse_vnnlib: an input fixed to a decimal that is no float gets the nearest one") {
  const Box fixed = box_of("0.1", "1.00e-1");
  CHECK(fixed.nearest == std::vector{0});
  CHECK(fixed.lo[0] == 0.1f);
  CHECK(fixed.hi[0] == 0.1f);
  CHECK(!fixed.empty);
  const Box whole = box_of("0.5", "0.5");
  CHECK(whole.nearest.empty());
  CHECK(whole.lo[0] == 0.5f);
}

TEST_CASE("parse_vnnlib: two different bounds without a float between them make an empty box") {
  const Box empty = box_of("0.10000000000000000000001", "0.10000000000000000000002");
  CHECK(empty.empty);
  CHECK(empty.nearest.empty());
  CHECK(!contains(empty, std::vector{0.1f}));
  CHECK(!contains(empty, std::vector{std::nextafter(0.1f, 0.f)}));
}

TEST_CASE("parse_vnnlib: the tightest of several bounds counts") {
  const Property property = parse(declare(1, 1) +
                                  "(assert (>= X_0 0))(assert (>= X_0 0.25))(assert (>= X_0 0.125))"
                                  "(assert (<= X_0 1))(assert (<= X_0 0.5))(assert (<= Y_0 0))");
  CHECK(property.regions[0].box.lo[0] == 0.25f);
  CHECK(property.regions[0].box.hi[0] == 0.5f);
}

TEST_CASE("parse_vnnlib: conjunctions are rows, disjunctions are cases") {
  CHECK(layout(parse_outputs("(assert (<= Y_0 0))(assert (<= Y_1 0))")) == "2");
  CHECK(layout(parse_outputs("(assert (or (<= Y_0 0) (and (<= Y_1 0) (<= Y_0 1))))")) == "1,2");
  CHECK(layout(parse_outputs("(assert (<= Y_0 5))(assert (or (<= Y_0 0) (<= Y_1 0)))")) == "2,2");
  CHECK(layout(parse_outputs("(assert (or (and (<= Y_0 0))))")) == "1");
  CHECK(layout(parse_outputs(
            "(assert (and (or (<= Y_0 0) (or (<= Y_1 0) (>= Y_1 9))) (<= Y_0 Y_1)))")) == "2,2,2");
}

TEST_CASE("parse_vnnlib: two disjunctions multiply") {
  const Property property = parse_outputs(
      "(assert (or (<= Y_0 0) (<= Y_0 1)))(assert (or (<= Y_1 2) (<= Y_1 3) (<= Y_1 4)))");
  CHECK(layout(property) == "2,2,2,2,2,2");
  CHECK(property.regions[0].cases[5].rows[0].bound == 1.);
  CHECK(property.regions[0].cases[5].rows[1].bound == 4.);
}

TEST_CASE("parse_vnnlib: disjuncts with boxes of their own become regions, equal boxes share one") {
  const std::string text = declare(2, 1) +
                           "(assert (>= X_0 0))(assert (<= X_0 1))(assert (or "
                           "(and (>= X_1 0) (<= X_1 0.1) (<= Y_0 0))"
                           "(and (>= X_1 2) (<= X_1 3) (<= Y_0 1))"
                           "(and (<= X_1 1e-1) (>= X_1 -0.0) (>= Y_0 5))"
                           "(and (>= X_1 0) (<= X_1 0.1) (<= X_0 0.5) (<= Y_0 7))"
                           "(and (>= X_1 0) (<= X_1 0.1) (<= X_0 4) (<= Y_0 8))))";
  const Property property = parse(text);
  CHECK(layout(property) == "1,1,1|1|1");
  CHECK(property.regions[1].box.lo == std::vector{0.f, 2.f});
  CHECK(property.regions[2].box.hi[0] == 0.5f);
  CHECK(violates(property, {1.f, 2.5f}, {1.}));
  CHECK(!violates(property, {1.f, 2.5f}, {1.5}));
  CHECK(!violates(property, {1.f, 1.f}, {1.}));
}

TEST_CASE("parse_vnnlib: boxes that differ beyond the floats stay apart") {
  const Property property =
      parse(declare(1, 1) +
            "(assert (or (and (>= X_0 0) (<= X_0 0.1) (<= Y_0 0))"
            "(and (>= X_0 0) (<= X_0 0.10000000000000000000001) (<= Y_0 1))))");
  CHECK(layout(property) == "1|1");
}

TEST_CASE("parse_vnnlib: combinations of disjuncts that contradict each other are dropped") {
  const std::string low = "(and (>= X_0 0) (<= X_0 1))", high = "(and (>= X_0 2) (<= X_0 3))";
  const std::string either = "(assert (or " + low + high + "))";
  const Property property = parse(declare(1, 1) + either + either + "(assert (<= Y_0 0))");
  CHECK(layout(property) == "1|1");
  CHECK(property.regions[1].box.lo[0] == 2.f);
}

TEST_CASE("parse_vnnlib: 14,000 disjuncts of 24 inputs take well under a second") {
  std::string text = declare(24, 1) + "(assert (or\n";
  std::mt19937 random(1);
  for (int i = 0; i < 14000; ++i) {
    text += "(and";
    for (int x = 0; x < 24; ++x)
      text += str(" (>= X_", x, " 0.", random(), ") (<= X_", x, " 1.", random(), ")");
    text += " (>= Y_0 0.5))\n";
  }
  text += "))\n";
  const std::clock_t start = std::clock();  // processor time: other processes do not count
  const Property property = parse(text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  CHECK(property.regions.size() == 14000);
  MESSAGE("14,000 disjuncts, " << text.size() << " bytes: " << seconds << " s");
  CHECK(seconds < 3.);  // leaves room for sanitizers
}

TEST_CASE("read_vnnlib: NAME.gz is found and named in errors") {
  const testing::TemporaryFolder folder;
  const std::string text =
      declare(1, 1) + "(assert (>= X_0 0))(assert (<= X_0 1))(assert (<= Y_0 0))";
  folder.write("a.vnnlib.gz", testing::gzip(text));
  CHECK(same(read_vnnlib(folder.file("a.vnnlib")), parse(text)));
  folder.write("b.vnnlib.gz", testing::gzip("x"));
  CHECK(testing::message_of(ErrorCode::kParse, [&] {
          (void)read_vnnlib(folder.file("b.vnnlib"));
        }).starts_with(folder.file("b.vnnlib.gz") + ":1:1: "));
  const std::string cut = folder.write("c.vnnlib", testing::gzip(text).substr(0, 40));
  CHECK(testing::message_of(ErrorCode::kParse, [&] { (void)read_vnnlib(cut); }) ==
        cut + ": damaged gzip: the file ends before its data does");
  CHECK(testing::message_of(ErrorCode::kNotFound, [&] { (void)read_vnnlib(folder.file("d")); }) ==
        folder.file("d") + ": no such file");
}

TEST_CASE("write_vnnlib: reading what was written gives the same property") {
  const std::vector<std::string> texts = {
      declare(2, 3) +
          "(assert (>= X_0 0.1))(assert (<= X_0 0.3))(assert (>= X_1 -7))(assert (<= X_1 "
          "1e-3))(assert (<= Y_0 0.1))(assert (>= Y_2 -1e-9))(assert (<= Y_1 Y_0))",
      declare(1, 3) +
          "(assert (>= X_0 0.1))(assert (<= X_0 0.1))(assert (or (and (<= Y_0 Y_1) (<= Y_2 "
          "Y_1)) (>= Y_0 0.7)))",
      declare(1, 1) +
          "(assert (>= X_0 0.50000000001))(assert (<= X_0 0.50000000001))(assert (<= Y_0 0))",
      declare(1, 1) +
          "(assert (>= X_0 0.50000000001))(assert (<= X_0 0.50000000002))(assert (<= Y_0 0))",
      declare(2, 1) +
          "(assert (or (and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 0.2) (<= Y_0 0))"
          "(and (>= X_0 2) (<= X_0 3) (>= X_1 0.7) (<= X_1 0.7) (>= Y_0 0))))"};
  for (const std::string& text : texts) {
    const Property property = parse(text);
    const std::string written = write_vnnlib(property, "one line\nand another");
    CHECK(written.starts_with("; one line\n; and another\n(declare-const X_0 Real)\n"));
    CHECK_MESSAGE(same(parse(written), property), written);
  }
}

TEST_CASE("write_vnnlib: random float bounds come back bit for bit") {
  std::mt19937 random(2);
  Property property{
      .inputs = 300, .outputs = 1, .regions = {{.box = {}, .cases = {{{{{{0, 1.}}, 0.1}}}}}}};
  Box& box = property.regions[0].box;
  for (int i = 0; i < 300; ++i) {
    const auto draw = [&] {
      const float f =
          std::ldexp(static_cast<float>(random() >> 8), static_cast<int>(random() % 100) - 90);
      return random() % 2 ? f : -f;
    };
    const float a = draw(), b = i % 5 ? draw() : a;
    box.lo.push_back(std::min(a, b));
    box.hi.push_back(std::max(a, b));
    if (i % 10 == 0) box.nearest.push_back(i);
  }
  const std::string written = write_vnnlib(property, "");
  CHECK(same(parse(written), property));
}

TEST_CASE("write_vnnlib: what VNN-LIB 1.0 cannot say is refused") {
  Property property = parse_outputs("(assert (<= Y_0 Y_1))");
  property.regions[0].cases[0].rows[0].bound = 1.;
  CHECK(
      testing::message_of(ErrorCode::kUnsupported, [&] { (void)write_vnnlib(property, ""); }) ==
      "VNN-LIB 1.0 cannot say a row that is neither a bound of one output nor a comparison of two");
  property.regions[0].box.hi[0] = std::numeric_limits<float>::infinity();
  CHECK(testing::message_of(ErrorCode::kInvalidArgument, [&] {
          (void)write_vnnlib(property, "");
        }) == "the bounds of X_0 are not finite");
}

TEST_CASE("read_vnnlib: every VNN-COMP specification is read") {
  const char* given = std::getenv("GRAPESHOT_SHARED");
  const std::filesystem::path shared = given ? given : GRAPESHOT_SHARED_DEFAULT;
  if (!std::filesystem::exists(shared / "vnncomp")) {
    MESSAGE("skipped: no " << (shared / "vnncomp").string() << "; set GRAPESHOT_SHARED");
    return;
  }
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shared / "vnncomp")) {
    const std::string path = entry.path().string();
    if (path.find(".vnnlib") == std::string::npos || !entry.is_regular_file()) continue;
    ++files;
    CHECK_NOTHROW_MESSAGE((void)read_vnnlib(path), path);
  }
  CHECK(files > 0);
}
