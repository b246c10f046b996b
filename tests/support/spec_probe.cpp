// tests/support/spec_probe.cpp: what the parser makes of specifications, for comparison from
// Python.
//
//   spec_probe shape SPEC...   per file a line "inputs outputs regions cases seconds MiB", or
//                              "error: ..."; the seconds are the processor's since the program
//                              started, the MiB the most that it has held
//   spec_probe judge           lines "SPEC POINTS" on stdin; POINTS holds float32 rows of all X,
//                              then all Y. Per line it prints a digit a row: 1 violates, 0 does
//                              not. For VNN-LIB 2.0, all inputs of the joined network, then the
//                              base outputs.
//   spec_probe query           files of VNN-LIB 2.0 on stdin, one a line: "ok", "refused: ..." for
//                              what the grammar allows and the reader does not, or "error: ..."
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/base/error.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/query.h"
#include "grapeshot/io/vnnlib.h"

namespace {

using grapeshot::Property;

// Not getrusage's number, which starts with what the parent process held.
int64_t peak_mib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word)
    if (word == "VmHWM:") status >> kib;
  return kib / 1024;
}

std::string shape(const std::string& spec) {
  const Property property = grapeshot::read_vnnlib(spec);
  const double seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  size_t cases = 0;
  for (const auto& region : property.regions) cases += region.cases.size();
  return grapeshot::str(property.inputs, ' ', property.outputs, ' ', property.regions.size(), ' ',
                        cases, ' ', seconds, ' ', peak_mib());
}

std::string judge_all(const std::string& spec, const std::string& points) {
  const std::string text = grapeshot::read_file(spec);
  std::optional<grapeshot::query::Query> query;
  if (grapeshot::query::is_query(text)) query = grapeshot::query::parse_query(text, spec);
  const Property property = query ? query->property : grapeshot::parse_vnnlib(text, spec);
  const std::string bytes = grapeshot::read_file(points);
  const auto inputs = static_cast<size_t>(property.inputs);
  const auto outputs = static_cast<size_t>(query ? query->base_outputs : property.outputs);
  const size_t row = (inputs + outputs) * sizeof(float);
  GRAPESHOT_CHECK(bytes.size() % row == 0, kInvalidArgument, points,
                  ": not a whole number of rows");
  std::string out;
  std::vector<float> x(inputs), y32(outputs);
  for (size_t at = 0; at < bytes.size(); at += row) {
    std::memcpy(x.data(), bytes.data() + at, inputs * sizeof(float));
    std::memcpy(y32.data(), bytes.data() + at + inputs * sizeof(float), outputs * sizeof(float));
    const std::vector<double> x64(x.begin(), x.end());
    std::vector<double> y(y32.begin(), y32.end());
    y.resize(static_cast<size_t>(property.outputs));
    if (query) grapeshot::query::settle_extras(*query, {x64.begin(), x64.end()}, y);
    out += grapeshot::judge(property, x, y).violates ? '1' : '0';
  }
  return out;
}

std::string read_query(const std::string& path) {
  try {
    (void)grapeshot::query::parse_query(grapeshot::read_file(path), path);
    return "ok";
  } catch (const grapeshot::Error& error) {
    if (error.code() != grapeshot::ErrorCode::kUnsupported) throw;
    return grapeshot::str("refused: ", error.what());
  }
}

template <class Work>
void print_line(Work work) {
  try {
    std::cout << work() << '\n' << std::flush;
  } catch (const grapeshot::Error& error) {
    std::cout << "error: " << error.what() << '\n' << std::flush;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "shape") {
    for (int i = 2; i < argc; ++i) print_line([&] { return shape(argv[i]); });
  } else if (mode == "judge") {
    std::string line;
    while (std::getline(std::cin, line)) {
      const size_t blank = std::min(line.rfind(' '), line.size());
      print_line([&] { return judge_all(line.substr(0, blank), line.substr(blank + 1)); });
    }
  } else if (mode == "query") {
    std::string line;
    while (std::getline(std::cin, line)) print_line([&] { return read_query(line); });
  } else {
    std::cerr << "usage: spec_probe shape SPEC... | spec_probe judge | spec_probe query\n";
    return 2;
  }
}
