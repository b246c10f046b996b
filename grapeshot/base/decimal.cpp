#include "grapeshot/base/decimal.h"

#include <bit>
#include <cfenv>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

namespace grapeshot {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr int kMaxDigits = 19;    // what a uint64_t always holds
constexpr int kMaxFraction = 27;  // 5^27 < 2^63
constexpr int64_t kMaxExponent = int64_t{1} << 40;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The decimal without its sign: 0.d1d2d3... * 10^magnitude, where d1 is not 0.
struct Digits {
  bool negative = false;
  std::string_view whole, fraction;  // as written
  int64_t exponent = 0;              // as written, clamped to +-kMaxExponent
};

/// Splits `text`, nullopt when it does not follow the grammar.
std::optional<Digits> split(std::string_view text) {
  Digits out;
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return text.substr(begin, at - begin);
  };
  const auto sign = [&] {
    if (at == text.size() || (text[at] != '+' && text[at] != '-')) return false;
    return text[at++] == '-';
  };
  out.negative = sign();
  out.whole = digits();
  if (out.whole.empty()) return std::nullopt;
  if (at < text.size() && text[at] == '.') {
    ++at;
    out.fraction = digits();
    if (out.fraction.empty()) return std::nullopt;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    const bool negative = sign();
    const std::string_view exponent = digits();
    if (exponent.empty()) return std::nullopt;
    for (const char c : exponent)
      if (out.exponent < kMaxExponent) out.exponent = out.exponent * 10 + (c - '0');
    if (negative) out.exponent = -out.exponent;
  }
  if (at != text.size()) return std::nullopt;
  return out;
}

/// Fills a Decimal from its nearest double and the sign of (the decimal - that double). Needs an
/// environment that rounds to nearest and keeps denormals.
Decimal derive(double nearest, int residual) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr float kInfinity32 = std::numeric_limits<float>::infinity();
  Decimal out;
  out.nearest = out.down = out.up = nearest;
  if (residual > 0) out.up = std::nextafter(nearest, kInfinity);
  if (residual < 0) out.down = std::nextafter(nearest, -kInfinity);

  // A float is a double, so it lies on the same side of the decimal as of the nearest double,
  // unless it is that double.
  const float f = static_cast<float>(nearest);
  const double wide = f;
  const int side = wide < nearest ? 1 : wide > nearest ? -1 : residual;
  out.nearest32 = out.down32 = out.up32 = f;
  if (side > 0) out.up32 = std::nextafter(f, kInfinity32);
  if (side < 0) out.down32 = std::nextafter(f, -kInfinity32);

  // The double can be the midpoint of two floats where the decimal is not.
  const auto finite = [](float x) { return std::isinf(x) ? std::copysign(0x1p128, x) : x; };
  const double low = finite(out.down32), high = finite(out.up32);
  if (residual != 0 && low + (high - low) / 2 == nearest)
    out.nearest32 = residual > 0 ? out.up32 : out.down32;
  return out;
}

uint64_t power_of_five(int64_t exponent) {
  uint64_t out = 1;
  for (int64_t i = 0; i < exponent; ++i) out *= 5;
  return out;
}

/// Sign of (digits * 10^-scale - nearest), where `nearest` > 0 is the double next to that decimal
/// and 0 <= scale <= kMaxFraction: both sides times 2^s * 5^scale are integers below 2^117.
int compare_exactly(uint64_t digits, int64_t scale, double nearest) {
  const auto bits = std::bit_cast<uint64_t>(nearest);
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int64_t shift = 1075 - static_cast<int64_t>(bits >> 52) - scale;
  Uint128 left = digits, right = Uint128{mantissa} * power_of_five(scale);
  if (shift >= 0) {
    left <<= shift;
  } else {
    right <<= -shift;
  }
  return left > right ? 1 : left < right ? -1 : 0;
}

/// Up to kMaxDigits significant digits and kMaxFraction of them behind the point, which is nearly
/// every number of every file; nullopt for the others. All its results are normal floats.
std::optional<Decimal> parse_short(const Digits& in, std::string_view text) {
  if (std::fegetround() != FE_TONEAREST) return std::nullopt;
  uint64_t digits = 0;
  int count = 0;
  for (const std::string_view part : {in.whole, in.fraction}) {
    for (const char c : part) {
      if (count == 0 && c == '0') continue;
      if (++count > kMaxDigits) return std::nullopt;
      digits = digits * 10 + static_cast<uint64_t>(c - '0');
    }
  }
  if (digits == 0) return derive(in.negative ? -0. : 0., 0);
  const int64_t scale = static_cast<int64_t>(in.fraction.size()) - in.exponent;
  if (scale < 0 || scale > kMaxFraction) return std::nullopt;

  double nearest = 0.;
  const char* begin = text.data() + (text[0] == '+' || text[0] == '-');
  std::from_chars(begin, text.data() + text.size(), nearest);
  const int residual = compare_exactly(digits, scale, nearest);
  return in.negative ? derive(-nearest, -residual) : derive(nearest, residual);
}

/// The default floating-point environment for a scope.
class DefaultEnvironment {
 public:
  DefaultEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultEnvironment() { std::fesetenv(&saved_); }
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

/// Any length: glibc's strtod rounds correctly in every rounding mode.
Decimal parse_long(std::string_view text) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string terminated(text);
  const DefaultEnvironment environment;
  const double nearest = strtod_l(terminated.c_str(), nullptr, c_locale);
  std::fesetround(FE_DOWNWARD);
  const double down = strtod_l(terminated.c_str(), nullptr, c_locale);
  std::fesetround(FE_UPWARD);
  const double up = strtod_l(terminated.c_str(), nullptr, c_locale);
  std::fesetround(FE_TONEAREST);
  return derive(nearest, down == up ? 0 : nearest == down ? 1 : -1);
}

/// Digit number `at` of the written digits, 0 beyond the last.
char digit_at(const Digits& in, size_t at) {
  if (at < in.whole.size()) return in.whole[at];
  at -= in.whole.size();
  return at < in.fraction.size() ? in.fraction[at] : '0';
}

size_t leading_zeros(const Digits& in) {
  const size_t size = in.whole.size() + in.fraction.size();
  size_t zeros = 0;
  while (zeros < size && digit_at(in, zeros) == '0') ++zeros;
  return zeros;
}

/// Order of the absolute values.
std::strong_ordering compare_magnitudes(const Digits& a, const Digits& b) {
  const size_t size_a = a.whole.size() + a.fraction.size(), zeros_a = leading_zeros(a);
  const size_t size_b = b.whole.size() + b.fraction.size(), zeros_b = leading_zeros(b);
  if (zeros_a == size_a || zeros_b == size_b) return (zeros_a != size_a) <=> (zeros_b != size_b);
  const auto point = [](const Digits& in, size_t zeros) {
    return in.exponent + static_cast<int64_t>(in.whole.size()) - static_cast<int64_t>(zeros);
  };
  if (const auto order = point(a, zeros_a) <=> point(b, zeros_b); order != 0) return order;
  for (size_t i = 0; zeros_a + i < size_a || zeros_b + i < size_b; ++i)
    if (const auto order = digit_at(a, zeros_a + i) <=> digit_at(b, zeros_b + i); order != 0)
      return order;
  return std::strong_ordering::equal;
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  const std::optional<Digits> digits = split(text);
  if (!digits) return std::nullopt;
  if (const std::optional<Decimal> out = parse_short(*digits, text)) return out;
  return parse_long(text);
}

std::strong_ordering compare_decimals(std::string_view a, std::string_view b) {
  const Digits left = split(a).value_or(Digits{}), right = split(b).value_or(Digits{});
  const std::strong_ordering order = compare_magnitudes(left, right);
  if (left.negative == right.negative) return left.negative ? 0 <=> order : order;
  // Zero has no sign.
  const Digits zero;
  const bool both_zero =
      compare_magnitudes(left, zero) == 0 && compare_magnitudes(right, zero) == 0;
  if (both_zero) return std::strong_ordering::equal;
  return left.negative ? std::strong_ordering::less : std::strong_ordering::greater;
}

}  // namespace grapeshot
