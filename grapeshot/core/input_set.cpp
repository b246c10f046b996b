#include "grapeshot/core/input_set.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/base/text.h"

namespace grapeshot {
namespace {

constexpr BallNormRow kTable[] = {
    {"linf", "No input changes by more than eps.", BallNorm::kNone},
    {"l2", "The change is at most eps long, and so is every input's.", BallNorm::kL2},
    {"l1", "The changes of all inputs sum to at most eps.", BallNorm::kL1},
};

// A number with twice the digits of float64, after Dekker, "A floating-point technique for
// extending the available precision", 1971.
struct Twice {
  double high = 0., low = 0.;

  void add(double v) {
    const double sum = high + v, part = sum - high;
    low += (high - (sum - part)) + (v - part);
    high = sum;
  }
  void add_product(double a, double b) {
    const double product = a * b;
    add(product);
    low += std::fma(a, b, -product);
  }
  [[nodiscard]] bool at_most(const Twice& other) const {
    return (high - other.high) + (low - other.low) <= 0.;
  }
};

// The sum of changes, or of their squares.
Twice total(BallNorm norm, std::span<const float> x, std::span<const float> centre,
            const OneHot* one_hot) {
  std::vector<bool> counts(x.size(), true);
  if (one_hot) {
    for (const auto& group : *one_hot) {
      for (const int32_t i : group) counts[static_cast<size_t>(i)] = false;
    }
  }
  Twice sum;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!counts[i]) continue;
    Twice change;
    change.add(static_cast<double>(x[i]));
    change.add(-static_cast<double>(centre[i]));
    if (norm == BallNorm::kL1) {
      const double sign = change.high < 0. ? -1. : 1.;
      sum.add(sign * change.high);
      sum.add(sign * change.low);
    } else {
      sum.add_product(change.high, change.high);
      sum.add(2. * change.high * change.low);
    }
  }
  return sum;
}

bool in_ball(const InputSet& set, std::span<const float> x) {
  const Ball& ball = set.ball;
  Twice most;
  if (ball.norm == BallNorm::kL1) {
    most.add(ball.radius);
  } else {
    most.add_product(ball.radius, ball.radius);
  }
  // Written so that NaN is outside.
  return total(ball.norm, x, ball.centre, set.one_hot.get()).at_most(most);
}

// The first feature off the grid, or -1.
int64_t off_grid(const Grid& grid, std::span<const float> lo, std::span<const float> hi,
                 std::span<const float> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (lo[i] == hi[i] || x[i] == on_grid(grid, i, static_cast<double>(x[i]))) continue;
    return static_cast<int64_t>(i);
  }
  return -1;
}

// The first group that does not hold one 1 and else 0, or null.
const std::vector<int32_t>* broken_group(const OneHot& groups, std::span<const float> x) {
  for (const auto& group : groups) {
    int64_t ones = 0;
    bool others = false;
    for (const int32_t i : group) {
      const float v = x[static_cast<size_t>(i)];
      ones += v == 1.f ? 1 : 0;
      others = others || (v != 1.f && v != 0.f);
    }
    if (ones != 1 || others) return &group;
  }
  return nullptr;
}

int32_t parse_feature(std::string_view text, std::string_view part, int64_t inputs,
                      std::span<const std::string> names) {
  const auto name = std::ranges::find(names, text);
  if (name != names.end()) return static_cast<int32_t>(name - names.begin());
  int64_t value = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  GRAPESHOT_CHECK(
      failure == std::errc() && end == text.data() + text.size() && value >= 0 && value < inputs,
      kInvalidArgument, "--one-hot: '", printable(part), "' names '", printable(text),
      "', which is no input from 0 to ", inputs - 1, names.empty() ? "" : " and no name of one");
  return static_cast<int32_t>(value);
}

}  // namespace

std::span<const BallNormRow> ball_norms() {
  return kTable;
}

const BallNormRow& find_ball_norm(std::string_view name) {
  return find_row(ball_norms(), name, "norm of a ball");
}

std::string_view name_of(BallNorm norm) {
  return std::ranges::find(kTable, norm, &BallNormRow::norm)->name;
}

double distance(BallNorm norm, std::span<const float> x, std::span<const float> centre,
                const OneHot* one_hot) {
  const Twice sum = total(norm, x, centre, one_hot);
  return norm == BallNorm::kL1 ? sum.high + sum.low : std::sqrt(sum.high + sum.low);
}

bool contains(const InputSet& set, std::span<const float> lo, std::span<const float> hi,
              std::span<const float> x) {
  return (set.ball.norm == BallNorm::kNone || in_ball(set, x)) &&
         (!set.grid || off_grid(*set.grid, lo, hi, x) < 0) &&
         (!set.one_hot || !broken_group(*set.one_hot, x));
}

std::string why_outside(const InputSet& set, std::span<const float> lo, std::span<const float> hi,
                        std::span<const float> x) {
  if (set.ball.norm != BallNorm::kNone && !in_ball(set, x)) {
    return str("its ", name_of(set.ball.norm), " distance ",
               distance(set.ball.norm, x, set.ball.centre, set.one_hot.get()), " is above ",
               set.ball.radius);
  }
  const int64_t off = set.grid ? off_grid(*set.grid, lo, hi, x) : -1;
  if (off >= 0) {
    const auto i = static_cast<size_t>(off);
    return str("X_", off, " = ", x[i], " is off the grid of step ", set.grid->step[i]);
  }
  const auto* group = set.one_hot ? broken_group(*set.one_hot, x) : nullptr;
  if (group) {
    return str("X_", group->front(), " to X_", group->back(),
               " are one of a group: exactly one of them must be 1, the others 0");
  }
  return {};
}

Ball inner_ball(BallNorm norm, std::span<const double> centre, double radius,
                const InputSet& others, std::span<const float> lo, std::span<const float> hi) {
  Ball out{norm, {}, radius};
  std::vector<bool> counts(centre.size(), true);
  if (others.one_hot) {
    for (const auto& group : *others.one_hot) {
      for (const int32_t i : group) counts[static_cast<size_t>(i)] = false;
    }
  }
  double aside = 0.;
  for (size_t i = 0; i < centre.size(); ++i) {
    const double low = static_cast<double>(lo[i]), high = static_cast<double>(hi[i]);
    const double v = std::min(std::max(centre[i], low), high);
    const float value = others.grid ? on_grid(*others.grid, i, v) : static_cast<float>(v);
    out.centre.push_back(std::min(std::max(value, lo[i]), hi[i]));
    if (!counts[i] || lo[i] == hi[i]) continue;
    const double by = std::abs(v - static_cast<double>(out.centre[i]));
    aside = norm == BallNorm::kL1 ? aside + by : std::hypot(aside, by);
  }
  // Rounded down: the sum may be off by a few units in the last place.
  if (aside > 0.) out.radius = std::nextafter(radius - aside * (1. + 1e-9), -1.);
  return out;
}

float on_grid(const Grid& grid, size_t i, double v) {
  if (!(grid.step[i] > 0.)) return static_cast<float>(v);
  return static_cast<float>(grid.origin[i] +
                            std::round((v - grid.origin[i]) / grid.step[i]) * grid.step[i]);
}

bool snap_bounds(const Grid& grid, std::vector<float>& lo, std::vector<float>& hi) {
  bool some = true;
  for (size_t i = 0; i < lo.size(); ++i) {
    if (lo[i] == hi[i] || !(grid.step[i] > 0.)) continue;
    // The nearest value, or its neighbour inside: one step from either may round across the bound.
    const auto at = [&](double v, double steps) {
      return on_grid(grid, i, v + steps * grid.step[i]);
    };
    float low = at(static_cast<double>(lo[i]), 0.), high = at(static_cast<double>(hi[i]), 0.);
    if (low < lo[i]) low = at(static_cast<double>(lo[i]), 1.);
    if (high > hi[i]) high = at(static_cast<double>(hi[i]), -1.);
    some = some && low <= high;
    lo[i] = low;
    hi[i] = high;
  }
  return some;
}

OneHot parse_one_hot(std::string_view text, int64_t inputs, std::span<const std::string> names) {
  OneHot out;
  std::vector<bool> taken(static_cast<size_t>(inputs), false);
  for (const std::string_view part : split_at(',', text)) {
    std::vector<int32_t>& group = out.emplace_back();
    const bool named = std::ranges::find(names, part) != names.end();
    const size_t dash = named ? part.npos : part.find('-');
    if (dash != part.npos && part.find('+') == part.npos) {
      const int32_t first = parse_feature(part.substr(0, dash), part, inputs, names);
      const int32_t last = parse_feature(part.substr(dash + 1), part, inputs, names);
      for (int32_t i = first; i <= last; ++i) group.push_back(i);
    } else {
      for (const std::string_view each : split_at('+', part)) {
        group.push_back(parse_feature(each, part, inputs, names));
      }
    }
    std::ranges::sort(group);
    GRAPESHOT_CHECK(group.size() >= 2, kInvalidArgument, "--one-hot: '", printable(part),
                    "' is no group of two inputs or more, such as 3-7 or 3+5");
    for (const int32_t i : group) {
      GRAPESHOT_CHECK(!taken[static_cast<size_t>(i)], kInvalidArgument, "--one-hot: input ", i,
                      " is in '", printable(part), "' and in a group before it, or twice");
      taken[static_cast<size_t>(i)] = true;
    }
  }
  GRAPESHOT_CHECK(!out.empty(), kInvalidArgument, "--one-hot names no group");
  return out;
}

}  // namespace grapeshot
