#include "grapeshot/io/properties/specification.h"

#include "grapeshot/base/table.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/properties/kinds.h"

namespace grapeshot::properties {
namespace {

constexpr Kind kTable[] = {
    {"fairness", "Changing protected features alone leaves the decision as it is.",
     compile_fairness},
    {"monotonicity", "An output, or the margin of a class, rises or falls with features.",
     compile_monotonicity},
    {"bounds", "An output stays in a range, or within some distance of its value at a point.",
     compile_bounds, true},
    {"temporal", "A sequence of outputs satisfies a formula of bounded temporal logic.",
     compile_temporal, true},
    {"set", "Inputs of a union of boxes give allowed classes, or outputs of a union of boxes.",
     compile_set, true},
    {"permutation", "The order of a set's elements does not matter.", compile_permutation},
};

}  // namespace

std::span<const Kind> kinds() {
  return kTable;
}

bool is_specification(std::string_view path) {
  return path.ends_with(".json") || path.ends_with(".json.gz");
}

Specification parse_specification(std::string_view text, const std::string& path,
                                  const Subject& subject) {
  const nlohmann::json json = parse_strict(text, path);
  const Field file(json, path);
  const Field name = file.at("property");
  const Kind* kind = nullptr;
  try {
    kind = &find_row(kinds(), name.text(), "property");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    name.fail(error.what());
  }
  const Reader reader(file, subject, kind->keeps_sets);
  Specification out = kind->compile(reader);
  out.kind = kind->name;
  out.shape = subject.shape;
  out.files = reader.files();
  return out;
}

Specification read_specification(const std::string& path, const Subject& subject) {
  return parse_specification(read_file(path), path, subject);
}

}  // namespace grapeshot::properties
