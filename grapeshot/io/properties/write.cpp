// grapeshot/io/properties/write.cpp: a Property with balls, grids or groups as a JSON
// specification.
#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/io/properties/specification.h"

namespace grapeshot::properties {
namespace {

using nlohmann::ordered_json;

// The outputs that others have to be less than: of every row the one with the positive sign.
std::set<int32_t> allowed_classes(const Region& region) {
  std::set<int32_t> out;
  for (const LinearRow& row : region.cases[0].rows) {
    for (const Term& term : row.terms) {
      if (term.coefficient > 0.) out.insert(term.output);
    }
  }
  return out;
}

}  // namespace

std::string write_specification(const Property& property, const std::string& description) {
  GRAPESHOT_CHECK(property.regions.size() == 1 && compares_outputs_only(property), kUnsupported,
                  "only comparisons of classes in one box are written as JSON");
  const Region& region = property.regions[0];
  const Box& box = region.box;
  ordered_json inputs = {{"lo", box.lo}, {"hi", box.hi}};
  const InputSet& set = box.set;
  if (set.ball.norm != BallNorm::kNone) {
    inputs["ball"] = {
        {"norm", name_of(set.ball.norm)}, {"radius", set.ball.radius}, {"center", set.ball.centre}};
  }
  if (set.grid) inputs["grid"] = {{"origin", set.grid->origin}, {"step", set.grid->step}};
  if (set.one_hot) inputs["one_hot"] = *set.one_hot;
  const ordered_json out = {{"property", "set"},
                            {"description", description},
                            {"inputs", inputs},
                            {"classes", allowed_classes(region)}};
  return out.dump() + "\n";
}

}  // namespace grapeshot::properties
