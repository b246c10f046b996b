// grapeshot/base/decimal.h: decimals of a text file to binary, with the rounding that keeps a claim true.
#pragma once

#include <optional>
#include <string_view>

namespace grapeshot {

/// A decimal as written ("-1.5e-3"), in the nearest and both directed roundings.
struct Decimal {
  double nearest = 0., down = 0., up = 0.;  ///< down <= the decimal <= up
  float nearest32 = 0.f, down32 = 0.f, up32 = 0.f;
};

/// Reads all of `text` as a decimal; nullopt when it is none. Out of range gives infinities,
/// "nan" and "inf" are not decimals. Independent of the locale.
[[nodiscard]] std::optional<Decimal> parse_decimal(std::string_view text);

}  // namespace grapeshot
