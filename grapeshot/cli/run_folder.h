// grapeshot/cli/run_folder.h: what a campaign leaves on disk.
//
//   run.json        every option, seed, sha256 of models and specifications, versions, processor
//   stats.jsonl     a line per interval
//   summary.json    what --json prints
//   instances.csv   per instance: verdict, best margin, candidates, seconds to the first finding
//   near/<i>.npy    the closest input of every unbroken instance
//   report.html     what `grapeshot report` makes of all this (report_flags.h)
//   checkpoint/     state.pt: what `grapeshot resume` goes on from (core/state.h)
//   lock            held by the process that works here
//   findings/<id>/  finding.json, input.npy, original.npy (and property.vnnlib for --data, or
//                   property.json where more than a box bounds the inputs; for JSON
//                   specifications region.vnnlib, and for two runs first.npy, second.npy; for
//                   VNN-LIB 2.0 counterexample.txt in the form of its standard)
//   networks/<i>.onnx  the network of several runs that model i is
#pragma once

#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "grapeshot/cli/problem.h"
#include "grapeshot/core/campaign.h"
#include "grapeshot/io/file_lock.h"

namespace grapeshot::cli {

/// What a finding's own property is called.
constexpr const char* kOwnVnnlib = "property.vnnlib";
constexpr const char* kOwnJson = "property.json";

class RunFolder {
 public:
  /// Makes `path` (with parents); throws Error{kInvalidArgument} when it cannot be written or holds
  /// an earlier run.
  explicit RunFolder(const std::string& path);
  /// The folder of an earlier run; throws Error{kNotFound} when `path` holds none.
  [[nodiscard]] static RunFolder reopen(const std::string& path);
  /// Throws Error{kInvalidArgument} when `path` holds an earlier run.
  static void check_is_new(const std::string& path);
  // Either throws Error{kInvalidArgument} while another process works there.

  [[nodiscard]] const std::string& path() const { return path_; }

  void write_json(const std::string& name, const nlohmann::ordered_json& value) const;
  void append_stats(const nlohmann::ordered_json& line);

  /// All of the finding or nothing: written beside its place and renamed; nothing when it is there
  /// already. Returns its id.
  /// `more` goes into finding.json besides, `inputs` are more .npy of the size of an input.
  std::string write_finding(
      const Problem& problem, const Finding& finding, uint64_t seed,
      const nlohmann::ordered_json& more = {},
      const std::vector<std::pair<std::string, at::Tensor>>& inputs = {}) const;

  void write_instances(const Problem& problem, const CampaignResult& result) const;

  void write_checkpoint(const State& state) const;
  /// Nothing when the run has made none yet. Throws Error{kParse} for a damaged one.
  [[nodiscard]] std::optional<State> read_checkpoint() const;

 private:
  RunFolder(const std::string& path, bool again);
  /// What finding.json says besides of a JSON specification; its files go into `draft`.
  void describe_json(const Problem& problem, const Finding& finding, const std::string& draft,
                     nlohmann::ordered_json& out) const;

  /// The same of a VNN-LIB 2.0 query.
  void describe_query(const Problem& problem, const Finding& finding, const std::string& draft,
                      nlohmann::ordered_json& out) const;
  /// Writes the network of several runs that model `index` is, if it is not there; its path.
  std::string write_network(const Problem& problem, size_t index) const;

  std::string path_;
  FileLock lock_;
  std::ofstream stats_;
};

/// "grapeshot-out/<time>-<model>", not there yet.
[[nodiscard]] std::string default_run_path(const std::string& model_path);

/// Models, specifications, versions and processor for run.json.
[[nodiscard]] nlohmann::ordered_json describe_files(const Problem& problem);

/// Writes x, float32, as an array of `shape`.
void save_npy(const std::string& path, const at::Tensor& x, const std::vector<int64_t>& shape);

/// The input x, float32, with its outputs, in VNN-COMP's text: of VNN-LIB 1.0 or, for an instance
/// of VNN-LIB 2.0, of that. `sat` is the first line.
[[nodiscard]] std::string witness_text(const ProblemInstance& instance, const at::Tensor& x,
                                       std::span<const double> y);

/// Writes the input x: as an array [shape...] when `path` ends in .npy, else as witness_text().
void save_witness(const std::string& path, const ProblemInstance& instance, const at::Tensor& x,
                  std::span<const double> y, const std::vector<int64_t>& shape);

/// A number, or null where JSON has none (infinity, NaN).
[[nodiscard]] nlohmann::ordered_json number(double value);

}  // namespace grapeshot::cli
