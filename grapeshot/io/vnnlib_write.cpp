#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot {
namespace {

constexpr int kExact = 800;  // significant digits that write any double exactly

std::string with_digits(double value, int digits) {
  std::array<char, 1200> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::general, digits);
  GRAPESHOT_CHECK(error == std::errc{}, kInternal, "a bound could not be written");
  return {buffer.data(), end};
}

/// The shortest decimal of `digits` or more significant ones near `value` that `reads_back` likes.
template <class ReadsBack>
std::string write(double value, int digits, ReadsBack reads_back) {
  for (; digits < 20; ++digits) {
    std::string text = with_digits(value, digits);
    if (const auto decimal = parse_decimal(text); decimal && reads_back(*decimal)) return text;
  }
  return with_digits(value, kExact);
}

struct BoundTexts {
  std::string lo, hi;
};

/// Decimals that a reader who rounds inwards turns into box.lo[i] and box.hi[i].
BoundTexts bound_texts(const Box& box, size_t i) {
  const float lo = box.lo[i], hi = box.hi[i];
  GRAPESHOT_CHECK(std::isfinite(lo) && std::isfinite(hi), kInvalidArgument, "the bounds of X_", i,
                  " are not finite");
  if (std::ranges::count(box.nearest, static_cast<int32_t>(i))) {
    // One decimal for both that is no float, though its nearest one is the bound.
    const auto is_near = [&](const Decimal& decimal) {
      return decimal.nearest32 == lo && decimal.down32 != decimal.up32;
    };
    const double beside =
        std::nextafter(static_cast<double>(lo), std::numeric_limits<double>::max());
    std::string text = write(lo, 9, is_near);
    if (!is_near(parse_decimal(text).value_or(Decimal{}))) text = write(beside, 17, is_near);
    return {text, text};
  }
  if (lo > hi) {
    // No float between the bounds: hi and lo are neighbours, the decimals lie between them.
    const double third = (static_cast<double>(lo) - hi) / 3;
    const auto is_between = [&](const Decimal& decimal) {
      return decimal.up32 == lo && decimal.down32 == hi;
    };
    return {write(hi + third, 17, is_between), write(lo - third, 17, is_between)};
  }
  return {write(lo, 9, [&](const Decimal& decimal) { return decimal.up32 == lo; }),
          write(hi, 9, [&](const Decimal& decimal) { return decimal.down32 == hi; })};
}

std::string row_text(const LinearRow& row) {
  const std::vector<Term>& terms = row.terms;
  if (terms.size() == 1 && std::isfinite(row.bound)) {
    const std::string name = str(" Y_", terms[0].output, " ");
    if (terms[0].coefficient == 1.)
      return str(
          "(<=", name,
          write(row.bound, 9, [&](const Decimal& decimal) { return decimal.down == row.bound; }),
          ")");
    if (terms[0].coefficient == -1.)
      return str(
          "(>=", name,
          write(-row.bound, 9, [&](const Decimal& decimal) { return decimal.up == -row.bound; }),
          ")");
  }
  GRAPESHOT_CHECK(terms.size() == 2 && row.bound == 0. && std::abs(terms[0].coefficient) == 1. &&
                      terms[0].coefficient == -terms[1].coefficient,
                  kUnsupported,
                  "VNN-LIB 1.0 cannot say a row that is neither a bound of one output nor a "
                  "comparison of two");
  const bool first = terms[0].coefficient > 0.;
  return str("(<= Y_", terms[first ? 0 : 1].output, " Y_", terms[first ? 1 : 0].output, ")");
}

std::string comment_text(std::string_view comment) {
  std::string out = comment.empty() ? "" : "; ";
  for (const char c : comment) out += c == '\n' ? std::string("\n; ") : std::string(1, c);
  return comment.empty() ? out : out + '\n';
}

/// One region with its bounds as assertions of their own, the usual form.
void write_single(std::string& out, const Region& region) {
  for (size_t i = 0; i < region.box.lo.size(); ++i) {
    const BoundTexts bounds = bound_texts(region.box, i);
    out +=
        str("(assert (>= X_", i, " ", bounds.lo, "))\n(assert (<= X_", i, " ", bounds.hi, "))\n");
  }
  if (region.cases.size() == 1) {
    for (const LinearRow& row : region.cases[0].rows) out += str("(assert ", row_text(row), ")\n");
    return;
  }
  out += "(assert (or\n";
  for (const Case& each : region.cases) {
    out += "    (and";
    for (const LinearRow& row : each.rows) out += " " + row_text(row);
    out += ")\n";
  }
  out += "))\n";
}

/// Disjuncts that repeat their region's box.
void write_several(std::string& out, const std::vector<Region>& regions) {
  out += "(assert (or\n";
  for (const Region& region : regions) {
    std::string box;
    for (size_t i = 0; i < region.box.lo.size(); ++i) {
      const BoundTexts bounds = bound_texts(region.box, i);
      box += str(" (>= X_", i, " ", bounds.lo, ") (<= X_", i, " ", bounds.hi, ")");
    }
    for (const Case& each : region.cases) {
      out += "    (and" + box;
      for (const LinearRow& row : each.rows) out += " " + row_text(row);
      out += ")\n";
    }
  }
  out += "))\n";
}

}  // namespace

std::string write_vnnlib(const Property& property, std::string_view comment) {
  GRAPESHOT_CHECK(!property.regions.empty(), kInvalidArgument, "the property has no region");
  std::string out = comment_text(comment);
  for (int64_t i = 0; i < property.inputs; ++i) out += str("(declare-const X_", i, " Real)\n");
  for (int64_t i = 0; i < property.outputs; ++i) out += str("(declare-const Y_", i, " Real)\n");
  if (property.regions.size() == 1) {
    write_single(out, property.regions[0]);
  } else {
    write_several(out, property.regions);
  }
  return out;
}

}  // namespace grapeshot
