#include "grapeshot/report/chart.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/report/escape.h"

namespace grapeshot::report {
namespace {

constexpr double kLeft = 58., kTop = 12., kWidth = 428., kHeight = 180.;  // of the plot, pixels

// 1, 2 or 5 times a power of ten, of which about five make `most`.
double round_step(double most) {
  const double raw = most / 5., power = std::pow(10., std::floor(std::log10(raw)));
  for (const double factor : {1., 2., 5.}) {
    if (raw <= factor * power * 1.0001) return factor * power;
  }
  return 10. * power;
}

std::string place(double pixels) {
  return number(std::round(pixels * 10.) / 10., 6);
}

class Chart {
 public:
  Chart(std::span<const Curve> curves, const ChartOptions& options) : options_(options) {
    for (const Curve& curve : curves) {
      for (const auto& [t, value] : curve.points) {
        if (std::isfinite(value)) most_ = std::max(most_, value);
      }
    }
    if (options.most > 0.) most_ = options.most;
    if (!(most_ > 0.)) most_ = 1.;
  }

  [[nodiscard]] std::string axes() const {
    std::string out;
    const double step = round_step(most_), seconds = round_step(options_.end_s);
    for (double v = 0.; v <= most_ * 1.0001; v += step) {
      out += str("<line class=\"grid\" x1=\"", kLeft, "\" x2=\"", kLeft + kWidth, "\" y1=\"",
                 place(y(v)), "\" y2=\"", place(y(v)), "\"/>", "<text x=\"", kLeft - 6., "\" y=\"",
                 place(y(v) + 4.), "\" text-anchor=\"end\">", number(options_.share ? 100. * v : v),
                 options_.share ? " %" : "", "</text>");
    }
    for (double t = 0.; t <= options_.end_s * 1.0001; t += seconds) {
      out += str("<text x=\"", place(x(t)), "\" y=\"", kTop + kHeight + 17.,
                 "\" text-anchor=\"middle\">", number(t), t == 0. ? " s" : "", "</text>");
    }
    return out;
  }

  // The last point of every half pixel stands for all in it.
  [[nodiscard]] std::string line(const Curve& curve, size_t color) const {
    std::vector<std::pair<double, double>> points;
    for (const auto& [t, value] : curve.points) {
      if (!std::isfinite(t) || !std::isfinite(value)) continue;
      const std::pair<double, double> point{x(t), y(value)};
      const bool same =
          !points.empty() && points.size() > 1 && point.first - points.back().first < .5;
      if (same) points.pop_back();
      points.push_back(point);
    }
    std::string path;
    for (size_t i = 0; i < points.size(); ++i) {
      if (i > 0 && options_.steps) path += str("H", place(points[i].first));
      path += str(i == 0 ? "M" : "L", place(points[i].first), " ", place(points[i].second));
    }
    if (options_.steps && !points.empty()) path += str("H", place(kLeft + kWidth));
    return str("<path class=\"curve c", color % 6, "\" d=\"", path, "\"/>");
  }

 private:
  [[nodiscard]] double x(double seconds) const {
    return kLeft + kWidth * std::clamp(seconds / options_.end_s, 0., 1.);
  }
  [[nodiscard]] double y(double value) const {
    return kTop + kHeight * (1. - std::clamp(value / most_, 0., 1.));
  }

  const ChartOptions& options_;
  double most_ = 0.;
};

}  // namespace

std::string chart(std::span<const Curve> curves, const ChartOptions& options) {
  const Chart drawn(curves, options);
  std::string out =
      str("<svg viewBox=\"0 0 ", kLeft + kWidth + 14., " ", kTop + kHeight + 24.,
          "\" role=\"img\" aria-label=\"", markup(options.title), "\">", drawn.axes());
  for (size_t c = 0; c < curves.size(); ++c) out += drawn.line(curves[c], c);
  return out + "</svg>";
}

}  // namespace grapeshot::report
