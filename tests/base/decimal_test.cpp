#include "grapeshot/base/decimal.h"

#include <array>
#include <cfenv>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <doctest/doctest.h>

using grapeshot::compare_decimals;
using grapeshot::Decimal;
using grapeshot::parse_decimal;

namespace {

/// All digits of a finite double.
std::string exact(double value) {
  std::array<char, 1600> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          std::chars_format::fixed, 1100);
  REQUIRE(error == std::errc{});
  return {buffer.data(), end};
}

/// The magnitude of a decimal with exponent in +-400 as 500 digits before the point and 1600 behind
/// it, so that the order of strings is the order of numbers.
std::string aligned(std::string text) {
  if (text[0] == '-' || text[0] == '+') text.erase(0, 1);
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  const std::string digits =
      text.substr(0, point) + (point < text.size() ? text.substr(point + 1) : "");
  const int first = 500 - static_cast<int>(point) - exponent;
  std::string out(2100, '0');
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] == '0') continue;
    out.at(static_cast<size_t>(first) + i) = digits[i];
  }
  return out;
}

/// Sign of (a - b) by another way than compare_decimals.
int order(const std::string& a, const std::string& b) {
  const std::string left = aligned(a), right = aligned(b), zero(2100, '0');
  const bool left_minus = a[0] == '-' && left != zero, right_minus = b[0] == '-' && right != zero;
  if (left_minus != right_minus) return left_minus ? -1 : 1;
  const int magnitude = left.compare(right);
  return (magnitude > 0 ? 1 : magnitude < 0 ? -1 : 0) * (left_minus ? -1 : 1);
}

/// Whether low and high are the tightest values around `text`, and `nearest` the nearer of them.
template <class Float>
void check_rounding(const std::string& text, Float low, Float nearest, Float high) {
  CAPTURE(text);
  CAPTURE(low);
  CAPTURE(high);
  REQUIRE((nearest == low || nearest == high));
  if (low == high) {
    CHECK(order(exact(low), text) == 0);
    return;
  }
  CHECK(std::nextafter(low, std::numeric_limits<Float>::infinity()) == high);
  CHECK(order(exact(low), text) < 0);
  CHECK(order(text, exact(high)) < 0);
}

Decimal check_decimal(const std::string& text) {
  const std::optional<Decimal> read = parse_decimal(text);
  REQUIRE_MESSAGE(read.has_value(), text);
  check_rounding<double>(text, read->down, read->nearest, read->up);
  check_rounding<float>(text, read->down32, read->nearest32, read->up32);
  CHECK(read->nearest == std::stod(text));
  if (read->down32 != read->up32) {
    const double middle = (double{read->down32} + double{read->up32}) / 2;
    const int side = order(text, exact(middle));
    if (side != 0) CHECK(read->nearest32 == (side < 0 ? read->down32 : read->up32));
  }
  return *read;
}

std::string random_decimal(std::mt19937& random) {
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  std::string out = below(2) ? "-" : "";
  const auto digits = [&](int count) {
    for (int i = 0; i < count; ++i) out += static_cast<char>('0' + below(10));
  };
  digits(1 + below(4));
  if (below(4)) {
    out += '.';
    digits(1 + below(24));
  }
  if (below(3) == 0) out += "e" + std::to_string(below(60) - 36);
  return out;
}

}  // namespace

TEST_CASE("parse_decimal: a decimal between two floats is rounded to both") {
  const Decimal tenth = *parse_decimal("0.1");
  CHECK(tenth.nearest32 == 0.1f);
  CHECK(tenth.up32 == 0.1f);
  CHECK(tenth.down32 == std::nextafter(0.1f, 0.f));
  CHECK(tenth.nearest == 0.1);
  CHECK(tenth.down == std::nextafter(0.1, 0.));  // the double 0.1 is above one tenth

  // The float 0.1f is 0.100000001490116119384765625; this decimal has all but its last digits.
  const Decimal near = *parse_decimal("0.10000000149011612");
  CHECK(near.down32 == 0.1f);
  CHECK(near.up32 == std::nextafter(0.1f, 1.f));
  const Decimal same = *parse_decimal("0.100000001490116119384765625");
  CHECK(same.down32 == 0.1f);
  CHECK(same.up32 == 0.1f);
  CHECK(same.down == same.up);
}

TEST_CASE("parse_decimal: random decimals lie between their roundings") {
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) check_decimal(random_decimal(random));
}

TEST_CASE(
    "parse_decimal: floats, midpoints of floats and their closest neighbours are told apart") {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    const float f =
        std::ldexp(static_cast<float>(random() >> 8), static_cast<int>(random() % 80) - 60);
    const double middle = (double{f} + double{std::nextafter(f, 1e30f)}) / 2;
    for (const double value : {double{f}, middle, std::nextafter(middle, 0.)}) {
      std::string text = exact(value);
      check_decimal(text);
      check_decimal("-" + text);
      check_decimal(text + "1");  // above by 1e-1101
      text.resize(text.find_last_not_of('0') + 1);
      if (text.back() == '.') continue;
      --text.back();
      check_decimal(text + "9999999999999999999999");
      check_decimal(text + "9");
    }
  }
}

TEST_CASE("parse_decimal: zeros, denormals and the largest numbers") {
  for (const char* text :
       {"0", "-0", "0.000", "+0e5", "1e-45", "-1e-46", "7e-46", "1.4e-45", "1e-40",
        "3.4028234663852886e38", "1e-320", "4.9e-324", "1.7976931348623157e308",
        "18446744073709551615", "9999999999999999999", "99999999999999999999", "1e22", "1e23",
        "0.0000000000000000000000000001234567890123456789"})
    CHECK_MESSAGE(parse_decimal(text).has_value(), text);
  for (const char* text : {"0", "-0", "1.5e-30", "1e-40", "1e-45", "3e38"}) check_decimal(text);
  CHECK(std::signbit(parse_decimal("-0")->nearest));

  const Decimal big = *parse_decimal("1e39");
  CHECK(big.down32 == std::numeric_limits<float>::max());
  CHECK(std::isinf(big.up32));
  CHECK(std::isinf(big.nearest32));
  CHECK(big.nearest == 1e39);
  const Decimal huge = *parse_decimal("-1e999999999999999999999");
  CHECK(std::isinf(huge.down));
  CHECK(huge.up == -std::numeric_limits<double>::max());
  const Decimal tiny = *parse_decimal("1e-999");
  CHECK(tiny.down == 0.);
  CHECK(tiny.up == std::numeric_limits<double>::denorm_min());
  CHECK(tiny.up32 == std::numeric_limits<float>::denorm_min());
  CHECK(tiny.nearest32 == 0.f);
}

TEST_CASE("parse_decimal: anything but digits, point and exponent is no decimal") {
  for (const char* text : {"",    "+",     "-",    ".",     ".5",    "5.",  "1e",    "1e+",
                           "e5",  "1.2.3", "0x10", "0x1p3", "nan",   "inf", "-inf",  "infinity",
                           "1,5", " 1",    "1 ",   "--1",   "1e5.0", "1f",  "1_000", "\xd9\xa1"})
    CHECK_MESSAGE(!parse_decimal(text).has_value(), text);
  CHECK(!parse_decimal(std::string_view("1\0", 2)).has_value());
}

TEST_CASE("parse_decimal: the caller's rounding mode does not matter and stays") {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    for (const char* text : {"0.1", "-0.3", "1e-40", "123456789.123456789123456789"}) {
      const Decimal expected = *parse_decimal(text);
      std::fesetround(mode);
      const Decimal read = *parse_decimal(text);
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      CHECK(after == mode);
      CHECK(read.nearest == expected.nearest);
      CHECK(read.down == expected.down);
      CHECK(read.up == expected.up);
      CHECK(read.nearest32 == expected.nearest32);
      CHECK(read.down32 == expected.down32);
      CHECK(read.up32 == expected.up32);
    }
  }
}

TEST_CASE("compare_decimals: the order is that of the values, to the last digit") {
  const auto compare = [](const char* a, const char* b) {
    const auto result = compare_decimals(a, b);
    CHECK(compare_decimals(b, a) == 0 <=> result);
    return result;
  };
  CHECK(compare("0.10", "1e-1") == 0);
  CHECK(compare("-0", "0.0e7") == 0);
  CHECK(compare("+5", "0005.000") == 0);
  CHECK(compare("120", "1.2E2") == 0);
  CHECK(compare("0.1", "0.10000000000000000000000000000000000001") < 0);
  CHECK(compare("-0.1", "-0.10000000000000000000000000000000000001") > 0);
  CHECK(compare("-1", "0") < 0);
  CHECK(compare("0", "1e-999") < 0);
  CHECK(compare("9.99", "10") < 0);
  CHECK(compare("-3", "2") < 0);

  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::string a = random_decimal(random), b = random_decimal(random);
    const int expected = order(a, b);
    const auto got = compare_decimals(a, b);
    CHECK_MESSAGE((got < 0 ? -1 : got > 0 ? 1 : 0) == expected, a, " ", b);
  }
}
