// fuzz/decimal.cpp: decimals to binary and their order. The input is two lines, a number each.
#include "grapeshot/base/decimal.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "fuzz/fuzz.h"

namespace {

using grapeshot::Decimal;
using grapeshot::fuzz::require;

template <class T>
void check(T down, T nearest, T up) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  require(down <= nearest && nearest <= up, "down <= nearest <= up");
  require(nearest == down || nearest == up, "the nearest is one of the two beside the decimal");
  require(up == down || up == std::nextafter(down, kInfinity), "nothing lies between down and up");
  require(down < kInfinity && up > -kInfinity, "the inner rounding is finite");
}

void check(const Decimal& decimal, const std::string& text) {
  check(decimal.down, decimal.nearest, decimal.up);
  check(decimal.down32, decimal.nearest32, decimal.up32);
  require(decimal.down32 <= decimal.down && decimal.up <= decimal.up32,
          "the floats enclose the doubles");
  require(std::strtod(text.c_str(), nullptr) == decimal.nearest, "the double that strtod reads");
  require(std::strtof(text.c_str(), nullptr) == decimal.nearest32, "the float that strtof reads");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace grapeshot;  // NOLINT(google-build-using-namespace)
  const std::string_view input = fuzz::bytes(data, size);
  const size_t newline = std::min(input.find('\n'), size);
  const std::string a(input.substr(0, newline));
  const std::string b(input.substr(std::min(newline + 1, size)));
  const std::optional<Decimal> left = parse_decimal(a), right = parse_decimal(b);
  if (left) check(*left, a);
  if (right) check(*right, b);
  if (!left || !right) return 0;
  const std::strong_ordering order = compare_decimals(a, b);
  require((0 <=> compare_decimals(b, a)) == order, "the order does not depend on the side");
  require(compare_decimals(a, a) == 0 && compare_decimals(b, b) == 0, "a decimal equals itself");
  if (left->nearest < right->nearest) require(order < 0, "the order is that of the doubles");
  if (left->nearest > right->nearest) require(order > 0, "the order is that of the doubles");
  if (order <= 0)
    require(left->down <= right->down && left->up <= right->up, "rounding keeps order");
  return 0;
}
