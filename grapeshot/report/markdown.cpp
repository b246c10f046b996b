// grapeshot/report/markdown.cpp: a comment for a pull request, in GitHub's Markdown.
#include "grapeshot/base/error.h"
#include "grapeshot/report/escape.h"
#include "grapeshot/report/formats.h"

namespace grapeshot::report {
namespace {

constexpr size_t kMostRows = 20;

std::string models_table(const Run& run) {
  std::vector<int64_t> all(run.models.size(), 0), broken(run.models.size(), 0);
  for (const Instance& each : run.instances) {
    ++all[each.model];
    broken[each.model] += each.broken() ? 1 : 0;
  }
  std::string out = str("| model | ", noun(run), " | broken |\n|---|--:|--:|\n");
  for (size_t m = 0; m < all.size() && m < kMostRows; ++m) {
    if (all[m] == 0) continue;
    out += str("| ", markdown_code(run.models[m].name()), " | ", all[m], " | ", broken[m], " |\n");
  }
  if (all.size() > kMostRows) out += str("\n", all.size() - kMostRows, " more models.\n");
  return out;
}

std::string findings_table(const Run& run) {
  const std::vector<size_t> deepest = deepest_of_each(run);
  std::string out = "\n| broken | what | margin |\n|---|---|--:|\n", replays;
  for (size_t i = 0; i < deepest.size() && i < kMostRows; ++i) {
    const Finding& finding = run.findings[deepest[i]];
    const Instance& instance = run.instances[finding.instance];
    out += str("| ", markdown_code(instance.name), " | ", markdown_code(describe(run, finding)),
               " | ", finding.margin ? number(*finding.margin) : "", " |\n");
    replays += str(markdown_code(replay_line(finding)), "<br>\n");
  }
  if (deepest.size() > kMostRows) {
    out += str("\n", deepest.size() - kMostRows, " more are in the run folder.\n");
  }
  return str(out, "\n<details><summary>Replay</summary>\n\n", replays, "\n</details>\n");
}

}  // namespace

std::string write_markdown(const Run& run) {
  std::string out = str("### Grapeshot: ", markdown(headline(run)), "\n\n");
  const std::string note = caveat(run);
  if (!note.empty()) out += str("> ", markdown(note), "\n\n");
  out += models_table(run);
  if (!run.findings.empty()) out += findings_table(run);
  out += str("\n<sub>Grapeshot ", markdown(run.version), ", ", markdown(run.command), ", ",
             number(run.seconds, 3), " s</sub>\n");
  return out;
}

}  // namespace grapeshot::report
