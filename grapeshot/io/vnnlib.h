// grapeshot/io/vnnlib.h: VNN-LIB 1.0 as used by VNN-COMP 2021-2025, to a Property.
//
// Read: declare-const X_i / Y_j Real; assert over and, or, <=, >= nested at will; a relation
// compares an input or output with a decimal, or two outputs. Asserts are conjoined; disjunctions
// are distributed into regions (input boxes) and cases (output polytopes).
// Comments (; to the end of the line), tabs, scientific literals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "grapeshot/core/property.h"

namespace grapeshot {

/// What disjunctions may multiply to, far beyond what specifications need: a small file must not
/// ask for all of the memory.
struct VnnlibLimits {
  size_t cases = size_t{1} << 20;
  size_t relations = size_t{1} << 25;  ///< over all cases, 4 bytes each
  size_t rows = size_t{1} << 23;       ///< those about outputs, some 64 bytes each
  size_t bounds = size_t{1} << 27;     ///< inputs over all boxes, 8 bytes each
};

/// Parses `text`; errors are "path:line:column: ..." in one sentence.
/// Throws kParse for: malformed text, undeclared, duplicate or gapped variables, NaN or infinite
/// bounds, an input without both bounds, lo > hi in one conjunction, a disjunct or file that says
/// nothing about the outputs. Throws kUnsupported for: strict relations, arithmetic, relations that
/// mix X and Y, other commands and sorts, more than `limits` allow, nesting deeper than 200.
/// A combination of disjuncts whose bounds contradict each other is dropped, since it never holds.
[[nodiscard]] Property parse_vnnlib(std::string_view text, const std::string& path,
                                    const VnnlibLimits& limits = {});

/// Reads `path`, or `path`.gz when only that exists, gzip or plain.
[[nodiscard]] Property read_vnnlib(const std::string& path);

/// VNN-LIB 1.0 text whose property is `property` (bounds with 9 significant digits or more, so
/// that reading it gives the same float32 box).
[[nodiscard]] std::string write_vnnlib(const Property& property, std::string_view comment);

}  // namespace grapeshot
