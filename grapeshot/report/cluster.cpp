#include "grapeshot/report/cluster.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

namespace grapeshot::report {
namespace {

using Direction = std::vector<float>;

// Of unit length, or all 0 where nothing changed.
Direction direction_of(const Finding& finding) {
  constexpr size_t kMostPieces = 256;
  const size_t size = finding.input.size();
  const size_t piece = (size + kMostPieces - 1) / kMostPieces;
  Direction out(piece == 0 ? 0 : (size + piece - 1) / piece, 0.f);
  for (size_t i = 0; i < size; ++i) out[i / piece] += finding.input[i] - finding.original[i];
  const float norm = std::sqrt(std::inner_product(out.begin(), out.end(), out.begin(), 0.f));
  if (!(norm > 0.f) || !std::isfinite(norm)) return Direction(out.size(), 0.f);
  for (float& each : out) each /= norm;
  return out;
}

double margin_of(const Finding& finding) {
  return finding.margin.value_or(std::numeric_limits<double>::infinity());
}

// The findings of one property and violation, by direction.
std::vector<std::vector<size_t>> by_direction(const Run& run, const std::vector<size_t>& findings) {
  std::vector<Direction> leaders;
  std::vector<std::vector<size_t>> out;
  for (const size_t f : findings) {
    const Direction mine = direction_of(run.findings[f]);
    size_t best = leaders.size();
    double closest = -2.;
    for (size_t c = 0; c < leaders.size(); ++c) {
      if (leaders[c].size() != mine.size()) continue;
      const double cosine = std::inner_product(mine.begin(), mine.end(), leaders[c].begin(), 0.);
      if (cosine > closest) {
        closest = cosine;
        best = c;
      }
    }
    const bool full = std::ssize(leaders) >= kMostDirections;
    if (best == leaders.size() || (closest < kAlike && !full)) {
      leaders.push_back(mine);
      out.emplace_back();
      best = out.size() - 1;
    }
    out[best].push_back(f);
  }
  std::ranges::stable_sort(out, std::greater<>(), &std::vector<size_t>::size);
  return out;
}

}  // namespace

std::vector<Cluster> find_clusters(const Run& run) {
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> groups;
  for (size_t f = 0; f < run.findings.size(); ++f) {
    groups[{run.findings[f].property, run.findings[f].violated}].push_back(f);
  }
  std::vector<Cluster> out;
  for (auto& [what, findings] : groups) {
    std::ranges::stable_sort(findings, std::less<>(),
                             [&](size_t f) { return margin_of(run.findings[f]); });
    const std::vector<std::vector<size_t>> parts = by_direction(run, findings);
    for (size_t d = 0; d < parts.size(); ++d) {
      out.push_back(
          {what.first, what.second, static_cast<int64_t>(d), std::ssize(parts), parts[d]});
    }
  }
  std::ranges::stable_sort(out, std::greater<>(),
                           [](const Cluster& each) { return each.findings.size(); });
  return out;
}

}  // namespace grapeshot::report
