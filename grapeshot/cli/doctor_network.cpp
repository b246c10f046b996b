// grapeshot/cli/doctor_network.cpp: see doctor_report.h.
#include <cmath>
#include <iomanip>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/doctor_report.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/cli/timing.h"
#include "grapeshot/core/loop.h"
#include "grapeshot/io/torchscript/torchscript.h"

namespace grapeshot::cli {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t size : shape) {
    out += str(out.size() > 1 ? ", " : "", size < 0 ? std::string("?") : std::to_string(size));
  }
  return out + "]";
}

std::string with_dots(int64_t number) {
  std::string out = std::to_string(number);
  for (auto i = static_cast<std::ptrdiff_t>(out.size()) - 3; i > 0; i -= 3) {
    out.insert(static_cast<size_t>(i), 1, ',');
  }
  return out;
}

void describe_ports(const onnx::Network& network, Report& report) {
  const auto list = [&](const std::vector<onnx::PortSlice>& ports, const char* label) {
    int64_t total = 0;
    for (const onnx::PortSlice& port : ports) {
      report.line(label,
                  str(port.name, " ", shape_text(port.shape), ", ", port.size, " numbers a row"));
      report.json[std::string(label) + "s"].push_back(
          {{"name", port.name}, {"shape", port.shape}, {"begin", port.begin}});
      total += port.size;
    }
    if (ports.size() > 1) {
      report.line("", str("a row is all ", ports.size(), " of them, ", total,
                          " numbers in this order, as VNN-LIB numbers them"));
    }
  };
  list(network.inputs, "input");
  list(network.outputs, "output");
}

void describe_graph(const Patient& patient, Report& report) {
  const onnx::Network& network = patient.net.network();
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
  const bool script = torchscript::is_torchscript(network);
  if (script) parameters = network.nodes[0].node.i("parameters", 0);
  std::string operators;
  for (const auto& [op, count] : counts) {
    operators += str(operators.empty() ? "" : ", ", count, " ", op);
  }
  report.json["opset"] = network.opset;
  report.json["operators"] = counts;
  report.json["parameters"] = parameters;
  report.json["input_shape"] = patient.net.input_shape();
  report.json["output_shape"] = patient.net.output_shape();
  report.json["format"] = script ? "TorchScript" : "ONNX";
  report.line("model", script ? str(patient.net.name(), ", TorchScript, run as a whole")
                              : str(patient.net.name(), ", opset ", network.opset));
  describe_ports(network, report);
  report.line("operators",
              operators.empty() ? "none: the output does not depend on the input" : operators);
  report.line("parameters", with_dots(parameters));
}

void describe_work(const onnx::OnnxModel& net, Report& report) {
  int64_t neurons = 0, redundant = 0;
  for (const Tap& tap : net.taps()) {
    neurons += tap.neurons;
    redundant += tap.redundant ? 1 : 0;
  }
  const double one = 1e3 * forward_seconds(net, 1, 0.05),
               many = 1e3 * forward_seconds(net, 64, 0.2);
  report.json["macs_per_row"] = net.macs();
  report.json["activation_values_per_row"] = net.activation_values();
  report.json["micro_batch"] = micro_batch(net);
  report.json["milliseconds"] = {{"rows_1", one}, {"rows_64", many}};
  report.json["taps"] = net.taps().size();
  report.json["redundant_taps"] = redundant;
  report.json["neurons"] = neurons;
  report.line("work", str(with_dots(net.macs()), " multiply-adds (MACs) and ",
                          with_dots(net.activation_values()), " values a row, ", micro_batch(net),
                          " rows a pass"));
  report.line("time", str(short_text(one), " ms for 1 row, ", short_text(many),
                          " ms for 64, forward on one thread"));
  if (torchscript::is_torchscript(net.network())) {
    report.line("coverage", "none: nothing is known of the layers inside of TorchScript");
    return;
  }
  report.line("coverage", str(net.taps().size(), " layers with ", neurons, " neurons, ", redundant,
                              " of them counted with --every-tap only"));
}

// What the file says about its first axis; rows run on an axis of their own in front of it.
std::string batch_axis(const onnx::PortSlice& input, bool script) {
  if (script) return "the rows are the first axis of the module's input";
  if (input.declared.empty()) return str("'", input.name, "' is a single number");
  const int64_t first = input.declared[0];
  if (first < 0) return str("the first axis of '", input.name, "' is open and taken as 1");
  if (first == 1) return str("a batch of 1 is built into '", input.name, "' and stays");
  return str("'", input.name, "' has no batch axis");
}

// `pick` gives the two results to compare for inputs of either precision. Only float64 tells a
// step function that rounding flipped from a result that is wrong.
template <class Pick>
void compare(const Patient& patient, Report& report, const char* key, const char* label,
             std::string_view words, Pick pick) {
  const double narrow = std::apply(difference, pick(patient.x.to(at::kFloat)));
  const double wide = std::apply(difference, pick(patient.x));
  report.json[key] = {{"difference_float32", number(narrow)}, {"difference_float64", number(wide)}};
  report.line(label, str(words, " differ by ", short_text(narrow), " in float32, ",
                         short_text(wide), " in float64"));
  if (wide > kParity) {
    report.problems.push_back(str(words, " differ by ", short_text(wide), " in float64, more than ",
                                  kParity, " of 1 + |y|"));
  } else if (narrow > kParity) {
    report.notes.push_back(str(words,
                               " differ in float32 only: rounding flips a step function or is "
                               "amplified, so that findings close to the border may not be "
                               "confirmed"));
  }
}

void check_batch(const Patient& patient, Report& report) {
  const onnx::OnnxModel& net = patient.net;
  report.json["runs_as_one_batch"] = net.fallback().empty();
  report.json["islands"] = net.islands();
  std::string found;
  for (const onnx::PortSlice& input : net.network().inputs) {
    found += str(found.empty() ? "" : "; ",
                 batch_axis(input, torchscript::is_torchscript(net.network())));
  }
  report.json["batch_axis"] = found;
  if (net.fallback().empty()) {
    report.line("batch", "rows run as one batch, on an axis in front of the model's own: " + found);
  } else {
    report.json["fallback"] = net.fallback();
    report.line("batch", "runs row by row: " + net.fallback());
    report.notes.push_back("a pass over N rows takes N times as long as one over a single row");
  }
  if (!net.islands().empty()) {
    report.line("islands", str(net.islands().size(),
                               " nodes run row by row, since a shape depends on the row's values, "
                               "the rest as a batch; first ",
                               net.islands()[0]));
  }
  compare(
      patient, report, "batch", "rows", "a batch and its rows one by one",
      [&](const at::Tensor& x) { return std::pair(net.forward_unlowered(x), net.evaluate(x)); });
  compare(patient, report, "lowering", "lowering", "the lowered graph and the graph as read",
          [&](const at::Tensor& x) {
            return std::pair(net.forward(x, Head::kOutputs), net.forward_unlowered(x));
          });
}

void check_outputs(const Patient& patient, Report& report) {
  const at::Tensor y = patient.net.forward(patient.x.to(at::kFloat), Head::kOutputs);
  const int64_t odd = y.isfinite().logical_not_().any(1).sum().item<int64_t>();
  report.json["rows_with_nonfinite_outputs"] = odd;
  if (odd > 0) {
    report.notes.push_back(
        str(odd, " of ", patient.x.size(0), " rows have NaN or infinite outputs"));
  }
  if (!patient.expected.defined()) {
    report.line("parity", "not compared with another runtime: --data X.npy --expected Y.npy does");
    return;
  }
  const double off = difference(y, patient.expected);
  report.json["parity"] = number(off);
  report.line("parity", str("outputs differ from the expected ones by ", short_text(off)));
  if (off > kParity) {
    report.problems.push_back(str("outputs differ from the expected ones by ", short_text(off),
                                  ", more than ", kParity, " of 1 + |y|"));
  }
}

}  // namespace

std::string short_text(double value) {
  std::ostringstream out;
  out << std::setprecision(3) << value;
  return out.str();
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor same = (x == y).logical_or_(x.isnan().logical_and(y.isnan()));
  const at::Tensor relative = ((x - y).abs() / (y.abs() + 1.)).masked_fill(same, 0.);
  const double largest = relative.numel() > 0 ? relative.max().item<double>() : 0.;
  return std::isnan(largest) ? std::numeric_limits<double>::infinity() : largest;
}

void examine_network(const Patient& patient, Report& report) {
  describe_graph(patient, report);
  describe_work(patient.net, report);
  check_batch(patient, report);
  check_outputs(patient, report);
}

}  // namespace grapeshot::cli
