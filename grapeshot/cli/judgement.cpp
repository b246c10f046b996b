// grapeshot/cli/judgement.cpp: confirm() and what to say about it.
#include "grapeshot/cli/judgement.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

std::string rounded(double value) {
  std::ostringstream out;
  out << std::setprecision(6) << value;
  return out.str();
}

std::string more(int64_t count, std::string_view what) {
  return count <= 0 ? std::string() : str(" (", count, " more ", what, ")");
}

std::string margins(const Confirmation& c) {
  return str("margin ", rounded(c.verdict32.margin), " in float32, ", rounded(c.verdict64.margin),
             " in float64");
}

// "Y_3 <= Y_7 (region 1, case 2)"; the numbers only where there are several.
std::string name_case(const Property& property, const Verdict& verdict) {
  const Region& region = property.regions[static_cast<size_t>(verdict.region)];
  std::string place;
  if (property.regions.size() > 1) place = str("region ", verdict.region);
  if (region.cases.size() > 1) {
    place += str(place.empty() ? "" : ", ", "case ", verdict.case_index);
  }
  const std::string text = describe(region.cases[static_cast<size_t>(verdict.case_index)]);
  return place.empty() ? text : str(text, " (", place, ")");
}

using InputName = std::function<std::string(int64_t)>;

std::string say(const BoxExit& exit, const InputName& input_name) {
  if (!exit.why.empty()) return exit.why;
  return str(input_name(exit.input), " = ", shortest_decimal(exit.value),
             exit.value < exit.bound ? " is below its lower bound " : " is above its upper bound ",
             shortest_decimal(exit.bound), " by ", rounded(std::abs(exit.value - exit.bound)),
             more(exit.count - 1, "outside"));
}

std::string say(const Property& property, const Confirmation& c, const std::string& words) {
  if (c.verdict32.region < 0) return "outside of every box";
  const std::string where = words.empty() ? name_case(property, c.verdict32) : words;
  if (c.holds) {
    return str(where, ", ", margins(c),
               c.clear ? "" : "; within rounding, so that another runtime may disagree");
  }
  const auto is_nan = [](double v) { return std::isnan(v); };
  if (std::ranges::any_of(c.y32, is_nan) || std::ranges::any_of(c.y64, is_nan)) {
    return "an output is NaN";
  }
  if (c.verdict32.violates != c.verdict64.violates) {
    return str("violates in ", c.verdict32.violates ? "float32" : "float64", " only: ", where, ", ",
               margins(c));
  }
  return str("no violation; the nearest is ", where, ", ", margins(c));
}

// What rules the numbers out before anything is computed, or "".
std::string check_numbers(const Model& model, std::span<const double> x,
                          const InputName& input_name) {
  if (std::ssize(x) != model.inputs()) {
    return str("it has ", x.size(), " inputs, ", model.name(), " has ", model.inputs());
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const auto name = [&] { return input_name(static_cast<int64_t>(i)); };
    if (!std::isfinite(x[i])) return str(name(), " is ", std::isnan(x[i]) ? "NaN" : "infinite");
    if (std::abs(x[i]) > static_cast<double>(std::numeric_limits<float>::max())) {
      return str(name(), " = ", shortest_decimal(x[i]), " is beyond the largest float32");
    }
  }
  return {};
}

}  // namespace

std::optional<BoxExit> find_box_exit(const Property& property, std::span<const float> x) {
  std::optional<BoxExit> least;
  double least_by = 0.;
  for (size_t r = 0; r < property.regions.size(); ++r) {
    const Box& box = property.regions[r].box;
    if (contains(box, x)) return std::nullopt;
    BoxExit exit{.region = static_cast<int64_t>(r)};
    double by = 0.;
    for (size_t i = 0; i < x.size(); ++i) {
      const float bound = x[i] < box.lo[i] ? box.lo[i] : box.hi[i];
      if (x[i] >= box.lo[i] && x[i] <= box.hi[i]) continue;
      ++exit.count;
      const double distance = std::abs(static_cast<double>(x[i]) - static_cast<double>(bound));
      if (!(distance > by)) continue;
      by = distance;
      exit.input = static_cast<int64_t>(i);
      exit.value = static_cast<double>(x[i]);
      exit.bound = static_cast<double>(bound);
    }
    if (exit.count == 0) exit.why = why_outside(box.set, box.lo, box.hi, x);
    if (least && by >= least_by) continue;
    least = exit;
    least_by = by;
  }
  return least;
}

std::string describe(const Case& c) {
  constexpr size_t kMostRows = 3;
  std::string out;
  for (size_t r = 0; r < c.rows.size() && r < kMostRows; ++r) {
    const auto& [terms, bound] = c.rows[r];
    out += r == 0 ? "" : " and ";
    const bool difference =
        terms.size() == 2 && bound == 0. && terms[0].coefficient * terms[1].coefficient == -1.;
    if (difference) {
      const bool first = terms[0].coefficient > 0.;
      out += str("Y_", terms[first ? 0 : 1].output, " <= Y_", terms[first ? 1 : 0].output);
    } else if (terms.size() == 1 && std::abs(terms[0].coefficient) == 1.) {
      const double sign = terms[0].coefficient;
      out += str("Y_", terms[0].output, sign > 0. ? " <= " : " >= ", rounded(sign * bound));
    } else {
      for (const Term& term : terms) {
        out += str(term.coefficient < 0. ? "- " : "+ ", rounded(std::abs(term.coefficient)), " Y_",
                   term.output, " ");
      }
      out += str("<= ", rounded(bound));
    }
  }
  if (c.rows.size() > kMostRows) out += str(" and ", c.rows.size() - kMostRows, " more");
  return out;
}

Judgement judge_witness(const Model& model, const Property& property, std::span<const double> x,
                        const properties::Words& words, const InputName& given_names) {
  Judgement out;
  const InputName input_name =
      given_names ? given_names : [](int64_t input) { return str("X_", input); };
  out.why = check_numbers(model, x, input_name);
  if (!out.why.empty()) return out;
  std::vector<float> nearest;
  std::string unequal;
  for (size_t i = 0; i < x.size(); ++i) {
    nearest.push_back(static_cast<float>(x[i]));
    if (static_cast<double>(nearest[i]) == x[i]) continue;
    if (out.not_float32++ == 0) {
      unequal = str(input_name(static_cast<int64_t>(i)), " = ", shortest_decimal(x[i]),
                    " is not a float32; the nearest is ",
                    shortest_decimal(static_cast<double>(nearest[i])));
    }
  }
  out.confirmation = confirm(model, property, nearest);
  out.evaluated = true;
  out.exit = find_box_exit(property, nearest);
  out.holds = out.confirmation.holds && out.not_float32 == 0;
  if (out.not_float32 > 0) {
    out.why = str(unequal, more(out.not_float32 - 1, "are none"), "; with the nearest it ",
                  out.confirmation.holds ? "holds: " : "does not hold either: ");
  }
  const Confirmation& c = out.confirmation;
  if (words && c.verdict32.region >= 0) out.words = words(nearest, c.y32, c.verdict32);
  out.why += out.exit ? say(*out.exit, input_name) : say(property, c, out.words);
  if (c.verdict32.region < 0) return out;
  const InputSet& set = property.regions[static_cast<size_t>(c.verdict32.region)].box.set;
  if (set.ball.norm == BallNorm::kNone) return out;
  out.norm = set.ball.norm;
  out.radius = set.ball.radius;
  out.distance = distance(out.norm, nearest, set.ball.centre, set.one_hot.get());
  out.why += str("; ", name_of(out.norm), " distance ", rounded(out.distance), " of at most ",
                 rounded(out.radius));
  return out;
}

ordered_json to_json(const Judgement& judgement, const Property& property) {
  ordered_json out = {{"holds", judgement.holds}, {"why", judgement.why}};
  if (!judgement.evaluated) return out;
  const Confirmation& c = judgement.confirmation;
  out["margin"] = number(c.verdict32.margin);
  out["margin_float64"] = number(c.verdict64.margin);
  out["rounding"] = number(c.rounding);
  out["clear"] = c.clear && judgement.holds;
  out["not_float32"] = judgement.not_float32;
  if (!judgement.words.empty()) out["words"] = judgement.words;
  if (judgement.norm != BallNorm::kNone) {
    out["norm"] = name_of(judgement.norm);
    out["distance"] = judgement.distance;
    out["radius"] = judgement.radius;
  }
  if (judgement.exit) {
    const BoxExit& exit = *judgement.exit;
    out["outside"] = {{"region", exit.region},
                      {"input", exit.input},
                      {"value", exit.value},
                      {"bound", exit.bound},
                      {"count", exit.count}};
    if (!exit.why.empty()) out["outside"] = {{"region", exit.region}, {"why", exit.why}};
  } else {
    const Verdict& v = c.verdict32;
    out["region"] = v.region;
    out["case"] = v.case_index;
    out["case_text"] = describe(
        property.regions[static_cast<size_t>(v.region)].cases[static_cast<size_t>(v.case_index)]);
  }
  for (const double y : c.y32) out["outputs"].push_back(number(y));
  for (const double y : c.y64) out["outputs_float64"].push_back(number(y));
  return out;
}

}  // namespace grapeshot::cli
