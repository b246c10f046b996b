// grapeshot/report/pytest.cpp: a Python file with counterexamples as regression tests.
//
// The file is the data below and regressions.py. A test fails while the outputs at its input
// violate any case of the property there, not only the one that was found.
#include <algorithm>

#include "grapeshot/base/error.h"
#include "grapeshot/report/escape.h"
#include "grapeshot/report/formats.h"
#include "grapeshot/report/parts.h"

namespace grapeshot::report {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostTests = 1000;
constexpr size_t kMostBytes = size_t{32} << 20;  // of the file

// A literal of Python: JSON's strings, arrays and numbers are.
std::string literal(const ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// [[[[output, coefficient], ...], bound], ...] for every case of the regions that the input is in.
ordered_json cases_at(const Finding& finding) {
  ordered_json out = ordered_json::array();
  for (const Region& region : finding.constraints.regions) {
    if (!contains(region.box, finding.witness)) continue;
    for (const Case& each : region.cases) {
      ordered_json rows = ordered_json::array();
      for (const LinearRow& row : each.rows) {
        ordered_json terms = ordered_json::array();
        for (const Term& term : row.terms) terms.push_back({term.output, term.coefficient});
        rows.push_back({terms, row.bound});
      }
      out.push_back(rows);
    }
  }
  return out;
}

std::string test_data(const Run& run, const Finding& finding, const std::string& name) {
  const std::string_view bytes(reinterpret_cast<const char*>(finding.witness.data()),
                               finding.witness.size() * sizeof(float));
  const auto field = [](const char* key, const ordered_json& value) {
    return str("        \"", key, "\": ", literal(value), ",\n");
  };
  const bool test = finding.no_test.empty();
  return str("    {\n", field("name", name), field("what", describe(run, finding)),
             field("model", finding.network), field("no_test", finding.no_test),
             field("input", test ? base64(bytes) : ""),
             field("cases", test ? cases_at(finding) : ordered_json::array()), "    },\n");
}

}  // namespace

std::string write_pytest(const Run& run) {
  const std::vector<size_t> deepest = deepest_of_each(run);
  std::string data;
  size_t tests = 0;
  for (const size_t f : deepest) {
    if (tests == kMostTests || data.size() > kMostBytes) break;
    const Finding& finding = run.findings[f];
    data += test_data(run, finding, str(run.instances[finding.instance].name, " ", finding.id));
    ++tests;
  }
  std::string head = str(tests, " counterexamples of a run of Grapeshot ", run.version,
                         ", one for each broken instance: tests that fail while they still are.");
  if (tests < deepest.size()) head += str(" ", deepest.size() - tests, " more are left out.");
  return str("# ", head,
             "\n# Needs pytest, numpy and onnxruntime. The models are looked for where they were, "
             "or in the folder\n# that the environment variable GRAPESHOT_MODELS names.\n# ruff: "
             "noqa\nFINDINGS = [\n",
             data, "]\n\n", parts::regressions_py);
}

}  // namespace grapeshot::report
