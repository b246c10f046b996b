// grapeshot/io/properties/specification.h: JSON specifications, to a Property.
//
// A property is one function and one row of the table in specification.cpp. It compiles what the
// file says to what everything else works on: boxes of inputs, each with polytopes of outputs that
// violate. One that compares two runs does so for a network of two runs, which its Pair describes.
//
// Numbers are what float64 makes of them; bounds of inputs are rounded inwards to float32.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/core/property.h"
#include "grapeshot/io/properties/pair.h"

namespace grapeshot::properties {

/// The network that a file is about.
struct Subject {
  std::string name;
  int64_t inputs = 0, outputs = 0;
  std::vector<int64_t> shape;  ///< of its input, whose product is `inputs`
  /// Its float64 outputs [outputs] at an input [inputs].
  std::function<std::vector<double>(std::span<const float> x)> evaluate;
};

/// A violation in the property's own words: "individual 12 with ... class 1 -> 0". `x` and `y` are
/// of the network that was searched, the verdict's region is there.
using Words = std::function<std::string(std::span<const float> x, std::span<const double> y,
                                        const Verdict& verdict)>;

struct Specification {
  std::string kind;                ///< the row's name
  Property property;               ///< of the network, or of its two runs where there is a pair
  std::optional<Pair> pair;        ///< two runs of the network are searched
  std::vector<int64_t> shape;      ///< of the network's input
  std::vector<std::string> files;  ///< that it reads besides, absolute
  Words words;
};

struct Kind {
  std::string_view name, summary;
  Specification (*compile)(const class Reader& reader);
  bool keeps_sets = false;  ///< to balls, grids and one-hot groups of 'inputs'
};

/// All kinds of property, in table order.
[[nodiscard]] std::span<const Kind> kinds();

/// Whether a file of that name is a JSON specification: .json or .json.gz.
[[nodiscard]] bool is_specification(std::string_view path);

/// Parses `text`; files that it names are relative to the folder of `path`. Throws Error
/// "path: key: ..." in one sentence: kParse for text that is no JSON (with line and column), a key
/// that is unknown, missing or there twice, a value of another type or out of range, lo > hi;
/// kUnsupported for what multiplies to more boxes, cases or numbers than are taken; as read_npy for
/// a file that it names.
[[nodiscard]] Specification parse_specification(std::string_view text, const std::string& path,
                                                const Subject& subject);

/// A property that compares classes in one box, with what the box keeps to besides, as such a file
/// that means the same. Throws kUnsupported for others.
[[nodiscard]] std::string write_specification(const Property& property,
                                              const std::string& description);

/// Reads `path`, or `path`.gz when only that exists.
[[nodiscard]] Specification read_specification(const std::string& path, const Subject& subject);

}  // namespace grapeshot::properties
