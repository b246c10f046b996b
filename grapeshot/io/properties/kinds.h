// grapeshot/io/properties/kinds.h: the functions of the table in specification.cpp.
#pragma once

#include "grapeshot/io/properties/reader.h"

namespace grapeshot::properties {

// Of two runs, kinds_pair.cpp.
Specification compile_fairness(const Reader& reader);
Specification compile_monotonicity(const Reader& reader);
Specification compile_permutation(const Reader& reader);

// Of outputs alone, kinds_output.cpp.
Specification compile_bounds(const Reader& reader);
Specification compile_set(const Reader& reader);

// Of a sequence of outputs, kinds_temporal.cpp.
Specification compile_temporal(const Reader& reader);

}  // namespace grapeshot::properties
