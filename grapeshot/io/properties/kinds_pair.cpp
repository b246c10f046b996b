#include "grapeshot/io/properties/kinds_pair.h"

#include <algorithm>
#include <cmath>

namespace grapeshot::properties {
namespace {

constexpr size_t kMostNamed = 5;  // features in a text

}  // namespace

Comparison same_decision(const Reader& reader, Pair& pair) {
  const Field& file = reader.file();
  const int64_t k = pair.outputs;
  Comparison out;
  if (file.has("threshold") && file.has("tolerance")) {
    file.fail("'threshold' and 'tolerance' exclude each other");
  }
  if (file.has("tolerance")) {
    pair.relation = Relation::kDifferences;
    const double tolerance = file.at("tolerance").number_from(0.);
    std::vector<int64_t> of;
    for (int64_t i = 0; i < k; ++i) of.push_back(i);
    if (file.has("output")) of = {reader.output()};
    for (const int64_t i : of) {
      out.cases.push_back({{above(2 * k + i, tolerance)}});
      out.cases.push_back({{below(2 * k + i, -tolerance)}});
    }
    std::vector<std::string> names;
    for (int64_t i = 0; i < k; ++i) names.push_back(reader.output_name(i));
    out.change = [of, names](Outputs y, Outputs z) {
      int64_t worst = of[0];
      const auto by = [&](int64_t i) {
        return std::abs(z[static_cast<size_t>(i)] - y[static_cast<size_t>(i)]);
      };
      for (const int64_t i : of) worst = by(i) > by(worst) ? i : worst;
      const auto at = static_cast<size_t>(worst);
      return str(names[at], " ", brief(y[at]), " -> ", brief(z[at]));
    };
    return out;
  }
  if (file.has("threshold")) {
    const double threshold = file.at("threshold").number();
    const int64_t i = reader.output();
    out.cases.push_back({{above(i, threshold), below(k + i, threshold)}});
    out.cases.push_back({{below(i, threshold), above(k + i, threshold)}});
    out.change = [i, threshold, name = reader.output_name(i)](Outputs y, Outputs z) {
      const auto at = static_cast<size_t>(i);
      return str(name, " ", brief(y[at]), " -> ", brief(z[at]), ", across ", brief(threshold));
    };
    return out;
  }
  if (k < 2) {
    file.fail("the network has one output: 'threshold' or 'tolerance' must say what may change");
  }
  if (file.has("output")) file.fail("'output' goes with 'threshold' or 'tolerance'");
  pair.relation = Relation::kMargins;
  for (int64_t i = 0; i < k; ++i) {
    out.cases.push_back({{above(2 * k + i, 0.), below(3 * k + i, 0.)}});
  }
  out.change = [names = reader.output_names()](Outputs y, Outputs z) {
    return str("class ", top_name(names, y), " -> ", top_name(names, z));
  };
  return out;
}

Pair pair_of(const Subject& subject) {
  Pair pair;
  pair.inputs = subject.inputs;
  pair.outputs = subject.outputs;
  for (int64_t i = 0; i < pair.inputs; ++i) pair.from.push_back(i);
  return pair;
}

int64_t outputs_of(const Pair& pair) {
  return 2 * pair.outputs + pair.compared();
}

std::string differences(const std::vector<std::string>& names, const std::vector<int64_t>& features,
                        Span x, Span second) {
  std::string out;
  size_t count = 0;
  for (const int64_t i : features) {
    const auto at = static_cast<size_t>(i);
    if (x[at] == second[at] || ++count > kMostNamed) continue;
    out += str(out.empty() ? "" : ", ", names[at], " ", brief(x[at]), " -> ", brief(second[at]));
  }
  return count > kMostNamed ? str(out, " and ", count - kMostNamed, " more") : out;
}

Words words_of_pair(const Pair& pair, std::vector<int64_t> rows,
                    std::function<std::string(Span x, Span second)> how, Change change,
                    std::string_view row, std::string_view none) {
  return [pair, rows = std::move(rows), how = std::move(how), change = std::move(change), row,
          none](Span x, Outputs y, const Verdict& verdict) {
    const auto k = static_cast<size_t>(pair.outputs);
    const std::vector<float> second = second_input(pair, x);
    return str(whose(rows, verdict, row, none), " with ",
               how(x.first(static_cast<size_t>(pair.inputs)), second), ": ",
               change(y.first(k), y.subspan(k, k)));
  };
}

}  // namespace grapeshot::properties
