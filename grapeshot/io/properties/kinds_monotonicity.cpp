// grapeshot/io/properties/kinds_monotonicity.cpp: outputs that rise or fall with features.
#include <algorithm>
#include <iterator>
#include <limits>

#include "grapeshot/io/properties/kinds_pair.h"

namespace grapeshot::properties {
namespace {

// One feature that the output rises with, or falls with.
struct Directed {
  int64_t feature = 0;
  bool rises = true;
};

std::vector<Directed> read_directions(const Reader& reader) {
  const Field& file = reader.file();
  std::vector<Directed> out;
  for (const char* key : {"increasing", "decreasing"}) {
    if (!file.has(key)) continue;
    const Field field = file.at(key);
    for (const int64_t i : reader.features(field)) {
      if (std::ranges::find(out, i, &Directed::feature) != out.end()) {
        field.fail(reader.feature_name(i), " is 'increasing' too");
      }
      out.push_back({i, key == std::string_view("increasing")});
    }
  }
  if (out.empty()) file.fail("lacks 'increasing' or 'decreasing'");
  return out;
}

// How many pairs value_pairs() makes of a feature, at least 1.
double count_pairs(const Domain& domain, int64_t feature) {
  const auto it = domain.values.find(feature);
  if (it == domain.values.end()) return 1.;
  const auto n = static_cast<double>(it->second.size());
  return n * (n + 1.) / 2.;
}

// Of features with single values, [first, second] of every pair in the right order, as one more
// feature each.
std::vector<std::vector<Two>> value_pairs(const Domain& domain,
                                          const std::vector<Directed>& directed) {
  std::vector<std::vector<Two>> out;  // places in the list of values
  for (const auto& [feature, rises] : directed) {
    std::vector<Two>& pairs = out.emplace_back();
    const auto it = domain.values.find(feature);
    if (it == domain.values.end()) continue;
    const auto n = std::ssize(it->second);
    for (int64_t a = 0; a < n; ++a) {
      for (int64_t b = rises ? a : 0; b <= (rises ? n - 1 : a); ++b) pairs.push_back({a, b});
    }
  }
  return out;
}

}  // namespace

Specification compile_monotonicity(const Reader& reader) {
  reader.check_keys({"increasing", "decreasing", "output", "class", "tolerance"});
  const Field& file = reader.file();
  const std::vector<Directed> directed = read_directions(reader);
  const double tolerance = file.has("tolerance") ? file.at("tolerance").number_from(0.) : 0.;
  Pair pair = pair_of(reader.subject());
  for (const auto& [feature, rises] : directed) {
    (rises ? pair.raised : pair.lowered).push_back({feature, pair.inputs + pair.extra++});
  }
  int64_t next = pair.whole();
  for (const bool rises : {true, false}) {
    for (const Two& two : rises ? pair.raised : pair.lowered) {
      pair.from[static_cast<size_t>(two.a)] = next++;
    }
  }
  std::vector<Box> boxes;
  std::vector<int64_t> rows;
  for (const Domain& domain : reader.domains()) {
    Domain others = domain;
    double own = 1.;
    for (const auto& [feature, rises] : directed) {
      others.values.erase(feature);
      own *= count_pairs(domain, feature);
    }
    const std::vector<Domain> expanded = reader.expand({others});
    reader.check_boxes(static_cast<double>(boxes.size()) +
                       own * static_cast<double>(expanded.size()));
    const std::vector<std::vector<Two>> pairs = value_pairs(domain, directed);
    for (const Domain& each : expanded) {
      for (auto index = int64_t{0}; index < static_cast<int64_t>(own); ++index) {
        std::vector<double> lo = each.lo, hi = each.hi;
        int64_t rest = index;
        for (size_t k = 0; k < directed.size(); ++k) {
          const auto at = static_cast<size_t>(directed[k].feature);
          if (pairs[k].empty()) {
            lo.push_back(lo[at]);
            hi.push_back(hi[at]);
            continue;
          }
          const auto [a, b] = pairs[k][static_cast<size_t>(rest % std::ssize(pairs[k]))];
          rest /= std::ssize(pairs[k]);
          const std::vector<double>& values = domain.values.at(directed[k].feature);
          lo[at] = hi[at] = values[static_cast<size_t>(a)];
          lo.push_back(values[static_cast<size_t>(b)]);
          hi.push_back(values[static_cast<size_t>(b)]);
        }
        boxes.push_back(reader.inward(lo, hi));
        rows.push_back(each.row);
      }
    }
  }
  Change change;
  Case violated;
  if (file.has("class")) {
    if (file.has("output")) file.fail("'class' and 'output' exclude each other");
    pair.label = reader.output(file.at("class"));
    if (pair.outputs < 2) file.at("class").fail("the network has one output: name it by 'output'");
    pair.relation = Relation::kMarginDifference;
    violated.rows = {below(2 * pair.outputs, -tolerance)};
    change = [label = pair.label, name = reader.output_name(pair.label)](Outputs y, Outputs z) {
      const auto margin = [&](Outputs v) {
        double other = -std::numeric_limits<double>::infinity();
        for (int64_t i = 0; i < std::ssize(v); ++i) {
          if (i != label) other = std::max(other, v[static_cast<size_t>(i)]);
        }
        return v[static_cast<size_t>(label)] - other;
      };
      return str("the margin of ", name, " falls from ", brief(margin(y)), " to ",
                 brief(margin(z)));
    };
  } else {
    const int64_t i = reader.output();
    pair.relation = Relation::kDifferences;
    violated.rows = {below(2 * pair.outputs + i, -tolerance)};
    change = [i, name = reader.output_name(i)](Outputs y, Outputs z) {
      const auto at = static_cast<size_t>(i);
      return str(name, " falls from ", brief(y[at]), " to ", brief(z[at]));
    };
  }
  Specification out;
  out.property = reader.property(std::move(boxes), rows, {violated}, outputs_of(pair));
  std::vector<int64_t> features;
  std::ranges::transform(directed, std::back_inserter(features), &Directed::feature);
  const auto how = [names = reader.feature_names(), features](Span x, Span second) {
    return differences(names, features, x, second);
  };
  out.words = words_of_pair(pair, std::move(rows), how, std::move(change));
  out.pair = std::move(pair);
  return out;
}

}  // namespace grapeshot::properties
