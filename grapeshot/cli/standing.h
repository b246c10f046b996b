// grapeshot/cli/standing.h: how a run stands, as the lines of its stats.jsonl tell it.
//
// The screen of a running command and `grapeshot status` are fed the same lines, so that they say
// the same. Lines are those of `fuzz` or of `diff`; what a line does not say is left empty.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grapeshot/io/properties/field.h"

namespace grapeshot::cli {

enum class RunState { kStarting, kRunning, kEnded, kInterrupted, kKilled };

/// One word.
[[nodiscard]] std::string_view name_of(RunState state);

/// What one mutation has come to (core/ledger.h).
struct MutationStanding {
  std::string name;
  int64_t candidates = 0, gains = 0, hits = 0, findings = 0;
};

struct CoverageStanding {
  std::string name;
  double value = 0.;
  bool share = false;  ///< of 1; else a count
};

/// Values at points in time, all in order, thinned out evenly as they get many.
class Curve {
 public:
  void add(double seconds, double value);
  /// The last values before the ends of `n` equal parts of the time so far; 0 before the first.
  [[nodiscard]] std::vector<double> parts(size_t n) const;

 private:
  std::vector<std::pair<double, double>> points_;
  size_t every_ = 1, skipped_ = 0;
};

struct Standing {
  // Of the run.
  std::string command, model, folder;
  RunState state = RunState::kStarting;
  double limit_s = 0.;     ///< 0: none
  int64_t limit = 0;       ///< candidates; 0: none
  double memory_mib = 0.;  ///< that kept inputs and passes may take; 0: not said
  std::string_view instances_are = "instances";

  // Of the latest line.
  double seconds = 0.;
  int64_t instances = 0, broken = 0, candidates = 0;
  std::optional<int64_t> inputs_checked, violations, distinct, borderline, corpus;
  std::optional<double> best_margin, first_s, last_s, rss_mib;
  std::vector<std::pair<double, int64_t>> margins;  ///< where a bin ends, and how many are in it
  int64_t untried = 0;
  std::vector<CoverageStanding> coverage;
  std::vector<MutationStanding> mutations;  ///< the busiest first
  int64_t lanes = 0;
  std::vector<int64_t> batch;

  // Of all lines.
  double rate_now = 0.;  ///< inputs checked a second lately, or candidates where that is not said
  double candidates_now = 0.;
  std::optional<double> gained_s;  ///< when the first criterion's value last changed
  Curve broken_curve, coverage_curve;

  [[nodiscard]] int64_t left() const { return instances - broken; }
  /// Inputs checked, or candidates.
  [[nodiscard]] int64_t checked() const { return inputs_checked.value_or(candidates); }
  [[nodiscard]] double mean_rate() const;

  /// What run.json says.
  void begin(const properties::Field& run);
  /// The next line, or the summary.
  void take(const properties::Field& line);
  // Both throw Error{kParse}, naming the place, for what does not fit.

 private:
  struct Count {
    double seconds;
    int64_t checked, candidates;
  };
  void take_coverage(const properties::Field& line);
  void measure();

  std::string driving_;
  std::deque<Count> lately_;
};

/// Whether it is running, or about to.
[[nodiscard]] bool goes_on(const Standing& standing);

/// The line of one that is no screen: "  12.3 s  4 broken, 5 left ...".
[[nodiscard]] std::string plain_line(const Standing& standing);

}  // namespace grapeshot::cli
