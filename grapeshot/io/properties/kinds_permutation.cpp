// grapeshot/io/properties/kinds_permutation.cpp: sets whose order does not matter.
#include <algorithm>

#include "grapeshot/io/properties/kinds_pair.h"

namespace grapeshot::properties {

Specification compile_permutation(const Reader& reader) {
  reader.check_keys({"elements", "permutations", "threshold", "tolerance", "output"});
  const Field& file = reader.file();
  Pair pair = pair_of(reader.subject());
  pair.from.clear();
  pair.elements = file.at("elements").integer(2, pair.inputs);
  if (pair.inputs % pair.elements != 0) {
    file.at("elements").fail("does not divide the network's ", pair.inputs, " inputs");
  }
  pair.extra = pair.elements;
  // Keys that fall in the order wanted, or any at all.
  std::vector<std::vector<double>> keys;
  const Field stated = file.at("permutations");
  if (stated.value() != "any") {
    if (!stated.value().is_array()) stated.fail("must be \"any\" or an array of permutations");
    for (const Field& each : stated.entries()) {
      std::vector<double> key(static_cast<size_t>(pair.elements), -1.);
      const std::vector<Field> order = each.entries();
      if (std::ssize(order) != pair.elements) each.fail("must name ", pair.elements, " elements");
      double falling = static_cast<double>(pair.elements);
      for (const Field& element : order) {
        double& place = key[static_cast<size_t>(element.integer(0, pair.elements - 1))];
        if (place >= 0.) element.fail("names an element twice");
        place = falling--;
      }
      keys.push_back(std::move(key));
    }
    if (keys.empty()) stated.fail("must hold a permutation");
  }
  const std::vector<Domain> domains = reader.boxes();
  reader.check_boxes(static_cast<double>(domains.size()) *
                     std::max(1., static_cast<double>(keys.size())));
  std::vector<Box> boxes;
  std::vector<int64_t> rows;
  for (const Domain& domain : domains) {
    const auto add = [&](const std::vector<double>& from, const std::vector<double>& to) {
      std::vector<double> lo = domain.lo, hi = domain.hi;
      lo.insert(lo.end(), from.begin(), from.end());
      hi.insert(hi.end(), to.begin(), to.end());
      boxes.push_back(reader.inward(lo, hi));
      rows.push_back(domain.row);
    };
    for (const std::vector<double>& key : keys) add(key, key);
    const auto n = static_cast<size_t>(pair.elements);
    if (keys.empty()) add(std::vector<double>(n, 0.), std::vector<double>(n, 1.));
  }
  Comparison comparison = same_decision(reader, pair);
  Specification out;
  out.property = reader.property(std::move(boxes), rows, comparison.cases, outputs_of(pair));
  out.words = [pair, rows, change = comparison.change](Span x, Outputs y, const Verdict& verdict) {
    constexpr size_t kMostElements = 32;
    const auto k = static_cast<size_t>(pair.outputs);
    const auto order = order_of(x.last(static_cast<size_t>(pair.elements)));
    std::string text;
    for (size_t i = 0; i < order.size() && i < kMostElements; ++i) text += str(" ", order[i]);
    return str(whose(rows, verdict), " with its elements in the order", text,
               order.size() > kMostElements ? " ..." : "", ": ",
               change(y.first(k), y.subspan(k, k)));
  };
  out.pair = std::move(pair);
  return out;
}

}  // namespace grapeshot::properties
