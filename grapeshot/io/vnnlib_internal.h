// grapeshot/io/vnnlib_internal.h: what lies between the text of a VNN-LIB file and its Property.
//
// vnnlib.cpp (1.0) and query_read.cpp (2.0) read the text into a Formula in disjunctive normal
// form, vnnlib_regions.cpp turns that into boxes and polytopes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/core/property.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot::vnnlib {

/// A text and the name for its errors. Positions are byte offsets until one is printed.
struct Source {
  std::string_view text;
  const std::string& path;

  /// From 1. O(offset).
  [[nodiscard]] int64_t line(size_t offset) const;
  /// "path:line:column", columns in bytes from 1.
  [[nodiscard]] std::string at(size_t offset) const;
  /// What stands there, up to the next blank, parenthesis or comment.
  [[nodiscard]] std::string_view word(size_t offset) const;
};

/// One relation: X or Y against a literal, Y_variable <= Y_second, or an extra output against 0.
/// Small, since ten bytes of text can be one: the literal itself stays in a text.
struct Atom {
  enum class Kind : uint8_t { kInput, kOutput, kDifference, kExtra };
  double nearest = 0.;     ///< to the literal
  uint32_t offset = 0;     ///< of its opening parenthesis
  uint32_t second = 0;     ///< offset of the literal, or the other output
  int32_t group : 31 = 0;  ///< atoms of one group stand in one conjunction, no `or` between them
  bool strict : 1 = false;
  uint32_t variable : 29 = 0;
  Kind kind : 2 = Kind::kInput;
  bool upper : 1 = true;  ///< variable <= literal, else literal <= variable
};
static_assert(sizeof(Atom) == 24);

constexpr int32_t kGroupBits = (int32_t{1} << 30) - 1;  // a group takes more than 4 bytes of text
constexpr size_t kMaxVariables = size_t{1} << 29;       // as Atom has bits for; and relations

/// Conjunctions of atoms (by index), one behind the other.
struct Clauses {
  std::vector<int32_t> atoms;
  std::vector<size_t> ends;  ///< of clause i in `atoms`

  /// One clause that always holds.
  static Clauses nothing() { return {.atoms = {}, .ends = {0}}; }

  [[nodiscard]] size_t size() const { return ends.size(); }
  [[nodiscard]] std::span<const int32_t> operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::span(atoms).subspan(begin, ends[i] - begin);
  }
};

void append(Clauses& to, const Clauses& from);

/// Throws kUnsupported, naming `offset`, where there are more than `limits` allow.
void check_size(size_t cases, size_t references, const VnnlibLimits& limits, const Source& source,
                size_t offset);

/// The clauses of (a and b); throws as check_size does.
[[nodiscard]] Clauses product(const Clauses& a, Clauses b, const VnnlibLimits& limits,
                              const Source& source, size_t offset);

/// `common` and one of `clauses`.
struct Formula {
  std::vector<size_t> inputs, outputs;  ///< where X_i and Y_j are declared
  size_t extras = 0;                    ///< outputs behind those, compared with 0
  std::string literals;  ///< where literals stand that are not in the text; empty: all are there
  std::vector<std::string> input_names;  ///< for messages; empty: X_i
  std::vector<Atom> atoms;
  int32_t groups = 1;           ///< 0 is the file itself, the others are disjuncts
  std::vector<int32_t> common;  ///< atoms that stand in no disjunction
  Clauses clauses;              ///< at least one, perhaps without atoms
};

constexpr int kMaxDepth = 200;                                     // of parentheses
constexpr size_t kMaxText = std::numeric_limits<uint32_t>::max();  // offsets have 32 bits

[[nodiscard]] bool is_blank(char c);

/// Throws as parse_vnnlib does for all that concerns single relations and declarations.
[[nodiscard]] Formula read_formula(const Source& source, const VnnlibLimits& limits);

/// Throws as parse_vnnlib does for all that concerns the bounds and cases as a whole.
[[nodiscard]] Property build_property(const Formula& formula, const Source& source,
                                      const VnnlibLimits& limits);

}  // namespace grapeshot::vnnlib
