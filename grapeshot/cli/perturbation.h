// grapeshot/cli/perturbation.h: how far a row of --data may go, and what it must not come to:
// --eps, --norm, --integer, --grid, --one-hot, --target.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "grapeshot/cli/data_rows.h"
#include "grapeshot/core/property.h"

namespace grapeshot::cli {

class FreeInputs;

struct PerturbationOptions {
  std::vector<double> eps;  ///< one, or several
  std::string norm = "linf";
  bool integer = false;  ///< a grid of 1
  double grid = 0.;      ///< 0: none
  std::string one_hot;   ///< "3-7,8-10"
  std::string target;    ///< a label, all, or "": any other than the row's

  [[nodiscard]] double step() const { return integer ? 1. : grid; }
};

/// Declares --integer and --grid, which go with specifications as well; and the others.
void add_grid_options(CLI::App& app, bool& integer, double& grid);
void add_perturbation_options(CLI::App& app, PerturbationOptions& options, CLI::Option* data);

/// Throws Error{kInvalidArgument} naming the option that is out of range; `radii` are given for
/// each input in place of --eps.
void check_perturbation(const PerturbationOptions& options, bool data, bool radii);

[[nodiscard]] nlohmann::ordered_json to_json(const PerturbationOptions& options);
/// What a run.json of before says of eps alone is read as well.
[[nodiscard]] PerturbationOptions perturbation_options(const nlohmann::json& object,
                                                       const std::string& path);

/// One question about a row: can it be broken within `eps`, towards `target`?
struct PerturbedRow {
  Property property;
  at::Tensor original;  ///< [D], inside
  double eps = 0.;
  int64_t target = -1;  ///< -1: any other label
};

class Perturbation {
 public:
  /// For these rows and a model of so many outputs; `source` is the file that messages begin with.
  /// Lengths are in the units of the data, and in those of the network where one factor says what
  /// that is. Throws Error{kInvalidArgument} for others, and for groups or a target that it does
  /// not have.
  Perturbation(PerturbationOptions options, const DataRows& rows, int64_t outputs,
               std::string source);

  /// Row `row`, `x` [D], of label `label`, by target and then eps, whose box `box_of` knows. None
  /// where the label is the target. Throws Error{kInvalidArgument} naming a row whose groups hold
  /// no single 1.
  [[nodiscard]] std::vector<PerturbedRow> of(int64_t row, std::span<const double> x, int64_t label,
                                             const FreeInputs& free,
                                             const std::function<Box(double eps)>& box_of) const;

 private:
  [[nodiscard]] std::vector<int64_t> targets(int64_t label) const;
  void open_groups(int64_t row, std::span<const double> x, Box& box) const;
  void close_groups(std::span<const double> x, Box& box) const;

  PerturbationOptions options_;
  int64_t outputs_;
  double unit_ = 1.;  ///< of the data, in units of the network
  std::string source_;
  BallNorm norm_;
  InputSet set_;  ///< without a ball
  std::optional<int64_t> target_;
};

/// Takes from the property's boxes what is no multiple of `step`. Throws Error{kUnsupported} naming
/// `spec` where boxes have a grid already.
void keep_to_grid(Property& property, double step, const std::string& spec);

}  // namespace grapeshot::cli
