#include "grapeshot/report/formats.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/report/escape.h"

namespace grapeshot::report {
namespace {

constexpr Format kTable[] = {
    {"html", "One page for people: curves, a table of instances, a gallery of findings.", true,
     false, write_html},
    {"md", "A short summary in Markdown, for pull requests.", false, false, write_markdown},
    {"junit", "JUnit XML for CI: a test case per instance, which fails when it is broken.", false,
     false, write_junit},
    {"sarif", "SARIF 2.1.0 for code scanning: a rule per kind of property.", false, false,
     write_sarif},
    {"pytest", "A Python file of regression tests that need onnxruntime and numpy alone.", false,
     true, write_pytest},
};

double margin_or_worst(const Finding& finding) {
  return finding.margin.value_or(std::numeric_limits<double>::infinity());
}

}  // namespace

std::span<const Format> formats() {
  return kTable;
}

const Format& find_format(std::string_view name) {
  return find_row(formats(), name, "report format");
}

std::vector<size_t> deepest_of_each(const Run& run) {
  std::vector<size_t> best(run.instances.size(), run.findings.size());
  for (size_t f = 0; f < run.findings.size(); ++f) {
    size_t& known = best[run.findings[f].instance];
    if (known == run.findings.size() ||
        margin_or_worst(run.findings[f]) < margin_or_worst(run.findings[known])) {
      known = f;
    }
  }
  std::erase(best, run.findings.size());
  return best;
}

std::string headline(const Run& run) {
  const int64_t broken = run.falsified();
  return str(broken, " of ", run.instances.size(), " ", noun(run),
             run.command == "diff" ? " with findings near them" : " broken");
}

std::string caveat(const Run& run) {
  std::string out;
  if (run.ending == Ending::kInterrupted) {
    out = str("The run was interrupted after ", number(run.seconds), " s. ");
  } else if (run.ending == Ending::kUnfinished) {
    out = "The run has no summary: it was killed, or it still runs. ";
  }
  if (run.findings_in_folder > std::ssize(run.findings)) {
    out += str("Only ", run.findings.size(), " of ", run.findings_in_folder,
               " findings are looked at here. ");
  }
  if (!out.empty()) out.pop_back();
  return out;
}

std::string replay_line(const Finding& finding) {
  return "grapeshot replay " + shell_word(finding.folder);
}

std::string with_class_names(const std::string& violated, const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < violated.size();) {
    if (violated.compare(i, 2, "Y_") != 0) {
      out += violated[i++];
      continue;
    }
    size_t end = i + 2;
    while (end < violated.size() && std::isdigit(static_cast<unsigned char>(violated[end])) != 0) {
      ++end;
    }
    const std::string word = violated.substr(i, end - i);
    const bool known = word.size() > 2 && word.size() < 12;
    const size_t index = known ? std::stoull(word.substr(2)) : names.size();
    out += word;
    if (index < names.size()) out += " (" + names[index] + ")";
    i = end;
  }
  return out;
}

std::string describe(const Run& run, const Finding& finding) {
  if (!finding.words.empty()) return finding.words;
  if (finding.not_finite) return "an output is NaN or infinite";
  if (finding.violated.empty()) return finding.property + " is violated";
  return with_class_names(finding.violated, run.class_names);
}

}  // namespace grapeshot::report
