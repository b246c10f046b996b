// grapeshot/cli/judgement.h: whether a witness holds, with the reason in words.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "grapeshot/core/confirm.h"
#include "grapeshot/core/model.h"
#include "grapeshot/core/property.h"
#include "grapeshot/io/properties/specification.h"

namespace grapeshot::cli {

/// How an input leaves the box that it leaves least.
struct BoxExit {
  int64_t region = 0;
  int64_t input = 0;  ///< the one that is farthest outside
  double value = 0., bound = 0.;
  int64_t count = 0;     ///< inputs outside; 0: within the bounds, but not in the box's set
  std::string why = {};  ///< then why
};

/// Empty when some region contains x.
[[nodiscard]] std::optional<BoxExit> find_box_exit(const Property& property,
                                                   std::span<const float> x);

/// "Y_3 <= Y_7 and Y_0 >= 1.5", shortened when there are many rows.
[[nodiscard]] std::string describe(const Case& c);

struct Judgement {
  bool holds = false;
  std::string why;            ///< one line, with the case and both margins where there are any
  std::string words;          ///< the violation in the property's own, "" without
  bool evaluated = false;     ///< `confirmation` is there: x has the right size and is finite
  Confirmation confirmation;  ///< of the nearest float32 inputs
  int64_t not_float32 = 0;    ///< inputs that are no float32, which rules a witness out
  std::optional<BoxExit> exit;
  /// Where the region of the verdict has a ball.
  BallNorm norm = BallNorm::kNone;
  double distance = 0., radius = 0.;
};

/// Exact: every input a float32 and inside its box, and the float32 and the float64 outputs violate
/// at zero tolerance. A property that does not fit `model` is the caller's fault
/// (kInvalidArgument).
/// `words`, where there are any, say what violates in place of the case; `input_name`, where there
/// is one, what input i is called in place of X_i.
[[nodiscard]] Judgement judge_witness(const Model& model, const Property& property,
                                      std::span<const double> x,
                                      const properties::Words& words = {},
                                      const std::function<std::string(int64_t)>& input_name = {});

/// The judgement's numbers, without file names.
[[nodiscard]] nlohmann::ordered_json to_json(const Judgement& judgement, const Property& property);

}  // namespace grapeshot::cli
