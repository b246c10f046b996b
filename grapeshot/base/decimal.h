// grapeshot/base/decimal.h: decimals of a text file to binary, rounded so that claims stay true.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

namespace grapeshot {

/// A decimal as written ("-1.5e-3"), in the nearest and both directed roundings.
struct Decimal {
  double nearest = 0., down = 0., up = 0.;  ///< down <= the decimal <= up, adjacent or equal
  float nearest32 = 0.f, down32 = 0.f, up32 = 0.f;
};

/// Reads all of `text` as [+-]digits[.digits][e[+-]digits]; nullopt when it is anything else, such
/// as "nan", "inf", "0x1p3" or ".5". Beyond the largest float (double) the outer rounding is
/// infinite, the inner one finite. Independent of the locale and of the floating-point environment.
[[nodiscard]] std::optional<Decimal> parse_decimal(std::string_view text);

/// The order of the values of two texts that parse_decimal accepts, exact: "0.10" equals "1e-1".
[[nodiscard]] std::strong_ordering compare_decimals(std::string_view a, std::string_view b);

}  // namespace grapeshot
