// fuzz/property.h: what holds for every property, whatever it was read from.
#pragma once

#include <cmath>

#include "fuzz/fuzz.h"
#include "grapeshot/core/property.h"

namespace grapeshot::fuzz {

inline void check(const Property& property) {
  require(property.inputs > 0 && property.outputs > 0, "inputs and outputs are declared");
  require(!property.regions.empty(), "there is a region");
  for (const Region& region : property.regions) {
    const Box& box = region.box;
    require(std::ssize(box.lo) == property.inputs && std::ssize(box.hi) == property.inputs,
            "every input has bounds");
    bool crossed = false;
    for (size_t i = 0; i < box.lo.size(); ++i) {
      require(std::isfinite(box.lo[i]) && std::isfinite(box.hi[i]), "bounds are finite");
      crossed = crossed || box.lo[i] > box.hi[i];
    }
    require(crossed == box.empty, "a box is empty when bounds cross");
    require(!region.cases.empty(), "a region has a case");
    for (const Case& each : region.cases) {
      require(!each.rows.empty(), "a case has a row");
      for (const LinearRow& row : each.rows) {
        require(!row.terms.empty() && !std::isnan(row.bound), "a row says something");
        for (size_t t = 0; t < row.terms.size(); ++t) {
          require(row.terms[t].output >= 0 && row.terms[t].output < property.outputs,
                  "a row is about outputs");
          require(t == 0 || row.terms[t - 1].output < row.terms[t].output, "terms ascend");
        }
      }
    }
  }
}

}  // namespace grapeshot::fuzz
