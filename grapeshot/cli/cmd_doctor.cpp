// grapeshot/cli/cmd_doctor.cpp: `grapeshot doctor`: what a model is, and whether it is computed
// right.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/commands.h"
#include "grapeshot/cli/rows.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/cli/timing.h"
#include "grapeshot/core/loop.h"
#include "grapeshot/core/rng.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kRows = 16;
constexpr double kTolerance = 1e-4;  // of |a - b| / (1 + |b|), the project's contract of parity

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t size : shape) out += str(out.size() > 1 ? ", " : "", size);
  return out + "]";
}

std::string short_text(double value) {
  std::ostringstream out;
  out << std::setprecision(3) << value;
  return out.str();
}

// The largest |a - b| / (1 + |b|); places where both are NaN or the same infinity agree.
double difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor same = (x == y).logical_or_(x.isnan().logical_and(y.isnan()));
  const at::Tensor relative = ((x - y).abs() / (y.abs() + 1.)).masked_fill(same, 0.);
  const double largest = relative.numel() > 0 ? relative.max().item<double>() : 0.;
  return std::isnan(largest) ? std::numeric_limits<double>::infinity() : largest;
}

// Findings about one model: lines for people, an object for programs, and what does not hold.
class Examination {
 public:
  Examination(const onnx::OnnxModel& net, const at::Tensor& x) : net_(net), x_(x) {}

  void run() {
    describe_graph();
    describe_work();
    check_batch();
    check_lowering();
    describe_heads();
    check_gradient();
    check_derivative();
  }

  [[nodiscard]] ordered_json to_json() const {
    ordered_json out = json_;
    out["problems"] = problems_;
    out["notes"] = notes_;
    return out;
  }

  void print() const {
    for (const auto& [label, text] : lines_) {
      std::cout << std::left << std::setw(12) << label << text << "\n";
    }
    for (const std::string& note : notes_) std::cout << "note: " << note << "\n";
    for (const std::string& problem : problems_) std::cout << "PROBLEM: " << problem << "\n";
    if (problems_.empty()) std::cout << "everything holds\n";
  }

  [[nodiscard]] bool holds() const { return problems_.empty(); }

 private:
  void line(std::string label, std::string text) {
    lines_.emplace_back(std::move(label), std::move(text));
  }

  void describe_graph() {
    const onnx::Network& network = net_.network();
    std::map<std::string, int64_t> counts;
    std::set<std::string> read;
    for (const onnx::BoundNode& bound : network.nodes) {
      ++counts[bound.node.op];
      read.insert(bound.node.inputs.begin(), bound.node.inputs.end());
    }
    int64_t parameters = 0;
    for (const auto& [name, t] : network.constants) {
      if (read.contains(name) && t.is_floating_point()) parameters += t.numel();
    }
    std::string operators;
    for (const auto& [op, count] : counts) {
      operators += str(operators.empty() ? "" : ", ", count, " ", op);
    }
    json_["opset"] = network.opset;
    json_["operators"] = counts;
    json_["parameters"] = parameters;
    json_["input_shape"] = net_.input_shape();
    json_["output_shape"] = net_.output_shape();
    line("model", str(net_.name(), ", opset ", network.opset));
    line("input", str(shape_text(net_.input_shape()), ", ", net_.inputs(), " numbers a row"));
    line("output", str(shape_text(net_.output_shape()), ", ", net_.outputs(), " numbers a row"));
    line("operators",
         operators.empty() ? "none: the output does not depend on the input" : operators);
    line("parameters", str(parameters));
  }

  void describe_work() {
    int64_t neurons = 0, redundant = 0;
    for (const Tap& tap : net_.taps()) {
      neurons += tap.neurons;
      redundant += tap.redundant ? 1 : 0;
    }
    json_["macs_per_row"] = net_.macs();
    json_["activation_values_per_row"] = net_.activation_values();
    json_["micro_batch"] = micro_batch(net_);
    json_["taps"] = net_.taps().size();
    json_["redundant_taps"] = redundant;
    json_["neurons"] = neurons;
    line("work", str(net_.macs(), " multiply-adds and ", net_.activation_values(),
                     " values a row, ", micro_batch(net_), " rows a pass"));
    const double one = 1e3 * forward_seconds(net_, 1, 0.05), many = 1e3 * forward_seconds(net_, 64, 0.2);
    json_["milliseconds"] = {{"rows_1", one}, {"rows_64", many}};
    line("time", str(short_text(one), " ms for 1 row, ", short_text(many), " ms for 64 on one thread"));
    line("coverage", str(net_.taps().size(), " layers with ", neurons, " neurons, ", redundant,
                         " of them counted with --every-tap only"));
  }

  // `pick` gives the two results to compare for inputs of either precision. Only float64 tells a
  // step function that rounding flipped from a result that is wrong.
  template <class Pick>
  void compare(const char* key, const char* label, std::string_view words, Pick pick) {
    const double narrow = std::apply(difference, pick(x_.to(at::kFloat)));
    const double wide = std::apply(difference, pick(x_));
    json_[key] = {{"difference_float32", number(narrow)}, {"difference_float64", number(wide)}};
    line(label, str(words, " differ by ", short_text(narrow), " in float32, ", short_text(wide),
                    " in float64"));
    if (wide > kTolerance) {
      problems_.push_back(str(words, " differ by ", short_text(wide), " in float64, more than ",
                              kTolerance, " of 1 + |y|"));
    } else if (narrow > kTolerance) {
      notes_.push_back(str(words,
                           " differ in float32 only: rounding flips a step function or is "
                           "amplified, so that findings close to the border may not be confirmed"));
    }
  }

  void check_batch() {
    json_["runs_as_one_batch"] = net_.fallback().empty();
    if (net_.fallback().empty()) {
      line("batch", "runs as one");
    } else {
      json_["fallback"] = net_.fallback();
      line("batch", "runs row by row: " + net_.fallback());
      notes_.push_back("a pass over N rows takes N times as long as one over a single row");
    }
    compare("batch", "rows", "a batch and its rows one by one", [&](const at::Tensor& x) {
      return std::pair(net_.forward_unlowered(x), net_.evaluate(x));
    });
  }

  void check_lowering() {
    compare("lowering", "lowering", "the lowered graph and the graph as read",
            [&](const at::Tensor& x) {
              return std::pair(net_.forward(x, Head::kOutputs), net_.forward_unlowered(x));
            });
  }

  void describe_heads() {
    json_["logits"] = net_.has_logits();
    json_["surrogates"] = net_.has_surrogates();
    line("logits", net_.has_logits() ? "losses look at what the final softmax is applied to"
                                     : "the outputs are what losses look at");
    line("steps", net_.has_surrogates()
                      ? "Sign, Round or Floor: gradients pass straight through them"
                      : "no step functions");
    const at::Tensor y = net_.forward(x_.to(at::kFloat), Head::kOutputs);
    const int64_t odd = y.isfinite().logical_not_().any(1).sum().item<int64_t>();
    json_["rows_with_nonfinite_outputs"] = odd;
    if (odd > 0)
      notes_.push_back(str(odd, " of ", x_.size(0), " rows have NaN or infinite outputs"));
  }

  // Of the largest output minus the second one: what a loss on top-1 climbs.
  [[nodiscard]] at::Tensor margin_gradient(Head head) const {
    const auto cotangent = [](const at::Tensor& y) {
      const int64_t k = std::min<int64_t>(2, y.size(1));
      const at::Tensor top = std::get<1>(y.topk(k, 1));
      at::Tensor out = at::zeros_like(y).scatter(1, top.slice(1, 0, 1), 1.);
      return k == 1 ? out : out.scatter(1, top.slice(1, 1, 2), -1.);
    };
    return net_.gradient(x_.to(at::kFloat), head, Surrogate::kLoose, cotangent).x;
  }

  void check_gradient() {
    const Head head = net_.has_logits() ? Head::kLogits : Head::kOutputs;
    const at::Tensor gradient = margin_gradient(head);
    const int64_t rows = gradient.size(0);
    const auto count = [](const at::Tensor& mask) { return mask.sum().item<int64_t>(); };
    const int64_t odd = count(gradient.isfinite().logical_not_().any(1));
    const int64_t zero = count((gradient == 0).all(1));
    const double largest = rows > 0 ? gradient.abs().max().item<double>() : 0.;
    json_["gradient"] = {
        {"rows", rows}, {"zero_rows", zero}, {"nonfinite_rows", odd}, {"largest", number(largest)}};
    line("gradient", str("zero in ", zero, " of ", rows, " rows, not finite in ", odd,
                         ", largest entry ", short_text(largest)));
    if (net_.has_logits()) {
      const int64_t saturated = count((margin_gradient(Head::kOutputs) == 0).all(1));
      json_["gradient"]["zero_rows_with_softmax"] = saturated;
      if (saturated > zero) {
        notes_.push_back(str("with the softmax the gradient would be zero in ", saturated, " of ",
                             rows, " rows"));
      }
    }
    if (odd > 0) notes_.push_back("gradients are NaN or infinite in some rows");
    if (2 * zero > rows) {
      notes_.push_back("most gradients are zero: try --mutations flip,random");
    }
  }

  // Slopes of a fixed combination of the outputs, gradient against central differences in float64.
  void check_derivative() {
    if (net_.has_surrogates()) {
      json_["derivative"] = nullptr;
      line("slopes", "not compared: gradients of step functions are no derivatives");
      return;
    }
    Rng rng(uint64_t{4});
    const at::Tensor weight = at::randn({net_.outputs()}, rng.generator()).to(at::kDouble);
    const int64_t rows = std::min<int64_t>(3, x_.size(0));
    Slopes total;
    for (int64_t i = 0; i < rows; ++i) add_slopes(x_.slice(0, i, i + 1), weight, total);
    json_["derivative"] = {{"slopes", total.compared},
                           {"kinks", total.kinks},
                           {"difference", number(total.difference)}};
    line("slopes", str(total.compared, " compared with finite differences differ by ",
                       short_text(total.difference), ", ", total.kinks, " at kinks left out"));
    if (total.difference > kTolerance) {
      problems_.push_back(str("the gradient differs from finite differences by ",
                              short_text(total.difference), " of its size"));
    }
  }

  struct Slopes {
    int64_t compared = 0, kinks = 0;
    double difference = 0.;  ///< largest, relative to the row's largest slope
  };

  void add_slopes(const at::Tensor& x, const at::Tensor& weight, Slopes& total) const {
    // At a kink the gradient is one of the two slopes, half their difference from the central one.
    constexpr double kStep = 1e-5, kKink = kTolerance;
    const at::Tensor gradient =
        net_.gradient(x, Head::kOutputs, Surrogate::kLoose,
                      [&](const at::Tensor& y) { return weight.unsqueeze(0).expand_as(y); })
            .x.squeeze(0);
    const int64_t d = net_.inputs(), n = std::min(kRows, d);
    const at::Tensor coordinate = at::arange(n) * d / n;
    const at::Tensor index = coordinate.to(at::kLong);
    const at::Tensor step = at::zeros({n, d}, at::kDouble).scatter(1, index.unsqueeze(1), kStep);
    const at::Tensor points = at::cat({x, x + step, x - step});
    const at::Tensor f = at::mv(net_.forward_unlowered(points), weight);
    const at::Tensor right = (f.slice(0, 1, 1 + n) - f[0]) / kStep;
    const at::Tensor left = (f[0] - f.slice(0, 1 + n)) / kStep;
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

  const onnx::OnnxModel& net_;
  at::Tensor x_;  // [N, D] float64
  std::vector<std::pair<std::string, std::string>> lines_;
  std::vector<std::string> problems_, notes_;
  ordered_json json_ = ordered_json::object();
};

struct DoctorCommand {
  std::string model, data;
  bool json = false;

  int run() const {
    at::set_num_threads(1);
    const std::unique_ptr<onnx::OnnxModel> net = onnx::load_model(model);
    at::Tensor x;
    if (data.empty()) {
      Rng rng(uint64_t{3});
      x = at::rand({kRows, net->inputs()}, rng.generator()).to(at::kDouble);
    } else {
      x = read_rows(data, *net).slice(0, 0, kRows).to(at::kFloat).to(at::kDouble);
      GRAPESHOT_CHECK(x.size(0) > 0, kInvalidArgument, data, ": holds no row");
    }
    Examination examination(*net, x);
    examination.run();
    if (json) {
      ordered_json out = {{"command", "doctor"}, {"model", model}, {"holds", examination.holds()}};
      out.update(examination.to_json());
      std::cout << out.dump(2) << "\n";
    } else {
      examination.print();
    }
    return examination.holds() ? kNothingFound : kFound;
  }
};

}  // namespace

Action declare_doctor(CLI::App& app) {
  auto command = std::make_shared<DoctorCommand>();
  app.add_option("MODEL", command->model, "An .onnx or .onnx.gz file")->required();
  app.add_option(
      "--data", command->data,
      "Inputs to examine it on, .npy, [N, ...], the first 16 (default: random in [0, 1])");
  app.add_flag("--json", command->json, "One JSON object on stdout");
  return [command] { return command->run(); };
}

}  // namespace grapeshot::cli
