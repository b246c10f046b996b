// grapeshot/report/gate.h: conditions on a run that make a continuous integration fail.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "grapeshot/report/run.h"

namespace grapeshot::report {

/// Something of a run that a gate compares with a number; one row of the table in gate.cpp.
struct Quantity {
  std::string_view name, summary;
  bool baseline;  ///< needs an earlier run to compare with
  /// `before` is that run, or null.
  double (*of)(const Run& run, const Run* before);
};

/// All quantities, in table order.
[[nodiscard]] std::span<const Quantity> quantities();

/// Conditions joined by commas, any of which fails: "falsified>0,coverage<0.5". One is a quantity,
/// a comparison (> >= < <= ==) and a number; a quantity alone means > 0.
struct Condition {
  const Quantity* quantity = nullptr;
  std::string comparison = ">";
  double bound = 0.;
};

/// Throws Error{kInvalidArgument} for what is no condition, kNotFound for an unknown quantity.
[[nodiscard]] std::vector<Condition> parse_gate(std::string_view text);

/// The first condition that holds, in words ("falsified is 25, and 25 > 0"), or nothing. Throws
/// Error{kInvalidArgument} when one needs `before` and there is none.
[[nodiscard]] std::optional<std::string> failure(std::span<const Condition> gate, const Run& run,
                                                 const Run* before);

}  // namespace grapeshot::report
