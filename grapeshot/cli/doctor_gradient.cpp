// grapeshot/cli/doctor_gradient.cpp: see doctor_report.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/doctor_report.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/io/onnx/gradient_path.h"
#include "grapeshot/io/onnx/surrogate.h"

namespace grapeshot::cli {
namespace {

constexpr double kLarge = 1e4;    // of a gradient: exploding
constexpr double kUnusual = 10.;  // of an input: not normalised

void describe_steps(const Patient& patient, Report& report) {
  const onnx::OnnxModel& net = patient.net;
  int64_t steps = 0;
  for (const onnx::BoundNode& bound : net.network().nodes) {
    steps += onnx::is_step_operator(bound.node.op) ? 1 : 0;
  }
  report.json["logits"] = net.has_logits();
  report.json["surrogates"] = net.has_surrogates();
  report.json["step_nodes"] = steps;
  report.line("logits", net.has_logits() ? "losses look at what the final softmax is applied to"
                                         : "the outputs are what losses look at");
  report.line("steps", steps > 0 ? str(steps,
                                       " of Sign, Round, Floor, Ceil: gradients pass straight "
                                       "through, in turn everywhere and near the step only")
                                 : "no step functions");
}

// What rows' inputs look like: a network wants them near 1, and of similar widths.
void describe_range(const Patient& patient, Report& report) {
  at::Tensor lo, hi;
  if (patient.property) {
    std::vector<double> low, high;
    for (const Region& region : patient.property->regions) {
      low.insert(low.end(), region.box.lo.begin(), region.box.lo.end());
      high.insert(high.end(), region.box.hi.begin(), region.box.hi.end());
    }
    const auto regions = static_cast<int64_t>(patient.property->regions.size());
    lo = at::tensor(low, at::kDouble).reshape({regions, patient.net.inputs()});
    hi = at::tensor(high, at::kDouble).reshape({regions, patient.net.inputs()});
  } else if (patient.given) {
    lo = patient.x.amin(0, true);
    hi = patient.x.amax(0, true);
  } else {
    report.line("range", "not known: a SPEC or --data says what inputs look like");
    return;
  }
  const double low = lo.min().item<double>(), high = hi.max().item<double>();
  const at::Tensor width = hi - lo;
  const int64_t fixed = (width == 0).all(0).sum().item<int64_t>();
  const at::Tensor moving = width.masked_select(width > 0);
  const double spread = moving.numel() > 0 ? (moving.max() / moving.min()).item<double>() : 1.;
  report.json["range"] = {{"low", number(low)},
                          {"high", number(high)},
                          {"fixed_inputs", fixed},
                          {"widths_spread", number(spread)}};
  report.line("range", str("inputs between ", short_text(low), " and ", short_text(high), ", ",
                           fixed, " fixed, widest over narrowest ", short_text(spread)));
  if (std::max(std::abs(low), std::abs(high)) > kUnusual || spread > 100.) {
    report.notes.push_back(
        "unnormalised inputs: the loop takes steps in proportion to every input's own width "
        "(--scale ani), so that large ones do not drown the others");
  }
}

// Of the largest output minus the second one: what a loss on top-1 climbs.
at::Tensor margin_gradient(const Patient& patient, Head head) {
  const auto cotangent = [](const at::Tensor& y) {
    const int64_t k = std::min<int64_t>(2, y.size(1));
    const at::Tensor top = std::get<1>(y.topk(k, 1));
    at::Tensor out = at::zeros_like(y).scatter(1, top.slice(1, 0, 1), 1.);
    return k == 1 ? out : out.scatter(1, top.slice(1, 1, 2), -1.);
  };
  return patient.net.gradient(patient.x.to(at::kFloat), head, Surrogate::kLoose, cotangent).x;
}

int64_t count(const at::Tensor& mask) {
  return mask.sum().item<int64_t>();
}

void check_path(const Patient& patient, Report& report) {
  const onnx::GradientPath path = onnx::gradient_path(patient.net.network());
  report.json["gradient"]["reaches_inputs"] = path.reaches;
  report.json["gradient"]["cut_by"] = path.cut;
  if (path.cut.empty()) return;
  report.line(
      "cut", str(path.reaches ? "on some ways" : "on all ways", " no gradient passes ", path.cut[0],
                 path.cut.size() > 1 ? str(" and ", path.cut.size() - 1, " more") : ""));
  if (!path.reaches) {
    report.notes.push_back(
        "masked: no gradient reaches the inputs, so that gradient mutations do not move; random "
        "and boundary ones do (--mutations flip,random saves the passes)");
  }
}

void check_gradient(const Patient& patient, Report& report) {
  const Head head = patient.net.has_logits() ? Head::kLogits : Head::kOutputs;
  const at::Tensor gradient = margin_gradient(patient, head);
  const int64_t rows = gradient.size(0);
  const int64_t odd = count(gradient.isfinite().logical_not_().any(1));
  const int64_t zero = count((gradient == 0).all(1));
  const int64_t masked = count((gradient == 0).all(0));
  const double largest = gradient.abs().max().item<double>();
  auto& json = report.json["gradient"];
  json["rows"] = rows;
  json["zero_rows"] = zero;
  json["nonfinite_rows"] = odd;
  json["masked_inputs"] = masked;
  json["largest"] = number(largest);
  report.line("gradient", str("zero in ", zero, " of ", rows, " rows, not finite in ", odd,
                              ", largest entry ", short_text(largest), "; ", masked, " of ",
                              patient.net.inputs(), " inputs masked (zero in every row)"));
  check_path(patient, report);
  if (patient.net.has_logits()) {
    const int64_t saturated = count((margin_gradient(patient, Head::kOutputs) == 0).all(1));
    json["zero_rows_with_softmax"] = saturated;
    if (saturated > zero) {
      report.notes.push_back(str("saturated outputs: behind the softmax the gradient is zero in ",
                                 saturated, " of ", rows,
                                 " rows; the loop's losses look at what it is applied to"));
    }
  } else if (zero > 0 && json["reaches_inputs"].get<bool>()) {
    report.notes.push_back(str("zero or saturated: in ", zero, " of ", rows,
                               " rows no gradient is left; the loop's random and boundary "
                               "mutations move such rows to where there is one"));
  }
  if (odd > 0) {
    report.notes.push_back(
        "gradients are NaN or infinite in some rows; such entries are taken as zero");
  } else if (largest > kLarge) {
    report.notes.push_back(str("exploding: gradient entries reach ", short_text(largest),
                               "; the loop steps by their sign, so that their size is no harm"));
  }
}

struct Slopes {
  int64_t compared = 0, kinks = 0;
  double difference = 0.;  ///< largest, relative to the row's largest slope
};

void add_slopes(const onnx::OnnxModel& net, const at::Tensor& x, const at::Tensor& weight, double h,
                Slopes& total) {
  // At a kink the gradient is one of the two slopes, half their difference from the central one.
  constexpr double kKink = kParity;
  constexpr int64_t kPoints = 16;
  const at::Tensor gradient =
      net.gradient(x, Head::kOutputs, Surrogate::kLoose,
                   [&](const at::Tensor& y) { return weight.unsqueeze(0).expand_as(y); })
          .x.squeeze(0);
  const int64_t d = net.inputs(), n = std::min(kPoints, d);
  const at::Tensor index = (at::arange(n) * d / n).to(at::kLong);
  const at::Tensor step = at::zeros({n, d}, at::kDouble).scatter(1, index.unsqueeze(1), h);
  const at::Tensor f = at::mv(net.forward_unlowered(at::cat({x, x + step, x - step})), weight);
  const at::Tensor right = (f.slice(0, 1, 1 + n) - f[0]) / h;
  const at::Tensor left = (f[0] - f.slice(0, 1 + n)) / h;
  const at::Tensor expected = gradient.index_select(0, index);
  const auto largest_of = [](const at::Tensor& t) {
    return t.nan_to_num(0., 0., 0.).abs().max().item<double>();
  };
  const double size = std::max({1e-6, largest_of(gradient), largest_of(right)});
  const at::Tensor kink = ((right - left).abs() <= kKink * size).logical_not();  // or no number
  const at::Tensor off = ((right + left) / 2 - expected).abs().div_(size).masked_fill_(kink, 0.);
  const auto kinks = kink.sum().item<int64_t>();
  total.kinks += kinks;
  total.compared += n - kinks;
  const double largest = off.max().item<double>();
  total.difference = std::max(
      total.difference, std::isnan(largest) ? std::numeric_limits<double>::infinity() : largest);
}

// Slopes of a fixed combination of the outputs, gradient against central differences in float64.
void check_derivative(const Patient& patient, Report& report) {
  if (patient.net.has_surrogates()) {
    report.json["derivative"] = nullptr;
    report.line("slopes", "not compared: gradients of step functions are no derivatives");
    return;
  }
  Rng rng(uint64_t{4});
  const at::Tensor weight = at::randn({patient.net.outputs()}, rng.generator()).to(at::kDouble);
  // Kinks on both sides within a step can look like none: what is wrong is so at a smaller step,
  // too.
  Slopes total;
  for (const double h : {1e-5, 1e-7}) {
    total = {};
    for (int64_t i = 0; i < std::min<int64_t>(3, patient.x.size(0)); ++i) {
      add_slopes(patient.net, patient.x.slice(0, i, i + 1), weight, h, total);
    }
    if (total.difference <= kParity) break;
  }
  report.json["derivative"] = {
      {"slopes", total.compared}, {"kinks", total.kinks}, {"difference", number(total.difference)}};
  report.line("slopes", str(total.compared, " compared with finite differences differ by ",
                            short_text(total.difference), ", ", total.kinks, " at kinks left out"));
  if (total.difference > kParity) {
    report.problems.push_back(str("the gradient differs from finite differences by ",
                                  short_text(total.difference), " of its size"));
  }
}

}  // namespace

void examine_gradients(const Patient& patient, Report& report) {
  describe_range(patient, report);
  describe_steps(patient, report);
  check_gradient(patient, report);
  check_derivative(patient, report);
}

}  // namespace grapeshot::cli
