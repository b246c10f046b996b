// grapeshot/io/properties/kinds_fairness.cpp: individual fairness.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "grapeshot/io/properties/kinds_pair.h"

namespace grapeshot::properties {
namespace {

// The values of a protected feature, or a range of them.
struct Protected {
  int64_t feature = 0;
  std::vector<double> values;  // empty for a range
  double lo = 0., hi = 0.;
};

std::vector<Protected> read_protected(const Reader& reader) {
  const Field field = reader.file().at("protected");
  std::vector<Protected> out;
  std::set<int64_t> seen;
  for (const auto& [key, value] : field.members()) {
    Protected p;
    p.feature = reader.feature(key, value);
    if (!seen.insert(p.feature).second) value.fail("is protected twice");
    if (value.value().is_object()) {
      value.check_keys({"lo", "hi"});
      p.lo = value.at("lo").number();
      p.hi = value.at("hi").number();
      if (!(p.lo < p.hi)) value.fail("must have 'lo' below 'hi'");
    } else {
      p.values = value.numbers();
      std::ranges::sort(p.values);
      if (p.values.size() < 2 || std::ranges::adjacent_find(p.values) != p.values.end()) {
        value.fail("must list at least two different values, or have 'lo' and 'hi'");
      }
    }
    out.push_back(std::move(p));
  }
  if (out.empty()) field.fail("must name a feature");
  std::ranges::sort(out, {}, &Protected::feature);
  return out;
}

// All combinations of the values; one that is empty where all are ranges.
std::vector<std::vector<double>> combinations(const Reader& reader,
                                              const std::vector<Protected>& all) {
  double count = 1.;
  for (const Protected& p : all) count *= std::max(1., static_cast<double>(p.values.size()));
  reader.check_boxes(count);
  std::vector<std::vector<double>> out = {{}};
  for (const Protected& p : all) {
    std::vector<std::vector<double>> longer;
    for (const std::vector<double>& each : out) {
      for (const double v : p.values.empty() ? std::vector<double>{0.} : p.values) {
        longer.push_back(each);
        longer.back().push_back(v);
      }
    }
    out = std::move(longer);
  }
  return out;
}

// A box, multiplied out, and the features that are one of several values in it: those stay as they
// are, whatever 'eps' says.
struct Place {
  Domain domain;
  std::vector<int64_t> fixed;

  [[nodiscard]] bool stays(int64_t feature) const {
    return std::ranges::find(fixed, feature) != fixed.end();
  }
};

std::vector<Place> places_of(const Reader& reader, const std::vector<Protected>& all) {
  std::vector<Place> out;
  std::vector<Domain> domains = reader.domains();
  for (Domain& domain : domains) {
    for (const Protected& p : all) domain.values.erase(p.feature);
    std::vector<int64_t> fixed;
    for (const auto& [feature, values] : domain.values) fixed.push_back(feature);
    for (Domain& each : reader.expand({domain})) out.push_back({std::move(each), fixed});
    reader.check_boxes(static_cast<double>(out.size()));
  }
  return out;
}

// How far each feature that is not protected may differ, [D].
std::vector<double> read_eps(const Reader& reader, const std::vector<Protected>& all) {
  const int64_t d = reader.subject().inputs;
  if (!reader.file().has("eps")) return std::vector<double>(static_cast<size_t>(d), 0.);
  const Field field = reader.file().at("eps");
  std::vector<double> eps = field.numbers(d);
  for (const double e : eps) {
    if (e < 0.) field.fail("must be at least 0");
  }
  for (const Protected& p : all) eps[static_cast<size_t>(p.feature)] = 0.;
  return eps;
}

// The reach of what is added to a feature between lo and hi, so that the sum, rounded to float32,
// is off by no more than `eps`.
double safe_eps(const Reader& reader, int64_t feature, double lo, double hi, double eps) {
  const auto largest = static_cast<float>(std::max(std::abs(lo), std::abs(hi)) + eps);
  const double step =
      static_cast<double>(std::nextafter(largest, std::numeric_limits<float>::infinity())) -
      static_cast<double>(largest);
  if (!(eps > step)) {
    reader.file().at("eps").fail(brief(eps), " is less than float32 tells apart at ",
                                 reader.feature_name(feature), " = ", brief(largest));
  }
  return eps - step;
}

}  // namespace

Specification compile_fairness(const Reader& reader) {
  reader.check_keys({"protected", "eps", "threshold", "tolerance", "output"});
  const std::vector<Protected> all = read_protected(reader);
  const std::vector<double> eps = read_eps(reader, all);
  Pair pair = pair_of(reader.subject());
  for (const Protected& p : all) {
    pair.from[static_cast<size_t>(p.feature)] = pair.inputs + pair.extra++;
  }
  const std::vector<Place> places = places_of(reader, all);
  std::vector<int64_t> near;
  for (int64_t i = 0; i < pair.inputs; ++i) {
    const bool moves = !std::ranges::all_of(places, [&](const Place& p) { return p.stays(i); });
    if (eps[static_cast<size_t>(i)] > 0. && moves) near.push_back(i);
  }
  for (const int64_t i : near) pair.moved.push_back({i, pair.inputs + pair.extra++});
  for (size_t m = 0; m < near.size(); ++m) {
    pair.from[static_cast<size_t>(near[m])] = pair.whole() + static_cast<int64_t>(m);
  }
  const std::vector<std::vector<double>> choices = combinations(reader, all);
  const bool ranges = std::ranges::any_of(all, [](const Protected& p) { return p.values.empty(); });
  // A pair is there once where either may be the first: not where 'eps' takes the second one out of
  // the box that the first one has to lie in.
  const bool once = near.empty();
  const auto n = static_cast<double>(choices.size());
  const double pairs = n * (ranges ? n + 1. : n - 1.) / 2.;
  reader.check_boxes(static_cast<double>(places.size()) *
                     (once ? pairs : n * (ranges ? n : n - 1.)));
  std::vector<Box> boxes;
  std::vector<int64_t> rows;
  for (const Place& place : places) {
    for (size_t a = 0; a < choices.size(); ++a) {
      for (size_t b = once ? a : 0; b < choices.size(); ++b) {
        if (a == b && !ranges) continue;
        std::vector<double> lo = place.domain.lo, hi = place.domain.hi;
        for (size_t p = 0; p < all.size(); ++p) {
          const auto at = static_cast<size_t>(all[p].feature);
          const bool range = all[p].values.empty();
          lo[at] = range ? all[p].lo : choices[a][p];
          hi[at] = range ? all[p].hi : choices[a][p];
          lo.push_back(range ? all[p].lo : choices[b][p]);
          hi.push_back(range ? all[p].hi : choices[b][p]);
        }
        for (const int64_t i : near) {
          const auto at = static_cast<size_t>(i);
          hi.push_back(place.stays(i) ? 0. : safe_eps(reader, i, lo[at], hi[at], eps[at]));
          lo.push_back(-hi.back());
        }
        boxes.push_back(reader.inward(lo, hi));
        rows.push_back(place.domain.row);
      }
    }
  }
  Comparison comparison = same_decision(reader, pair);
  Specification out;
  out.property = reader.property(std::move(boxes), rows, comparison.cases, outputs_of(pair));
  std::vector<int64_t> features;
  std::ranges::transform(all, std::back_inserter(features), &Protected::feature);
  const auto how = [names = reader.feature_names(), features, near](Span x, Span second) {
    const std::string others = differences(names, near, x, second);
    return str(differences(names, features, x, second),
               others.empty() ? "" : str(" (and ", others, ")"));
  };
  out.words = words_of_pair(pair, std::move(rows), how, std::move(comparison.change), "individual",
                            "an individual");
  out.pair = std::move(pair);
  return out;
}

}  // namespace grapeshot::properties
