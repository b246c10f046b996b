// tests/support/conformance_probe.cpp: runs test cases of the onnx package through the importer.
//
//   conformance_probe FOLDER...        each holds model.onnx and test_data_set_*/{in,out}put_*.pb
//
// Per case a JSON line: case, result and, unless it is "pass", reason. Results: pass; fail, the
// outputs differ; unsupported, an operator or an attribute that is not implemented; error, anything
// else that was thrown; crash and hang, when a signal or the alarm ended the process. Cases run in
// child processes, each of which goes on until a case ends it. Outputs are compared as the onnx
// package does: same type and shape, |a - b| <= 1e-7 + 1e-3 |b|.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/body.h"
#include "grapeshot/io/onnx/element_type.h"
#include "grapeshot/io/onnx/value_proto.h"
#include "grapeshot/io/onnx/widen.h"
#include "grapeshot/proc/child.h"

namespace {

namespace fs = std::filesystem;

using grapeshot::onnx::Value;
using nlohmann::ordered_json;

constexpr unsigned kCaseSeconds = 30;
constexpr double kBatchSeconds = 600.;
constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

// Input or output number i of each of the ports, as far as there are files.
std::vector<Value> read_values(const fs::path& folder, const std::string& kind,
                               const std::vector<grapeshot::onnx::Port>& ports) {
  std::vector<Value> values;
  for (size_t i = 0; i < ports.size(); ++i) {
    const fs::path file = folder / grapeshot::str(kind, "_", i, ".pb");
    if (!fs::exists(file)) break;
    values.push_back(
        grapeshot::onnx::parse_value(grapeshot::read_file(file.string()), file.string(), ports[i]));
  }
  return values;
}

std::string type_of(const at::Tensor& t) {
  const auto* type = grapeshot::onnx::find_element_type(t.scalar_type());
  return type ? std::string(type->name) : std::string(c10::toString(t.scalar_type()));
}

// What is wrong with `got`, or "".
std::string difference(const Value& got, const Value& expected) {
  if (expected.sequence) {
    if (!got.sequence) return "is no sequence";
    if (got.sequence->size() != expected.sequence->size()) {
      return grapeshot::str("has ", got.sequence->size(), " values, not ",
                            expected.sequence->size());
    }
    for (size_t i = 0; i < got.sequence->size(); ++i) {
      const std::string why = difference((*got.sequence)[i], (*expected.sequence)[i]);
      if (!why.empty()) return grapeshot::str("value ", i, " ", why);
    }
    return "";
  }
  if (!expected.t.defined()) return got.there() ? "is there" : "";
  if (!got.t.defined()) return "is no tensor";
  if (got.t.scalar_type() != expected.t.scalar_type()) {
    return grapeshot::str("is ", type_of(got.t), ", not ", type_of(expected.t));
  }
  if (got.t.sizes() != expected.t.sizes()) {
    return grapeshot::str("has shape ", got.t.sizes(), ", not ", expected.t.sizes());
  }
  if (got.t.numel() == 0) return "";
  const at::Tensor a = grapeshot::onnx::widened(got.t), b = grapeshot::onnx::widened(expected.t);
  if (!a.is_floating_point()) {
    const at::Tensor odd = a != b;
    const auto count = odd.sum().item<int64_t>();
    return count == 0 ? ""
                      : grapeshot::str("differs in ", count, " of ", a.numel(), " whole numbers");
  }
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor gap = (x - y).abs();
  const at::Tensor same = (x == y).logical_or(x.isnan().logical_and(y.isnan()));
  const at::Tensor odd = gap.le(kAbsolute + kRelative * y.abs())
                             .logical_and(y.isfinite())
                             .logical_or(same)
                             .logical_not();
  const auto count = odd.sum().item<int64_t>();
  if (count == 0) return "";
  const auto at = odd.flatten().to(at::kByte).argmax().item<int64_t>();
  return grapeshot::str("differs in ", count, " of ", a.numel(), ", number ", at, " is ",
                        x.flatten()[at].item<double>(), ", not ", y.flatten()[at].item<double>());
}

ordered_json run_case(const fs::path& folder) {
  const auto answer = [&](const char* result, const std::string& reason) {
    return ordered_json{
        {"case", folder.filename().string()}, {"result", result}, {"reason", reason}};
  };
  try {
    const std::string path = (folder / "model.onnx").string();
    const auto graph = grapeshot::onnx::parse_graph(grapeshot::read_file(path), "model.onnx");
    const grapeshot::onnx::Evaluator evaluate(graph);
    int64_t sets = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      ++sets;
      const std::vector<Value> inputs = read_values(entry.path(), "input", graph.inputs);
      const std::vector<Value> expected = read_values(entry.path(), "output", graph.outputs);
      const auto outputs = evaluate(inputs);
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::string why = difference(outputs[i], expected[i]);
        if (!why.empty()) return answer("fail", grapeshot::str("output ", i, " ", why));
      }
    }
    return sets > 0 ? answer("pass", "") : answer("error", "there is no data");
  } catch (const grapeshot::Error& e) {
    const bool unsupported = e.code() == grapeshot::ErrorCode::kUnsupported;
    return answer(unsupported ? "unsupported" : "error", e.what());
  } catch (const std::exception& e) {
    return answer("error", e.what());
  }
}

// In a child: all cases in turn.
int run_cases(const std::vector<std::string>& folders) {
  at::set_num_threads(1);
  for (const std::string& folder : folders) {
    alarm(kCaseSeconds);
    std::cout << run_case(folder).dump(-1, ' ', false, ordered_json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> folders(argv + 1, argv + argc);
  if (!folders.empty() && folders[0] == "--child") {
    folders.erase(folders.begin());
    return run_cases(folders);
  }
  for (size_t begin = 0; begin < folders.size();) {
    std::vector<std::string> command = {grapeshot::own_program(), "--child"};
    command.insert(command.end(), folders.begin() + static_cast<std::ptrdiff_t>(begin),
                   folders.end());
    const grapeshot::ChildResult child = grapeshot::run_child(command, kBatchSeconds);
    std::cout << child.out << std::flush;
    begin += static_cast<size_t>(std::ranges::count(child.out, '\n'));
    if (begin == folders.size()) break;
    const bool hangs = child.timed_out || child.status == 128 + SIGALRM;
    std::cout << ordered_json{{"case", fs::path(folders[begin]).filename().string()},
                              {"result", hangs ? "hang" : "crash"},
                              {"reason", grapeshot::str("exit status ", child.status)}}
                     .dump()
              << std::endl;
    ++begin;
  }
}
