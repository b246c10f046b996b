#include "grapeshot/core/property.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "grapeshot/base/error.h"

namespace grapeshot {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool compares_two_outputs(const LinearRow& row) {
  return row.bound == 0. && row.terms.size() == 2 &&
         row.terms[0].coefficient * row.terms[1].coefficient == -1.;
}

}  // namespace

double case_margin(const Case& c, std::span<const double> y) {
  double margin = -kInfinity;
  for (const LinearRow& row : c.rows) {
    double sum = 0.;
    for (const Term& term : row.terms)
      sum += term.coefficient * y[static_cast<size_t>(term.output)];
    const double distance = sum - row.bound;
    if (std::isnan(distance)) return kInfinity;
    margin = std::max(margin, distance);
  }
  return margin;
}

bool contains(const Box& box, std::span<const float> x) {
  int64_t dropped = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] >= box.lo[i] && x[i] <= box.hi[i]) continue;  // never for NaN
    const bool bit =
        x[i] == 0.f && std::ranges::binary_search(box.droppable, static_cast<int32_t>(i));
    if (!bit || ++dropped > box.most_dropped) return false;
  }
  return !box.set.any() || contains(box.set, box.lo, box.hi, x);
}

Box with_bits_of(Box box, std::span<const float> x) {
  for (const int32_t bit : box.droppable) {
    const auto i = static_cast<size_t>(bit);
    box.lo[i] = box.hi[i] = x[i];
  }
  box.droppable.clear();
  box.most_dropped = 0;
  return box;
}

Verdict judge(const Property& property, std::span<const float> x, std::span<const double> y) {
  GRAPESHOT_CHECK(std::ssize(x) == property.inputs && std::ssize(y) == property.outputs,
                  kInvalidArgument, "the property has ", property.inputs, " inputs and ",
                  property.outputs, " outputs, got ", x.size(), " and ", y.size());
  Verdict verdict{.margin = kInfinity};
  for (size_t r = 0; r < property.regions.size(); ++r) {
    const Region& region = property.regions[r];
    if (!contains(region.box, x)) continue;
    for (size_t c = 0; c < region.cases.size(); ++c) {
      const double margin = case_margin(region.cases[c], y);
      if (verdict.region >= 0 && !(margin < verdict.margin)) continue;
      verdict.margin = margin;
      verdict.region = static_cast<int64_t>(r);
      verdict.case_index = static_cast<int64_t>(c);
    }
  }
  verdict.violates = verdict.margin <= 0.;
  return verdict;
}

int64_t top1_label(const Region& region, int64_t outputs) {
  if (outputs < 2 || std::ssize(region.cases) != outputs - 1) return -1;
  int64_t label = -1;
  std::vector<bool> seen(static_cast<size_t>(outputs), false);
  for (const Case& c : region.cases) {
    if (c.rows.size() != 1 || !compares_two_outputs(c.rows[0])) return -1;
    const std::vector<Term>& terms = c.rows[0].terms;
    const bool first_is_label = terms[0].coefficient > 0.;  // Y_label - Y_other <= 0
    const int32_t mine = terms[first_is_label ? 0 : 1].output;
    const int32_t other = terms[first_is_label ? 1 : 0].output;
    if (label >= 0 && label != mine) return -1;
    label = mine;
    if (seen[static_cast<size_t>(other)]) return -1;
    seen[static_cast<size_t>(other)] = true;
  }
  return label;
}

bool compares_outputs_only(const Property& property) {
  for (const Region& region : property.regions)
    for (const Case& c : region.cases)
      for (const LinearRow& row : c.rows)
        if (!compares_two_outputs(row)) return false;
  return true;
}

}  // namespace grapeshot
