#include "grapeshot/core/ledger.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"

namespace grapeshot {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Ledger::Ledger(int64_t instances, int64_t per_instance)
    : per_instance_(per_instance), instances_(static_cast<size_t>(instances)) {
  totals_.instances = instances;
  for (InstanceResult& each : instances_) each.best_margin = kInfinity;
}

InstanceResult& Ledger::of(int64_t instance) {
  return instances_[static_cast<size_t>(instance)];
}

const InstanceResult& Ledger::of(int64_t instance) const {
  return instances_[static_cast<size_t>(instance)];
}

bool Ledger::wants(int64_t instance) const {
  return of(instance).findings < per_instance_;
}

void Ledger::count(const Iteration& iteration, int64_t borderline, int64_t first) {
  totals_.borderline += borderline;
  totals_.candidates += iteration.candidates;
  totals_.inputs_checked += iteration.inputs_checked;
  totals_.violations += iteration.violations;
  totals_.distinct_violations += iteration.distinct_violations;
  totals_.cost += iteration.cost;
  totals_.network_s += iteration.network_s;
  totals_.lane_s += iteration.seconds;
  for (size_t i = 0; i < iteration.per_instance.size(); ++i) {
    of(first + static_cast<int64_t>(i)).candidates += iteration.per_instance[i];
  }
  for (const Made& made : iteration.made) {
    Yield& yield = totals_.yields[std::string(made.by)];
    yield.candidates += made.candidates;
    yield.gains += made.gains;
  }
  for (const Hit& hit : iteration.hits) {
    if (!hit.is_nan) ++totals_.yields[hit.mutation].hits;
  }
}

void Ledger::closest(int64_t first, const at::Tensor& margins, const at::Tensor& inputs) {
  const auto* margin = margins.const_data_ptr<float>();
  for (int64_t i = 0; i < margins.size(0); ++i) {
    InstanceResult& result = of(first + i);
    if (result.findings > 0 || margin[i] >= result.best_margin) continue;
    result.best_margin = margin[i];
    result.closest = inputs.select(0, i).clone();
  }
}

bool Ledger::accept(Finding& finding, double seconds, double alone_s) {
  InstanceResult& result = of(finding.instance);
  if (!wants(finding.instance)) return false;
  // One input may break several instances.
  const at::Tensor key = hash_rows(finding.x.unsqueeze(0)) + finding.instance;
  if (!reported_.insert(key).item<bool>()) return false;
  finding.seconds = seconds;
  if (result.findings++ == 0) {
    ++totals_.broken;
    result.seconds_to_first = alone_s;
    result.closest = finding.x;
    result.best_margin = finding.confirmation.verdict32.margin;
  }
  ++totals_.findings;
  ++totals_.yields[finding.mutation].findings;
  totals_.last_s = seconds;
  if (totals_.ttfv_s < 0.) totals_.ttfv_s = seconds;
  return true;
}

Progress Ledger::standing() const {
  Progress out = totals_;
  out.best_margin = kInfinity;
  for (const InstanceResult& each : instances_) {
    if (each.findings > 0) continue;
    out.best_margin = std::min(out.best_margin, each.best_margin);
    if (each.best_margin < kInfinity) {
      const auto end = std::ranges::lower_bound(kMarginEnds, each.best_margin);
      ++out.margins[static_cast<size_t>(end - kMarginEnds.begin())];
    } else {
      ++out.untried;
    }
  }
  return out;
}

void Ledger::save(State& state, const std::string& at) const {
  const Progress& p = totals_;
  state.put(at + "totals", {p.broken, p.candidates, p.inputs_checked, p.violations,
                            p.distinct_violations, p.findings, p.borderline, p.cost});
  state.put(at + "ttfv_s", p.ttfv_s);
  state.put(at + "last_s", p.last_s);
  std::string names;
  std::vector<int64_t> yields;
  for (const auto& [name, y] : p.yields) {
    names += name + ",";
    yields.insert(yields.end(), {y.candidates, y.gains, y.hits, y.findings});
  }
  state.put(at + "yields/of", std::string_view(names));
  state.put(at + "yields", yields);
  state.put(at + "lane_s", p.lane_s);
  state.put(at + "network_s", p.network_s);
  reported_.save(state, at + "reported/");
  std::vector<int64_t> findings, candidates, exhausted;
  std::vector<double> margins, seconds;
  for (size_t i = 0; i < instances_.size(); ++i) {
    const InstanceResult& each = instances_[i];
    findings.push_back(each.findings);
    candidates.push_back(each.candidates);
    exhausted.push_back(each.exhausted ? 1 : 0);
    margins.push_back(each.best_margin);
    seconds.push_back(each.seconds_to_first);
    if (each.closest.defined()) state.put(str(at, "closest/", i), each.closest);
    if (each.nan.defined()) state.put(str(at, "nan/", i), each.nan);
  }
  state.put(at + "findings", findings);
  state.put(at + "candidates", candidates);
  state.put(at + "exhausted", exhausted);
  state.put(at + "margins", at::tensor(margins, at::kDouble));
  state.put(at + "seconds", at::tensor(seconds, at::kDouble));
}

void Ledger::load(const State& state, const std::string& at) {
  Progress& p = totals_;
  const std::vector<int64_t> totals = state.integers(at + "totals");
  const std::vector<int64_t> findings = state.integers(at + "findings");
  const std::vector<int64_t> candidates = state.integers(at + "candidates");
  const std::vector<int64_t> exhausted = state.integers(at + "exhausted");
  const size_t n = instances_.size();
  GRAPESHOT_CHECK(
      totals.size() == 8 && findings.size() == n && candidates.size() == n && exhausted.size() == n,
      kParse, "it is of a campaign of other instances");
  size_t next = 0;
  for (int64_t* each : {&p.broken, &p.candidates, &p.inputs_checked, &p.violations,
                        &p.distinct_violations, &p.findings, &p.borderline, &p.cost}) {
    *each = totals[next++];
  }
  p.ttfv_s = state.real(at + "ttfv_s");
  p.last_s = state.real(at + "last_s");
  const std::string names = state.text(at + "yields/of");
  const std::vector<int64_t> yields = state.integers(at + "yields");
  const std::vector<std::string_view> of = split_at(',', names);
  GRAPESHOT_CHECK(yields.size() == 4 * of.size(), kParse, "its '", at, "yields' do not fit");
  for (size_t i = 0; i < of.size(); ++i) {
    const int64_t* y = &yields[4 * i];
    p.yields[std::string(of[i])] = {y[0], y[1], y[2], y[3]};
  }
  p.lane_s = state.real(at + "lane_s");
  p.network_s = state.real(at + "network_s");
  reported_.load(state, at + "reported/");
  const at::Tensor margins = at::empty({static_cast<int64_t>(n)}, at::kDouble);
  const at::Tensor seconds = at::empty_like(margins);
  state.fill(at + "margins", margins);
  state.fill(at + "seconds", seconds);
  for (size_t i = 0; i < n; ++i) {
    InstanceResult& each = instances_[i];
    each.findings = findings[i];
    each.candidates = candidates[i];
    each.exhausted = exhausted[i] != 0;
    each.best_margin = margins.const_data_ptr<double>()[i];
    each.seconds_to_first = seconds.const_data_ptr<double>()[i];
    const std::string closest = str(at, "closest/", i), nan = str(at, "nan/", i);
    if (state.has(closest)) each.closest = state.tensor(closest);
    if (state.has(nan)) each.nan = state.tensor(nan);
  }
}

}  // namespace grapeshot
