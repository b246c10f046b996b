#include "grapeshot/cli/fuzz_reporter.h"

#include <cstdio>

#include "grapeshot/cli/machine.h"

namespace grapeshot::cli {

using nlohmann::ordered_json;

ordered_json fuzz_counts(const Progress& p) {
  const auto moment = [](double s) { return s < 0. ? ordered_json(nullptr) : ordered_json(s); };
  ordered_json coverage = ordered_json::object(), margins = coverage, mutations = coverage;
  for (const auto& [name, value] : p.coverage) coverage[name] = value;
  for (size_t i = 0; i < p.margins.size(); ++i) {
    char end[32];
    std::snprintf(end, sizeof end, "%g", kMarginEnds[i]);
    margins[end] = p.margins[i];
  }
  for (const auto& [name, y] : p.yields) {
    const auto all = static_cast<double>(std::max<int64_t>(p.candidates, 1));
    mutations[name] = {{"candidates", y.candidates},
                       {"share", static_cast<double>(y.candidates) / all},
                       {"gains", y.gains},
                       {"hits", y.hits},
                       {"findings", y.findings}};
  }
  return {{"instances", p.instances},
          {"instances_falsified", p.broken},
          {"candidates", p.candidates},
          {"inputs_checked", p.inputs_checked},
          {"violations", p.violations},
          {"distinct_violations", p.distinct_violations},
          {"borderline", p.borderline},
          {"ttfv_s", moment(p.ttfv_s)},
          {"last_finding_s", moment(p.last_s)},
          {"best_margin", number(p.best_margin)},
          {"margins", margins},
          {"untried", p.untried},
          {"mutations", mutations},
          {"coverage", coverage},
          {"corpus_size", p.corpus_size},
          {"lanes", p.lanes},
          {"batch_rows", p.batch}};
}

void FuzzReporter::on_finding(const Finding& finding) {
  const std::string id = folder_.write_finding(problem_, finding, seed_);
  if (session_.found) session_.found(id, finding);
}

void FuzzReporter::on_progress(const Progress& p) {
  const bool writes = p.seconds >= next_stats_;  // once a second
  if (!writes && !view_.due()) return;
  ordered_json line = {{"seconds", p.seconds}};
  line.update(fuzz_counts(p));
  line["rss_mib"] = rss_mib();
  view_.show(line);
  if (!writes) return;
  next_stats_ = p.seconds + 1.;
  folder_.append_stats(line);
}

}  // namespace grapeshot::cli
