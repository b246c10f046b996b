// grapeshot/io/properties/kinds_output.cpp: properties of the outputs at one input.
#include <algorithm>
#include <limits>
#include <memory>
#include <set>

#include "grapeshot/io/properties/kinds.h"

namespace grapeshot::properties {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// "individual 3: age is 4.5, above 4".
Words words_of_outputs(const Reader& reader, std::vector<int64_t> rows,
                       std::shared_ptr<const Property> property) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < reader.subject().outputs; ++i) names.push_back(reader.output_name(i));
  return [rows = std::move(rows), property = std::move(property), names](
             std::span<const float>, std::span<const double> y, const Verdict& verdict) {
    std::string out = whose(rows, verdict) + ":";
    if (verdict.region < 0) return out + " outside of every box";
    const Region& region = property->regions[static_cast<size_t>(verdict.region)];
    const char* separator = " ";
    for (const LinearRow& row : region.cases[static_cast<size_t>(verdict.case_index)].rows) {
      const auto output = static_cast<size_t>(row.terms[0].output);
      const bool most = row.terms[0].coefficient > 0.;
      out += str(separator, names[output], " is ", brief(y[output]), most ? ", below " : ", above ",
                 brief(most ? row.bound : -row.bound));
      separator = " and ";
    }
    return out;
  };
}

// Ways to leave a range: below lo, above hi, where there are such bounds.
std::vector<Case> leaving(int64_t output, double lo, double hi) {
  std::vector<Case> out;
  if (hi < kInfinity) out.push_back({{above(output, hi)}});
  if (lo > -kInfinity) out.push_back({{below(output, lo)}});
  return out;
}

}  // namespace

Specification compile_bounds(const Reader& reader) {
  reader.check_keys({"output", "lo", "hi", "delta"});
  const Field& file = reader.file();
  const int64_t output = reader.output();
  const bool around = file.has("delta");
  if (around == (file.has("lo") || file.has("hi"))) {
    file.fail("needs 'lo', 'hi' or both, or 'delta' alone");
  }
  const double delta = around ? file.at("delta").number_from(0.) : 0.;
  double lo = file.has("lo") ? file.at("lo").number() : -kInfinity;
  double hi = file.has("hi") ? file.at("hi").number() : kInfinity;
  if (lo > hi) file.fail("'lo' is above 'hi'");
  std::vector<Region> regions;
  std::vector<int64_t> rows;
  for (const Domain& domain : reader.domains()) {
    const std::vector<Domain> expanded = reader.expand({domain});
    reader.check_boxes(static_cast<double>(regions.size() + expanded.size()));
    if (around) {
      if (domain.center.empty()) file.at("delta").fail("needs 'center' in 'inputs'");
      const std::vector<float> center(domain.center.begin(), domain.center.end());
      const double value = reader.subject().evaluate(center)[static_cast<size_t>(output)];
      if (!(std::abs(value) < kInfinity)) {
        file.at("delta").fail("the network's output at the centre is ", value);
      }
      lo = value - delta;
      hi = value + delta;
    }
    for (const Domain& box : expanded) {
      regions.push_back({reader.inward(box), leaving(output, lo, hi)});
      rows.push_back(box.row);
    }
  }
  Specification out;
  out.property = reader.property(std::move(regions), rows, reader.subject().outputs);
  out.words = words_of_outputs(reader, std::move(rows), std::make_shared<Property>(out.property));
  return out;
}

namespace {

// Some class that is not allowed scores as high as every one that is.
std::vector<Case> outside_classes(const Reader& reader, const Field& field) {
  std::set<int64_t> allowed;
  for (const Field& each : field.entries()) {
    if (!allowed.insert(reader.output(each)).second) each.fail("names a class twice");
  }
  const int64_t k = reader.subject().outputs;
  if (allowed.empty() || std::ssize(allowed) == k) {
    field.fail("must name some of the network's ", k, " classes, not all");
  }
  const auto inside = std::ssize(allowed);
  if (inside * (k - inside) > kMostNumbers / k) {
    field.refuse("compares ", inside, " classes with ", k - inside, ": too many");
  }
  std::vector<Case> out;
  for (int64_t j = 0; j < k; ++j) {
    if (allowed.contains(j)) continue;
    Case& one = out.emplace_back();
    for (const int64_t i : allowed) one.rows.push_back(no_less(j, i));
  }
  return out;
}

// One side of every allowed box of outputs is left.
std::vector<Case> outside_boxes(const Reader& reader, const Field& field) {
  std::vector<Case> out = {{}};
  for (const Field& box : field.entries()) {
    std::vector<Case> sides;
    for (const auto& [key, range] : box.members()) {
      const int64_t output = reader.output(key, range);
      const std::vector<double> ends = range.numbers();
      if (ends.size() != 2 || ends[0] > ends[1]) range.fail("must be [lo, hi]");
      for (Case& side : leaving(output, ends[0], ends[1])) sides.push_back(std::move(side));
    }
    if (sides.empty()) box.fail("must bound an output");
    if (static_cast<double>(sides.size()) * static_cast<double>(out.size()) > kMostCases) {
      field.refuse("its boxes multiply to ", sides.size() * out.size(),
                   " or more ways to leave all of them, at most ", kMostCases, " are taken");
    }
    std::vector<Case> longer;
    for (const Case& each : out) {
      for (const Case& side : sides) {
        longer.push_back(each);
        longer.back().rows.push_back(side.rows[0]);
      }
    }
    out = std::move(longer);
  }
  if (out[0].rows.empty()) field.fail("must hold a box");
  return out;
}

}  // namespace

Specification compile_set(const Reader& reader) {
  reader.check_keys({"classes", "outputs"});
  const Field& file = reader.file();
  if (file.has("classes") == file.has("outputs")) {
    file.fail("needs one of 'classes' and 'outputs': what is allowed");
  }
  const bool classes = file.has("classes");
  const std::vector<Case> cases = classes ? outside_classes(reader, file.at("classes"))
                                          : outside_boxes(reader, file.at("outputs"));
  auto [boxes, rows] = reader.plain_boxes();
  Specification out;
  out.property = reader.property(std::move(boxes), rows, cases, reader.subject().outputs);
  if (!classes) {
    out.words = words_of_outputs(reader, std::move(rows), std::make_shared<Property>(out.property));
    return out;
  }
  out.words = [rows = std::move(rows), cases, names = reader.output_names()](
                  std::span<const float>, std::span<const double> y, const Verdict& verdict) {
    std::string top;
    if (verdict.case_index >= 0) {
      // The class that the case is about: the one that is no less than the others.
      for (const Term& term : cases[static_cast<size_t>(verdict.case_index)].rows[0].terms) {
        if (term.coefficient > 0.) continue;
        const auto at = static_cast<size_t>(term.output);
        top = str("class ", names.empty() ? std::to_string(term.output) : names[at], " with ",
                  brief(y[at]));
      }
    }
    return str(whose(rows, verdict), ": ", top, ", as high as every class that is allowed");
  };
  return out;
}

}  // namespace grapeshot::properties
