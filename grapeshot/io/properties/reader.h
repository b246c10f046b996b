// grapeshot/io/properties/reader.h: what the kinds of property have in common: names, boxes of
// inputs, limits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "grapeshot/io/properties/field.h"
#include "grapeshot/io/properties/specification.h"

namespace grapeshot::properties {

/// What a file may multiply to, beyond what is sensible.
constexpr int64_t kMostBoxes = 4096;
constexpr int64_t kMostCases = 4096;                   // of a box
constexpr int64_t kMostConditions = int64_t{1} << 20;  // boxes x cases x rows
constexpr int64_t kMostNumbers = int64_t{1} << 24;     // boxes x cases x rows x outputs
constexpr int64_t kMostOfBox = int64_t{1} << 18;       // of them, which every row of a batch has

/// One box of the file, in float64, before features that take single values are multiplied out.
struct Domain {
  std::vector<double> lo, hi;                     ///< [D]
  std::map<int64_t, std::vector<double>> values;  ///< of features that take these only
  std::vector<double> center;                     ///< [D], or empty
  InputSet set = {};  ///< the ball as it stands there, in `center` and its radius
  int64_t row = -1;   ///< of a data file
};

/// Boxes of inputs, and the row of a data file that each is about.
struct PlainBoxes {
  std::vector<Box> boxes;
  std::vector<int64_t> rows;
};

class Reader {
 public:
  /// `keeps_sets`: the kind keeps to balls, grids and one-hot groups; else they are refused.
  Reader(Field file, const Subject& subject, bool keeps_sets = false);

  [[nodiscard]] const Field& file() const { return file_; }
  [[nodiscard]] const Subject& subject() const { return subject_; }
  /// Throws for other keys of the file than `known` and those of every kind.
  void check_keys(std::initializer_list<std::string_view> known) const;

  /// By index or by name.
  [[nodiscard]] int64_t feature(const Field& field) const;
  [[nodiscard]] int64_t feature(const std::string& key, const Field& field) const;
  /// An array of different ones, ascending.
  [[nodiscard]] std::vector<int64_t> features(const Field& field) const;
  [[nodiscard]] int64_t output(const Field& field) const;
  [[nodiscard]] int64_t output(const std::string& key, const Field& field) const;
  /// 'output' of the file, or the only one.
  [[nodiscard]] int64_t output() const;

  [[nodiscard]] std::string feature_name(int64_t feature) const;
  [[nodiscard]] std::string output_name(int64_t output) const;
  /// Of all.
  [[nodiscard]] std::vector<std::string> feature_names() const;
  [[nodiscard]] const std::vector<std::string>& output_names() const { return outputs_; }

  /// 'inputs': one box or a union of them, multiplied out: no values are left.
  [[nodiscard]] std::vector<Domain> boxes() const { return expand(domains()); }
  /// The same as they stand there.
  [[nodiscard]] std::vector<Domain> domains() const;
  [[nodiscard]] std::vector<Domain> expand(const std::vector<Domain>& domains) const;

  /// The first, in float32, for kinds that add nothing to them.
  [[nodiscard]] PlainBoxes plain_boxes() const;

  /// Throws when there would be more boxes than are taken.
  void check_boxes(double count) const;
  /// Bounds rounded inwards to float32.
  [[nodiscard]] Box inward(const std::vector<double>& lo, const std::vector<double>& hi) const;
  /// The same with the domain's set, bounds on its grid.
  [[nodiscard]] Box inward(const Domain& domain) const;
  /// A property of `outputs` outputs whose boxes all have these cases, within the limits. Boxes
  /// without a float32 input are left out, unless all are, and so are their `rows`.
  [[nodiscard]] Property property(std::vector<Box> boxes, std::vector<int64_t>& rows,
                                  const std::vector<Case>& cases, int64_t outputs) const;
  /// The same of boxes with cases of their own, as many each.
  [[nodiscard]] Property property(std::vector<Region> regions, std::vector<int64_t>& rows,
                                  int64_t outputs) const;

  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }

 private:
  [[nodiscard]] std::vector<Domain> domain(const Field& field) const;
  /// Throws for more than is taken.
  void check_size(size_t boxes, const std::vector<Case>& cases, int64_t outputs) const;
  void read_center(const Field& field, std::vector<Domain>& out) const;
  void read_only(const Field& field, Domain& domain) const;
  void read_values(const Field& field, Domain& domain) const;
  void read_set(const Field& field, Domain& domain) const;

  Field file_;
  const Subject& subject_;
  bool keeps_sets_;
  std::vector<std::string> features_, outputs_;
  mutable std::vector<std::string> files_;
};

/// "row 12" of the data, or "an input" without one. `rows` are those of the boxes.
[[nodiscard]] std::string whose(const std::vector<int64_t>& rows, const Verdict& verdict,
                                std::string_view row = "row", std::string_view none = "an input");

/// The largest output's name, or number.
[[nodiscard]] std::string top_name(const std::vector<std::string>& names,
                                   std::span<const double> y);

/// Six digits.
[[nodiscard]] std::string brief(double value);

/// Rows y <= bound and y >= bound, or strictly.
[[nodiscard]] LinearRow at_most(int64_t output, double bound);
[[nodiscard]] LinearRow at_least(int64_t output, double bound);
[[nodiscard]] LinearRow below(int64_t output, double bound);
[[nodiscard]] LinearRow above(int64_t output, double bound);
/// y_a >= y_b.
[[nodiscard]] LinearRow no_less(int64_t a, int64_t b);

}  // namespace grapeshot::properties
