// grapeshot/report/run.h: a run as a report shows it, whatever command left it.
//
// Plain data: cli/recorded_run.h fills it from a run folder, a format (formats.h) makes a text of
// it. Names, words and paths are what a model, a specification or a folder is called: untrusted
// text, which every format escapes.
//
// Units: seconds of the campaign's own clock; inputs, outputs and margins in the model's units. A
// margin of 0 or less violates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grapeshot/core/property.h"

namespace grapeshot::report {

struct Model {
  std::string path;  ///< absolute

  [[nodiscard]] std::string name() const { return path.substr(path.rfind('/') + 1); }
};

/// A specification of a model, or an image of `diff`.
struct Instance {
  size_t model = 0;        ///< index into Run::models
  std::string name, spec;  ///< for people; the absolute path of its file, or ""
  int64_t findings = 0;    ///< kept of it; broken when there are any
  std::optional<double> best_margin, seconds_to_first;
  std::optional<int64_t> candidates;

  [[nodiscard]] bool broken() const { return findings > 0; }
};

/// A value against time; times ascend.
struct Curve {
  std::string name;
  bool share = false;  ///< between 0 and 1, shown in per cent
  std::vector<std::pair<double, double>> points;
};

struct Finding {
  std::string id, folder;          ///< the latter absolute
  size_t instance = 0;             ///< index into Run::instances
  std::string property;            ///< its kind, a name of Run::properties
  std::string violated;            ///< "Y_0 <= Y_5", "" when an older run does not say
  std::string words;               ///< what a JSON specification says of it, or ""
  std::vector<std::string> notes;  ///< tokens that changed, and the like
  std::string mutation;
  std::optional<double> margin;
  /// Two runs of a network that a property compares: `original` and `before` are the first one's.
  bool pair = false;
  bool not_finite = false;            ///< an output is NaN or infinite
  std::string no_test;                ///< why the files do not tell whether it holds, or ""
  std::vector<double> before, after;  ///< outputs [K]; `before` may be empty
  // Where a format asks for inputs:
  std::vector<int64_t> shape;          ///< of the model's input
  std::vector<float> original, input;  ///< [D], as many
  // Where a format asks for constraints:
  std::string network;         ///< absolute path of the ONNX file that they are about
  std::vector<float> witness;  ///< its input; `input`, but for pairs
  Property constraints;
};

/// A kind of property that findings break.
struct PropertyKind {
  std::string name, summary;
};

enum class Ending {
  kComplete,     ///< ran to its end
  kInterrupted,  ///< was asked to end early
  kUnfinished,   ///< was killed, or still runs: no summary
};

struct Run {
  std::string folder, command, version;
  std::vector<Model> models;
  std::vector<Instance> instances;
  std::vector<Finding> findings;   ///< those that were read
  int64_t findings_in_folder = 0;  ///< all
  std::vector<PropertyKind> properties;
  Ending ending = Ending::kComplete;
  double seconds = 0.;
  Curve broken;                 ///< instances; empty for a run without a record of time
  std::vector<Curve> coverage;  ///< by criterion
  std::vector<std::pair<std::string, std::string>> facts;  ///< how it was run: "seed", "7"
  // What the reader of the report gives besides:
  std::vector<std::string> class_names, feature_names;  ///< perhaps fewer than there are
  std::vector<int64_t> input_shape;                     ///< instead of the model's; or empty

  [[nodiscard]] int64_t falsified() const {
    int64_t out = 0;
    for (const Instance& each : instances) out += each.broken() ? 1 : 0;
    return out;
  }
};

/// What instances are called in this run: "instances", "images".
[[nodiscard]] inline std::string noun(const Run& run) {
  return run.command == "diff" ? "images" : "instances";
}

/// The findings to show where only one of an instance can be: of every instance that has any the
/// one that violates most, in the order of instances. Indices into run.findings.
[[nodiscard]] std::vector<size_t> deepest_of_each(const Run& run);

/// "25 of 30 instances broken", the first line of every report.
[[nodiscard]] std::string headline(const Run& run);

/// What a reader must know before believing the headline: that the run was interrupted, or that not
/// all findings are shown; or "".
[[nodiscard]] std::string caveat(const Run& run);

/// The line that confirms a finding again, quoted for a shell.
[[nodiscard]] std::string replay_line(const Finding& finding);

/// "Y_0 <= Y_5" with class names in it where there are some: "Y_0 (cat) <= Y_5 (dog)".
[[nodiscard]] std::string with_class_names(const std::string& violated,
                                           const std::vector<std::string>& names);

/// In one sentence what a finding is about, without its margin.
[[nodiscard]] std::string describe(const Run& run, const Finding& finding);

}  // namespace grapeshot::report
