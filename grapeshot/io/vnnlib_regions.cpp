#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/vnnlib_internal.h"

namespace grapeshot::vnnlib {
namespace {

constexpr int32_t kNone = -1;
constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr float kFar32 = std::numeric_limits<float>::infinity();

/// The tightest bounds of every input, as indices of atoms or kNone.
struct Bounds {
  std::vector<int32_t> lo, hi;
};

/// The bounds of one input where they differ from the common ones.
struct Override {
  int32_t input = 0, lo = kNone, hi = kNone;
};

class Builder {
 public:
  Builder(const Formula& formula, const Source& source, const VnnlibLimits& limits)
      : formula_(formula),
        source_(source),
        literals_{formula.literals.empty() ? source.text : formula.literals, source.path},
        limits_(limits),
        inputs_(formula.inputs.size()),
        stamps_(inputs_, 0) {
    common_.lo.assign(inputs_, kNone);
    common_.hi = common_.lo;
  }

  Property run() {
    check_groups();
    const bool any_row = std::ranges::any_of(
        formula_.atoms, [](const Atom& atom) { return atom.kind != Atom::Kind::kInput; });
    if (!any_row)
      fail(ErrorCode::kParse, source_.text.size(),
           "no assertion is about the outputs; add one that says what a violation is, such as "
           "(assert (<= Y_0 0))");
    for (const int32_t index : formula_.common) {
      const Atom& atom = formula_.atoms[static_cast<size_t>(index)];
      if (atom.kind == Atom::Kind::kInput) {
        tighten(common_, index);
      } else {
        common_rows_.push_back(make_row(atom));
      }
    }
    current_ = common_;
    for (size_t i = 0; i < inputs_; ++i) {
      if (contradict(common_.lo[i], common_.hi[i])) fail_as_crossed(common_.lo[i], common_.hi[i]);
      missing_ += static_cast<size_t>((common_.lo[i] == kNone) + (common_.hi[i] == kNone));
    }
    property_.inputs = std::ssize(formula_.inputs);
    property_.outputs = std::ssize(formula_.outputs) + static_cast<int64_t>(formula_.extras);
    for (size_t i = 0; i < formula_.clauses.size(); ++i) add_clause(formula_.clauses[i]);
    if (property_.regions.empty())
      fail(ErrorCode::kParse, source_.text.size(),
           "every disjunct contradicts bounds asserted elsewhere, so that no input is left");
    return std::move(property_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(ErrorCode code, size_t offset, const Parts&... parts) const {
    throw Error(code, str(source_.at(offset), ": ", parts...));
  }

  [[nodiscard]] const Atom& atom(int32_t index) const {
    return formula_.atoms[static_cast<size_t>(index)];
  }

  [[nodiscard]] std::string_view literal(const Atom& atom) const {
    return literals_.word(atom.second);
  }

  /// All its roundings; the text was checked when it was read.
  [[nodiscard]] Decimal decimal(const Atom& atom) const {
    return parse_decimal(literal(atom)).value_or(Decimal{});
  }

  /// The order of the literals.
  [[nodiscard]] std::strong_ordering compare(const Atom& a, const Atom& b) const {
    if (a.nearest < b.nearest) return std::strong_ordering::less;
    if (a.nearest > b.nearest) return std::strong_ordering::greater;
    return compare_decimals(literal(a), literal(b));
  }

  [[nodiscard]] std::string input_name(size_t i) const {
    return formula_.input_names.empty() ? str("X_", i) : formula_.input_names[i];
  }

  [[nodiscard]] LinearRow make_row(const Atom& atom) const {
    const auto variable = static_cast<int32_t>(atom.variable);
    // Of a float32 or float64 difference the sign is exact, and this is less than any of them.
    const double zero = atom.strict ? -std::numeric_limits<double>::denorm_min() : 0.;
    if (atom.kind == Atom::Kind::kExtra) {
      const auto output = static_cast<int32_t>(formula_.outputs.size()) + variable;
      return {.terms = {{output, atom.upper ? 1. : -1.}}, .bound = zero};
    }
    if (atom.kind == Atom::Kind::kDifference) {
      const Term mine{variable, 1.}, other{static_cast<int32_t>(atom.second), -1.};
      return {
          .terms = mine.output < other.output ? std::vector{mine, other} : std::vector{other, mine},
          .bound = zero};
    }
    // Rounded so that a float output satisfies the row exactly when it satisfies the decimal.
    const Decimal bound = decimal(atom);
    const bool beyond = atom.strict && bound.down == bound.up;  // the decimal itself is out
    if (atom.upper) {
      return {.terms = {{variable, 1.}},
              .bound = beyond ? std::nextafter(bound.down, -kFar) : bound.down};
    }
    return {.terms = {{variable, -1.}},
            .bound = -(beyond ? std::nextafter(bound.up, kFar) : bound.up)};
  }

  void tighten(Bounds& bounds, int32_t index) const {
    const Atom& added = atom(index);
    int32_t& place = (added.upper ? bounds.hi : bounds.lo)[added.variable];
    if (place != kNone) {
      const std::strong_ordering order = compare(added, atom(place));
      const bool tighter = order == 0 && added.strict && !atom(place).strict;
      if (!tighter && (added.upper ? order >= 0 : order <= 0)) return;
    }
    place = index;
  }

  [[nodiscard]] bool contradict(int32_t lo, int32_t hi) const {
    if (lo == kNone || hi == kNone) return false;
    const std::strong_ordering order = compare(atom(lo), atom(hi));
    return order > 0 || (order == 0 && (atom(lo).strict || atom(hi).strict));
  }

  /// Bounds that one conjunction writes must leave room. (Those of different disjunctions may
  /// contradict each other: such a combination is a clause that never holds.)
  void check_groups() {
    std::vector<size_t> starts(static_cast<size_t>(formula_.groups) + 1, 0);
    for (const Atom& each : formula_.atoms) ++starts[static_cast<size_t>(each.group) + 1];
    for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
    std::vector<int32_t> sorted(formula_.atoms.size());
    std::vector<size_t> places(starts.begin(), starts.end() - 1);
    for (size_t i = 0; i < formula_.atoms.size(); ++i)
      sorted[places[static_cast<size_t>(formula_.atoms[i].group)]++] = static_cast<int32_t>(i);

    Bounds bounds = common_;
    for (size_t group = 0; group + 1 < starts.size(); ++group) {
      const auto members =
          std::span(sorted).subspan(starts[group], starts[group + 1] - starts[group]);
      for (const int32_t index : members) {
        if (atom(index).kind != Atom::Kind::kInput) continue;
        tighten(bounds, index);
        const size_t input = atom(index).variable;
        if (contradict(bounds.lo[input], bounds.hi[input]))
          fail_as_crossed(bounds.lo[input], bounds.hi[input]);
      }
      for (const int32_t index : members) {
        const Atom& each = atom(index);
        if (each.kind != Atom::Kind::kInput) continue;
        bounds.lo[each.variable] = kNone;
        bounds.hi[each.variable] = kNone;
      }
    }
  }

  [[noreturn]] void fail_as_crossed(int32_t lo, int32_t hi) const {
    const Atom &low = atom(lo), &high = atom(hi);
    const auto [first, second] = std::minmax({low.offset, high.offset});
    const bool equal = compare(low, high) == 0;
    fail(ErrorCode::kParse, second, "the lower bound ", printable(literal(low)), " of ",
         input_name(low.variable),
         equal ? " is its upper bound too, and one of them is strict" : " exceeds its upper bound ",
         equal ? std::string() : printable(literal(high)), "; correct this line or line ",
         source_.line(first));
  }

  /// One conjunction, as a case of the region of its box.
  void add_clause(std::span<const int32_t> clause) {
    std::vector<LinearRow> rows = common_rows_;
    touched_.clear();
    ++stamp_;
    for (const int32_t index : clause) {
      const Atom& each = atom(index);
      if (each.kind != Atom::Kind::kInput) {
        rows.push_back(make_row(each));
        continue;
      }
      const size_t input = each.variable;
      if (std::exchange(stamps_[input], stamp_) != stamp_)
        touched_.push_back(static_cast<int32_t>(input));
      tighten(current_, index);
    }
    std::ranges::sort(touched_);
    if (collect_overrides()) {
      check_bounded(clause);
      if (rows.empty())
        fail(ErrorCode::kParse, clause.empty() ? source_.text.size() : atom(clause[0]).offset,
             "this disjunct says nothing about the outputs, so that all of its box would be "
             "violations; add a relation about Y");
      rows_ += rows.size();
      if (rows_ > limits_.rows)
        fail(ErrorCode::kUnsupported, clause.empty() ? 0 : atom(clause[0]).offset,
             "the cases up to here have more than ", limits_.rows,
             " rows; split the specification");
      region(clause).cases.push_back({.rows = std::move(rows)});
    }
    for (const int32_t input : touched_) {
      current_.lo[static_cast<size_t>(input)] = common_.lo[static_cast<size_t>(input)];
      current_.hi[static_cast<size_t>(input)] = common_.hi[static_cast<size_t>(input)];
    }
  }

  /// Fills overrides_ and filled_; false when some input is left without a value.
  bool collect_overrides() {
    overrides_.clear();
    filled_ = 0;
    for (const int32_t input : touched_) {
      const auto i = static_cast<size_t>(input);
      const int32_t lo = current_.lo[i], hi = current_.hi[i];
      if (contradict(lo, hi)) return false;
      filled_ += static_cast<size_t>((lo != kNone && common_.lo[i] == kNone) +
                                     (hi != kNone && common_.hi[i] == kNone));
      if (lo != common_.lo[i] || hi != common_.hi[i]) overrides_.push_back({input, lo, hi});
    }
    return true;
  }

  /// Every input needs both bounds.
  void check_bounded(std::span<const int32_t> clause) const {
    if (filled_ == missing_) return;
    size_t first = inputs_, count = 0;
    for (size_t i = 0; i < inputs_; ++i) {
      if (current_.lo[i] != kNone && current_.hi[i] != kNone) continue;
      first = std::min(first, i);
      ++count;
    }
    const bool lacks_lo = current_.lo[first] == kNone, lacks_hi = current_.hi[first] == kNone;
    const std::string where =
        clause.empty() ? std::string()
                       : str(" in the disjunct of line ", source_.line(atom(clause[0]).offset));
    fail(ErrorCode::kParse, formula_.inputs[first], input_name(first), " has no ",
         lacks_lo && lacks_hi ? "bounds"
         : lacks_lo           ? "lower bound"
                              : "upper bound",
         where, count > 1 ? str(" (", count, " inputs are unbounded)") : "", "; add (assert (",
         lacks_lo ? ">=" : "<=", " ", input_name(first), " ...))");
  }

  /// The region of the box that current_ and overrides_ say, an old one if there is one.
  Region& region(std::span<const int32_t> clause) {
    uint64_t hash = 0;
    const auto mix = [&](uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    };
    for (const Override& each : overrides_) {
      mix(static_cast<uint64_t>(each.input));
      for (const Atom& bound : {atom(each.lo), atom(each.hi)}) {
        mix(std::bit_cast<uint64_t>(bound.nearest + 0.));  // -0 equals 0
        mix(uint64_t{bound.strict});
      }
    }
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto known = begin; known != end; ++known)
      if (same_box(known->second)) return property_.regions[known->second];

    if (inputs_ > limits_.bounds / (property_.regions.size() + 1))
      fail(ErrorCode::kUnsupported, clause.empty() ? 0 : atom(clause[0]).offset,
           "the boxes up to here have more than ", limits_.bounds,
           " inputs together; split the specification");
    by_hash_.emplace(hash, property_.regions.size());
    all_overrides_.insert(all_overrides_.end(), overrides_.begin(), overrides_.end());
    override_ends_.push_back(all_overrides_.size());
    property_.regions.push_back({.box = make_box(), .cases = {}});
    return property_.regions.back();
  }

  [[nodiscard]] bool same_box(size_t region) const {
    const size_t begin = region == 0 ? 0 : override_ends_[region - 1];
    const auto theirs = std::span(all_overrides_).subspan(begin, override_ends_[region] - begin);
    return std::ranges::equal(theirs, overrides_, [&](const Override& a, const Override& b) {
      const auto same = [&](int32_t one, int32_t other) {
        return compare(atom(one), atom(other)) == 0 && atom(one).strict == atom(other).strict;
      };
      return a.input == b.input && same(a.lo, b.lo) && same(a.hi, b.hi);
    });
  }

  /// The least float32 at or above the bound's decimal, and above it where it is strict.
  static float lowest(const Atom& bound, const Decimal& d) {
    return bound.strict && d.up32 == d.down32 ? std::nextafter(d.up32, kFar32) : d.up32;
  }
  static float highest(const Atom& bound, const Decimal& d) {
    return bound.strict && d.up32 == d.down32 ? std::nextafter(d.down32, -kFar32) : d.down32;
  }

  /// current_ in float32, inwards.
  [[nodiscard]] Box make_box() const {
    Box box;
    box.lo.reserve(inputs_);
    box.hi.reserve(inputs_);
    for (size_t i = 0; i < inputs_; ++i) {
      const Atom &low = atom(current_.lo[i]), &high = atom(current_.hi[i]);
      const Decimal lo = decimal(low), hi = decimal(high);
      if (lowest(low, lo) > highest(high, hi)) {
        if (compare(low, high) == 0) {
          box.nearest.push_back(static_cast<int32_t>(i));
          box.lo.push_back(lo.nearest32);
          box.hi.push_back(lo.nearest32);
          continue;
        }
        box.empty = true;
      }
      // Infinite where nothing is beyond a strict bound; the box is empty then.
      box.lo.push_back(std::min(lowest(low, lo), std::numeric_limits<float>::max()));
      box.hi.push_back(std::max(highest(high, hi), std::numeric_limits<float>::lowest()));
    }
    return box;
  }

  const Formula& formula_;
  const Source& source_;
  const Source literals_;
  const VnnlibLimits& limits_;
  size_t inputs_;
  Property property_;

  Bounds common_;                       // of formula_.common
  std::vector<LinearRow> common_rows_;  // likewise
  size_t missing_ = 0;                  // sides that common_ leaves open

  // The clause at hand.
  Bounds current_;                // common_, tightened
  std::vector<uint64_t> stamps_;  // the last clause that wrote about an input
  uint64_t stamp_ = 0;
  std::vector<int32_t> touched_;  // inputs that it writes about
  std::vector<Override> overrides_;
  size_t filled_ = 0;  // sides that common_ leaves open and it does not

  // For finding the region of a box; region i owns overrides up to override_ends_[i].
  std::unordered_multimap<uint64_t, size_t> by_hash_;
  std::vector<Override> all_overrides_;
  std::vector<size_t> override_ends_;
  size_t rows_ = 0;
};

}  // namespace

Property build_property(const Formula& formula, const Source& source, const VnnlibLimits& limits) {
  return Builder(formula, source, limits).run();
}

}  // namespace grapeshot::vnnlib
