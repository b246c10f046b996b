// grapeshot/report/chart.h: values against time as inline SVG.
#pragma once

#include <span>
#include <string>

#include "grapeshot/report/run.h"

namespace grapeshot::report {

struct ChartOptions {
  std::string title;   ///< what a screen reader says first
  double end_s = 0.;   ///< of the time axis, above 0
  double most = 0.;    ///< of the value axis; 0: by the curves
  bool share = false;  ///< values between 0 and 1, in per cent
  bool steps = false;  ///< a value holds until the next
};

/// An <svg> of one or more curves in the classes c0, c1, ... of the page's style. Long curves are
/// thinned out to what can be told apart.
[[nodiscard]] std::string chart(std::span<const Curve> curves, const ChartOptions& options);

}  // namespace grapeshot::report
