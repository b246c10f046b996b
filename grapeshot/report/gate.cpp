#include "grapeshot/report/gate.h"

#include <set>
#include <utility>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"
#include "grapeshot/report/escape.h"

namespace grapeshot::report {
namespace {

// A model that was trained again and a checkout elsewhere have the same names.
std::pair<std::string, std::string> name_of(const Run& run, const Instance& instance) {
  return {run.models[instance.model].name(), instance.name};
}

double new_instances(const Run& run, const Run* before) {
  std::set<std::pair<std::string, std::string>> known;
  for (const Instance& each : before->instances) {
    if (each.broken()) known.insert(name_of(*before, each));
  }
  double out = 0.;
  for (const Instance& each : run.instances) {
    if (each.broken() && !known.contains(name_of(run, each))) out += 1.;
  }
  return out;
}

constexpr Quantity kTable[] = {
    {"falsified", "Instances broken (images of `diff`)", false,
     [](const Run& run, const Run*) { return static_cast<double>(run.falsified()); }},
    {"share", "The same as a share of all, between 0 and 1", false,
     [](const Run& run, const Run*) {
       return run.instances.empty() ? 0.
                                    : static_cast<double>(run.falsified()) /
                                          static_cast<double>(run.instances.size());
     }},
    {"new", "Instances broken that were not in the run that --baseline names", true, new_instances},
    {"findings", "Findings kept", false,
     [](const Run& run, const Run*) { return static_cast<double>(run.findings_in_folder); }},
    {"coverage", "The first criterion's value at the end", false,
     [](const Run& run, const Run*) {
       const bool none = run.coverage.empty() || run.coverage[0].points.empty();
       return none ? 0. : run.coverage[0].points.back().second;
     }},
    {"unfinished", "1 when the run was interrupted or killed, else 0", false,
     [](const Run& run, const Run*) { return run.ending == Ending::kComplete ? 0. : 1.; }},
};

bool holds(double value, const std::string& comparison, double bound) {
  if (comparison == ">") return value > bound;
  if (comparison == ">=") return value >= bound;
  if (comparison == "<") return value < bound;
  if (comparison == "<=") return value <= bound;
  return value == bound;
}

Condition parse_condition(std::string_view text) {
  const size_t begin = text.find_first_of("<>=");
  Condition out;
  out.quantity = &find_row(quantities(), text.substr(0, begin), "quantity of --fail-on");
  if (begin == text.npos) return out;
  const size_t end = std::min(text.find_first_not_of("<>=", begin), text.size());
  out.comparison = text.substr(begin, end - begin);
  const std::optional<Decimal> bound = parse_decimal(text.substr(end));
  const bool known = out.comparison == ">" || out.comparison == ">=" || out.comparison == "<" ||
                     out.comparison == "<=" || out.comparison == "==";
  GRAPESHOT_CHECK(known && bound, kInvalidArgument, "--fail-on: '", printable(text),
                  "' is no condition such as falsified>0, share>=0.1 or new");
  out.bound = bound->nearest;
  return out;
}

}  // namespace

std::span<const Quantity> quantities() {
  return kTable;
}

std::vector<Condition> parse_gate(std::string_view text) {
  std::string plain;
  for (const char c : text) plain += c == ' ' ? std::string() : std::string(1, c);
  std::vector<Condition> out;
  for (const std::string_view each : split_at(',', plain)) out.push_back(parse_condition(each));
  GRAPESHOT_CHECK(!out.empty(), kInvalidArgument, "--fail-on: no condition given");
  return out;
}

std::optional<std::string> failure(std::span<const Condition> gate, const Run& run,
                                   const Run* before) {
  for (const Condition& each : gate) {
    GRAPESHOT_CHECK(before != nullptr || !each.quantity->baseline, kInvalidArgument, "--fail-on ",
                    each.quantity->name, " needs --baseline, an earlier run to compare with");
    const double value = each.quantity->of(run, before);
    if (!holds(value, each.comparison, each.bound)) continue;
    return str(each.quantity->name, " is ", number(value), ", which is ", each.comparison, " ",
               number(each.bound));
  }
  return std::nullopt;
}

}  // namespace grapeshot::report
