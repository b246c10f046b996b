// grapeshot/cli/problem.h: models and instances from files, ready for a campaign.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "grapeshot/cli/data_box.h"
#include "grapeshot/cli/data_options.h"
#include "grapeshot/cli/data_rows.h"
#include "grapeshot/cli/perturbation.h"
#include "grapeshot/cli/session.h"
#include "grapeshot/cli/vocabulary.h"
#include "grapeshot/core/campaign.h"
#include "grapeshot/core/profile.h"
#include "grapeshot/core/property.h"
#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/properties/specification.h"
#include "grapeshot/io/query.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::cli {

struct ProblemInstance {
  size_t model = 0;  ///< index into Problem::models
  std::string spec;  ///< absolute path of its VNN-LIB or JSON file, empty when it comes from --data
  std::string sha256;  ///< of that file
  std::string name;    ///< for people: "prop_1.vnnlib", "x.npy[12]"
  Property property;
  at::Tensor original;  ///< [D], undefined for a file
  /// What a JSON file says, but for the property, which is above; null for others.
  std::shared_ptr<const properties::Specification> json = {};
  /// What a VNN-LIB 2.0 file says; null for others. The property above is its own without the empty
  /// boxes.
  std::shared_ptr<const query::Query> query = {};
  std::vector<std::string> networks = {};  ///< the file of each of the query's networks, absolute
  // Of --data.
  int64_t row = -1;     ///< of Problem::rows, or -1
  double eps = 0.;      ///< its radius
  double grid = 0.;     ///< of --grid on a file's property, 0: none
  int64_t target = -1;  ///< its label to reach, or -1
  int64_t family = -1;  ///< see CampaignInstance
};

struct ProblemModel {
  std::string path;    ///< absolute, as found (perhaps .gz)
  std::string sha256;  ///< of the file
  std::shared_ptr<const Model> model;
  std::string variant = {};  ///< of its weights (io/onnx/variant.h), or ""
  /// Where several runs are searched, of one file's network or of several: `model` as bytes.
  std::string pair = {};
};

/// Instances are grouped by model, in the order of the models' first appearance.
struct Problem {
  std::vector<ProblemModel> models;
  std::vector<ProblemInstance> instances;
  std::unique_ptr<Profile> profile;  ///< of the one model, where asked for
  std::unique_ptr<Vocabulary> vocabulary = nullptr;
  std::unique_ptr<DataRows> rows = nullptr;  ///< of --data
  int64_t misread = 0;  ///< rows left out: the model does not predict their labels

  [[nodiscard]] std::vector<CampaignModel> campaign_models() const;
};

/// Where a problem comes from; exactly one of the three forms is filled in.
struct ProblemFiles : DataOptions, DataBoxOptions {
  std::string model;
  std::vector<std::string> specs;  ///< VNN-LIB or JSON files for `model`
  /// "name=path" for networks of VNN-LIB 2.0 files; `model`, where given, is for the one not named.
  std::vector<std::string> networks = {};
  std::string instances;          ///< an instances.csv
  PerturbationOptions change;     ///< of the data, in its units, and --grid of specifications
  bool misclassified = false;     ///< keep rows that the model does not predict as labelled
  std::string frozen, mask;       ///< a file or columns, an input's name: what of a row may change
  int64_t drop = 1;               ///< (cli/free_inputs.h)
  std::string vocabulary, words;  ///< what findings are put into words by, or ""
  std::string stats;              ///< reference statistics of the one model, or ""
  /// Of an input of TorchScript, as input_shape() takes it; "": that of a row of --data.
  std::string shape;
};

/// With absolute paths; and what it was made of.
[[nodiscard]] nlohmann::ordered_json to_json(const ProblemFiles& files);
[[nodiscard]] ProblemFiles problem_files(const nlohmann::json& object, const std::string& path);

/// Reads everything before anything runs, but for models that are `given`. Throws Error naming the
/// file that is wrong; a specification whose numbers of variables are not the model's names both.
[[nodiscard]] Problem load_problem(const ProblemFiles& files, const GivenModels& given = {});

/// Whether a specification says what it means of its networks only: a JSON or VNN-LIB 2.0 file.
/// Throws as read_file does.
[[nodiscard]] bool needs_networks(const std::string& spec);

/// The words of the instance's property for its violations; none for VNN-LIB 1.0 and --data.
[[nodiscard]] properties::Words words_of(const ProblemInstance& instance);

/// What the instance calls input i; empty: X_i.
[[nodiscard]] std::function<std::string(int64_t input)> input_names(
    const ProblemInstance& instance);

/// Reads a witness of the instance, as read_witness does or, for VNN-LIB 2.0, in the form of its
/// standard; outputs are the query's base outputs then.
[[nodiscard]] Witness read_witness_for(const std::string& path, const ProblemInstance& instance);

/// Throws Error{kInvalidArgument} naming `spec` when it declares other numbers of inputs or outputs
/// than `model` has.
void check_fits(const Model& model, const Property& property, const std::string& spec);

/// x +- eps, rounded inwards.
[[nodiscard]] Box box_around(std::span<const double> x, double eps);

/// The bare property of top-1 robustness in a box.
[[nodiscard]] Property top1_property(Box box, int64_t label, int64_t outputs);
/// The same in x +- eps.
[[nodiscard]] Property top1_property(std::span<const double> x, double eps, int64_t label,
                                     int64_t outputs);

}  // namespace grapeshot::cli
