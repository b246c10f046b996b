// grapeshot/report/cluster.h: findings that are alike, together.
#pragma once

#include <string>
#include <vector>

#include "grapeshot/report/run.h"

namespace grapeshot::report {

/// Findings that break the same kind of property in the same way (`violated`), by changes of much
/// the same direction.
struct Cluster {
  std::string property, violated;
  int64_t direction = 0;         ///< from 0, of those with the same property and violated
  int64_t directions = 1;        ///< how many there are
  std::vector<size_t> findings;  ///< indices into run.findings, the smallest margin first
};

/// All findings, the largest cluster first. The direction of a change is compared after averaging
/// it over 256 pieces of the input at most, so that noise does not hide what is common: a finding
/// joins the cluster whose first member's change has the largest cosine with its own, from kAlike
/// on, or begins one; a property's violation has kMostDirections at most.
[[nodiscard]] std::vector<Cluster> find_clusters(const Run& run);

constexpr double kAlike = 0.5;
constexpr int64_t kMostDirections = 6;

}  // namespace grapeshot::report
