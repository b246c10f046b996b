// grapeshot/io/query.h: VNN-LIB 2.0 queries: networks by name, typed tensors, polynomial relations.
//
// A query becomes a Property of one network, the joined one: its inputs are those of all networks,
// of inputs that a query sets equal only one; its outputs are all declared hidden tensors and
// outputs, the base outputs, and an extra output for every relation that is no bound of an input,
// no bound of an output and no comparison of two outputs. Such a relation is p <= 0 or p < 0, p a
// polynomial of inputs and base outputs, whose value is the extra output. io/onnx/joined_model.h
// writes that network. Where there is nothing to join, it is the one network as it is.
//
// The language: Allen, Daggitt, et al., The VNN-LIB Standard 2.0, 2026. Accepted is what the
// standard's own parser (vnnlib 1.0.2 on PyPI) accepts, but for what parse_query says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/core/property.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot::query {

enum class Role : uint8_t { kInput, kHidden, kOutput };

struct Variable {
  std::string name;
  std::string type;  ///< as declared: "float32", "real", ...
  Role role = Role::kInput;
  size_t network = 0;          ///< index of Query::networks
  std::vector<int64_t> shape;  ///< empty: a scalar
  int64_t size = 1;            ///< elements, row-major
  int64_t begin = 0;           ///< its first among all declared input elements, or base outputs
  std::string tensor = {};     ///< of a hidden one: its name in the network's file
  size_t offset = 0;           ///< in the text
};

enum class Link : uint8_t { kNone, kEqualTo, kIsomorphicTo };

struct Network {
  std::string name;
  Link link = Link::kNone;
  size_t target = 0;  ///< index of the network that it is linked to

  /// Whether it has a file of its own.
  [[nodiscard]] bool has_file() const { return link != Link::kEqualTo; }
};

/// coefficient times all factors: numbers below Query::property.inputs are inputs, the others base
/// outputs behind them.
struct Monomial {
  std::vector<int32_t> factors;  ///< ascending; a power is several
  double coefficient = 0.;       ///< the nearest
};

/// An extra output.
struct Polynomial {
  std::string text;  ///< the relation that it decides, as it stands in the file
  std::vector<Monomial> terms;
};

struct Query {
  std::string path;
  std::vector<Network> networks;
  std::vector<Variable> variables;  ///< in the order of the text
  std::vector<int32_t> place;       ///< of every declared input element among property.inputs
  int64_t base_outputs = 0;
  std::vector<Polynomial> extras;
  Property property;                          ///< inputs joined, outputs base_outputs + extras
  std::shared_ptr<const struct Exact> exact;  ///< the extras' coefficients

  /// Whether the only network is searched as it is.
  [[nodiscard]] bool plain() const;
  /// "X[0,2]" or "Y" for the element of a variable.
  [[nodiscard]] std::string element(const Variable& variable, int64_t index) const;
  /// The same for an input of the joined network (the first of equal ones) and a base output.
  [[nodiscard]] std::string input_name(int64_t input) const;
  [[nodiscard]] std::string output_name(int64_t output) const;
  /// The values of a variable among the joined network's inputs x and outputs y.
  [[nodiscard]] std::vector<double> values(const Variable& variable, std::span<const float> x,
                                           std::span<const double> y) const;
  /// A case in the query's own words: "Y[0,1] <= Y[0,0] and (< (+ X[0] Y[0]) 1.5)".
  [[nodiscard]] std::string describe(const Case& violated) const;
};

/// Whether a text's first form is one of VNN-LIB 2.0.
[[nodiscard]] bool is_query(std::string_view text);

/// Parses `text`; errors are "path:line:column: ..." in one sentence. Throws kParse for what the
/// standard's parser rejects, numbers with an exponent among it. Throws kUnsupported for types
/// other than float32 and real, indices and sizes that are no whole numbers, two networks of one
/// name, a network that is linked twice, polynomials of more than 4,096 terms or above degree 8,
/// inputs without both bounds, bounds that contradict each other in one conjunction, and as
/// parse_vnnlib for nesting and for what multiplies beyond `limits`.
[[nodiscard]] Query parse_query(std::string_view text, const std::string& path,
                                const VnnlibLimits& limits = {});

/// Replaces the extra outputs of y [property.outputs], finite or not, by the polynomials' exact
/// values at x [property.inputs] and the base outputs, rounded to float32 but never to 0 unless
/// they are 0: the signs decide. Those with an infinite or NaN factor become NaN.
void settle_extras(const Query& query, std::span<const double> x, std::span<double> y);

/// An assignment in the standard's form: for every variable "NAME type [d0,d1]", then a value a
/// line.
[[nodiscard]] std::string write_assignment(const Query& query, std::span<const float> x,
                                           std::span<const double> y);

/// Inputs of the joined network and, where the text has all of them, base outputs. Throws kParse
/// "path:line:column: ..." for text of another form, other names, types or shapes than declared,
/// inputs that are missing, and equal inputs with different values.
struct Assignment {
  std::vector<double> x, y;
};
[[nodiscard]] Assignment parse_assignment(const Query& query, std::string_view text,
                                          const std::string& path);

/// Whether a witness is one of VNN-LIB 2.0: its first line, but for `sat`, ends with a shape.
[[nodiscard]] bool is_assignment(std::string_view text);

}  // namespace grapeshot::query
