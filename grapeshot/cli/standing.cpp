#include "grapeshot/cli/standing.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/core/coverage.h"

namespace grapeshot::cli {
namespace {

using properties::Field;

// The speed of now is that of this long.
constexpr double kLately_s = 4.;
constexpr size_t kMostPoints = 512;

// No count is larger than what float64 counts exactly.
constexpr int64_t kMostCounted = int64_t{1} << 53;

// `value` stays as it is where the line does not say.
void read(const Field& line, const char* key, double& value) {
  if (line.has(key) && !line.at(key).value().is_null()) value = line.at(key).number();
}

void read(const Field& line, const char* key, int64_t& value) {
  if (line.has(key)) value = line.at(key).integer(0, kMostCounted);
}

template <class T>
void read(const Field& line, const char* key, std::optional<T>& value) {
  if (!line.has(key)) return;
  value.reset();
  if (line.at(key).value().is_null()) return;
  T there = {};
  read(line, key, there);
  value = there;
}

// An object's members, none where there is no such object.
std::vector<std::pair<std::string, Field>> members(const Field& line, const char* key) {
  return line.has(key) ? line.at(key).members() : std::vector<std::pair<std::string, Field>>();
}

bool is_share(std::string_view criterion) {
  const auto row = std::ranges::find(criteria(), criterion, &CriterionRow::name);
  return row != criteria().end() && row->share;
}

}  // namespace

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::kStarting:
      return "starting";
    case RunState::kRunning:
      return "running";
    case RunState::kEnded:
      return "ended";
    case RunState::kInterrupted:
      return "interrupted";
    case RunState::kKilled:
      return "killed";
  }
  return "";
}

void Curve::add(double seconds, double value) {
  if (!points_.empty() && seconds < points_.back().first) {  // goes on from an older checkpoint
    std::erase_if(points_, [&](const auto& point) { return point.first > seconds; });
  }
  if (skipped_ + 1 < every_ && !points_.empty()) {
    ++skipped_;
    return;
  }
  skipped_ = 0;
  points_.emplace_back(seconds, value);
  if (points_.size() < kMostPoints) return;
  for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
  points_.resize((points_.size() + 1) / 2);
  every_ *= 2;
}

std::vector<double> Curve::parts(size_t n) const {
  std::vector<double> out(n, 0.);
  if (points_.empty()) return out;
  const double end = points_.back().first;
  size_t next = 0;
  double value = 0.;
  for (size_t i = 0; i < n; ++i) {
    const double until = i + 1 == n ? end : end * static_cast<double>(i + 1) / double(n);
    for (; next < points_.size() && points_[next].first <= until; ++next) {
      value = points_[next].second;
    }
    out[i] = value;
  }
  return out;
}

double Standing::mean_rate() const {
  return static_cast<double>(checked()) / std::max(seconds, 1e-9);
}

void Standing::begin(const Field& run) {
  command = run.at("command").text();
  if (command == "diff") {
    instances_are = "images";
  } else if (command != "fuzz") {
    run.at("command").fail("is not `fuzz` or `diff`, so that there is nothing to show");
  }
  if (run.has("models")) {
    const std::vector<Field> models = run.at("models").entries();
    if (!models.empty()) {
      const std::string& path = models[0].at("path").text();
      model = printable(path.substr(path.find_last_of('/') + 1), path.size());
    }
    if (models.size() > 1) model += str(" and ", models.size() - 1, " more");
  }
  if (run.has("instances")) instances = std::ssize(run.at("instances").entries());
  if (!run.has("options")) return;
  const Field options = run.at("options");
  read(options, "seconds", limit_s);
  read(options, "candidates", limit);
  read(options, "memory", memory_mib);
  if (options.has("criterion")) driving_ = options.at("criterion").text();
}

void Standing::take(const Field& line) {
  const bool fuzz = command == "fuzz";
  const auto get = [&](const char* key, auto& value) { read(line, key, value); };
  get("seconds", seconds);
  get(fuzz ? "instances" : "images", instances);
  get(fuzz ? "instances_falsified" : "images_with_differences", broken);
  get("candidates", candidates);
  get("inputs_checked", inputs_checked);
  get("violations", violations);
  get(fuzz ? "distinct_violations" : "differences", distinct);
  get("borderline", borderline);
  get(fuzz ? "corpus_size" : "seeds_kept", corpus);
  get("best_margin", best_margin);
  get("ttfv_s", first_s);
  get("last_finding_s", last_s);
  get("rss_mib", rss_mib);
  get("untried", untried);
  get("lanes", lanes);
  if (line.has("batch_rows")) {
    batch.clear();
    for (const Field& rows : line.at("batch_rows").entries()) {
      batch.push_back(rows.integer(0, kMostCounted));
    }
  }
  margins.clear();
  for (const auto& [end, n] : members(line, "margins")) {
    margins.emplace_back(std::strtod(end.c_str(), nullptr), n.integer(0, kMostCounted));
  }
  std::ranges::sort(margins);
  take_coverage(line);
  mutations.clear();
  for (const auto& [name, value] : members(line, "mutations")) {
    MutationStanding each{printable(name)};
    read(value, "candidates", each.candidates);
    read(value, "gains", each.gains);
    read(value, "hits", each.hits);
    read(value, "findings", each.findings);
    mutations.push_back(each);
  }
  std::ranges::stable_sort(mutations, std::greater<>(), &MutationStanding::candidates);
  broken_curve.add(seconds, static_cast<double>(broken));
  measure();
}

// The criterion that drives comes first.
void Standing::take_coverage(const Field& line) {
  const std::optional<double> before =
      coverage.empty() ? std::nullopt : std::optional(coverage[0].value);
  coverage.clear();
  for (const auto& [name, value] : members(line, "coverage")) {
    coverage.push_back({printable(name), value.number(), is_share(name)});
  }
  std::ranges::stable_partition(coverage, [&](const auto& c) { return c.name == driving_; });
  if (coverage.empty()) return;
  if (coverage[0].value != before.value_or(0.)) gained_s = seconds;
  coverage_curve.add(seconds, coverage[0].value);
}

void Standing::measure() {
  if (!lately_.empty() && seconds < lately_.back().seconds) lately_.clear();
  lately_.push_back({seconds, checked(), candidates});
  while (lately_.size() > 2 && lately_[1].seconds <= seconds - kLately_s) lately_.pop_front();
  const Count from = lately_.size() > 1 ? lately_.front() : Count{0., 0, 0};
  const double time = seconds - from.seconds;
  if (time <= 0.) return;
  rate_now = static_cast<double>(checked() - from.checked) / time;
  candidates_now = static_cast<double>(candidates - from.candidates) / time;
}

bool goes_on(const Standing& s) {
  return s.state == RunState::kRunning || s.state == RunState::kStarting;
}

std::string plain_line(const Standing& s) {
  char text[256];
  if (s.command == "diff") {
    std::snprintf(
        text, sizeof text, "%6.1f s  %lld of %lld images, %lld differences, %lld candidates",
        s.seconds, static_cast<long long>(s.broken), static_cast<long long>(s.instances),
        static_cast<long long>(s.distinct.value_or(0)), static_cast<long long>(s.candidates));
    return text;
  }
  const auto broken = static_cast<long long>(s.broken), left = static_cast<long long>(s.left());
  std::snprintf(text, sizeof text, "%6.1f s  %lld broken, %lld left  %.0f inputs/s", s.seconds,
                broken, left, s.mean_rate());
  std::string out = text;
  if (!s.coverage.empty()) {
    const CoverageStanding& first = s.coverage[0];
    std::snprintf(text, sizeof text, "  coverage %.4g%s", first.value * (first.share ? 100. : 1.),
                  first.share ? " %" : "");
    out += text;
  }
  if (s.best_margin) {
    std::snprintf(text, sizeof text, "  best margin %.4g", *s.best_margin);
    out += text;
  }
  return out;
}

}  // namespace grapeshot::cli
