// grapeshot/io/properties/kinds_temporal.cpp: formulas over a sequence of outputs.
//
// What violates a formula is put into disjunctive normal form over single outputs, so that the
// network stays as it is. Steps are counted from 0; the outputs are [steps, signals].
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "grapeshot/io/properties/kinds.h"

namespace grapeshot::properties {
namespace {

constexpr int kMostDeep = 32;
constexpr size_t kMostRows = 6;  // in a text
constexpr size_t kMostRowsOfAll = size_t{1} << 18;
constexpr size_t kMostRemembered = size_t{1} << 21;

using Cases = std::vector<Case>;

struct Formula {
  enum Op { kAbove, kBelow, kChange, kAnd, kOr, kNot, kAlways, kEventually, kUntil } op = kAnd;
  int64_t signal = 0;
  double number = 0.;
  std::vector<Formula> parts;
  bool windowed = false;       // 'steps' is there
  int64_t begin = 0, end = 0;  // of it, from the present step
  int64_t horizon = 0;         // steps that it looks ahead, at least
};

class Parser {
 public:
  Parser(int64_t steps, int64_t signals) : steps_(steps), signals_(signals) {}

  [[nodiscard]] Formula parse(const Field& field, int depth = 0) const {
    if (depth > kMostDeep) field.refuse("formulas are nested more than ", kMostDeep, " deep");
    using Read = Formula (Parser::*)(const Field& field, int depth) const;
    constexpr std::pair<const char*, Read> kForms[] = {
        {"above", &Parser::above_or_below}, {"below", &Parser::above_or_below},
        {"within", &Parser::within},        {"change", &Parser::change},
        {"and", &Parser::connective},       {"or", &Parser::connective},
        {"not", &Parser::negation},         {"if", &Parser::implication},
        {"always", &Parser::over_steps},    {"eventually", &Parser::over_steps},
        {"until", &Parser::until}};
    Read found = nullptr;
    std::string names;
    for (const auto& [name, read] : kForms) {
      names += str(names.empty() ? "" : ", ", name);
      if (!field.value().is_object() || !field.has(name)) continue;
      if (found) field.fail("must be about one thing, not several: nest them in 'and' or 'or'");
      found = read;
    }
    if (!found) field.fail("must be an object with one of ", names);
    return (this->*found)(field, depth);
  }

 private:
  [[nodiscard]] int64_t signal(const Field& field) const {
    if (field.has("signal")) return field.at("signal").integer(0, signals_ - 1);
    if (signals_ > 1) field.fail("lacks 'signal', which of the ", signals_, " of a step");
    return 0;
  }

  [[nodiscard]] Formula atom(Formula::Op op, const Field& field, double number) const {
    Formula out;
    out.op = op;
    out.signal = signal(field);
    out.number = number;
    out.horizon = op == Formula::kChange ? 1 : 0;
    return out;
  }

  [[nodiscard]] Formula above_or_below(const Field& field, int) const {
    const bool up = field.has("above");
    field.check_keys({up ? "above" : "below", "signal"});
    return atom(up ? Formula::kAbove : Formula::kBelow, field,
                field.at(up ? "above" : "below").number());
  }

  [[nodiscard]] Formula within(const Field& field, int) const {
    field.check_keys({"within", "signal"});
    const std::vector<double> ends = field.at("within").numbers(2);
    if (ends[0] > ends[1]) field.at("within").fail("must be [lo, hi]");
    Formula out;
    out.parts = {atom(Formula::kAbove, field, ends[0]), atom(Formula::kBelow, field, ends[1])};
    return out;
  }

  [[nodiscard]] Formula change(const Field& field, int) const {
    field.check_keys({"change", "signal"});
    return atom(Formula::kChange, field, field.at("change").number_from(0.));
  }

  static Formula joined(Formula::Op op, std::vector<Formula> parts) {
    Formula out;
    out.op = op;
    for (const Formula& part : parts) out.horizon = std::max(out.horizon, part.horizon);
    out.parts = std::move(parts);
    return out;
  }

  [[nodiscard]] Formula connective(const Field& field, int depth) const {
    const char* key = field.has("and") ? "and" : "or";
    field.check_keys({key});
    std::vector<Formula> parts;
    for (const Field& each : field.at(key).entries()) parts.push_back(parse(each, depth + 1));
    if (parts.empty()) field.fail("'", key, "' joins no formula");
    return joined(field.has("and") ? Formula::kAnd : Formula::kOr, std::move(parts));
  }

  [[nodiscard]] Formula negation(const Field& field, int depth) const {
    field.check_keys({"not"});
    return joined(Formula::kNot, {parse(field.at("not"), depth + 1)});
  }

  [[nodiscard]] Formula implication(const Field& field, int depth) const {
    field.check_keys({"if", "then"});
    Formula premise = joined(Formula::kNot, {parse(field.at("if"), depth + 1)});
    return joined(Formula::kOr, {std::move(premise), parse(field.at("then"), depth + 1)});
  }

  void read_window(const Field& field, Formula& out) const {
    if (field.has("steps")) {
      const std::vector<Field> ends = field.at("steps").entries();
      if (ends.size() != 2) field.at("steps").fail("must be [first, last]");
      out.windowed = true;
      out.begin = ends[0].integer(0, steps_ - 1);
      out.end = ends[1].integer(out.begin, steps_ - 1);
    }
    out.horizon += out.end;
  }

  [[nodiscard]] Formula over_steps(const Field& field, int depth) const {
    const char* key = field.has("always") ? "always" : "eventually";
    field.check_keys({key, "steps"});
    Formula out = joined(field.has("always") ? Formula::kAlways : Formula::kEventually,
                         {parse(field.at(key), depth + 1)});
    read_window(field, out);
    return out;
  }

  [[nodiscard]] Formula until(const Field& field, int depth) const {
    field.check_keys({"until", "steps"});
    const std::vector<Field> parts = field.at("until").entries();
    if (parts.size() != 2) field.at("until").fail("must be [what holds, until what]");
    Formula out = joined(Formula::kUntil, {parse(parts[0], depth + 1), parse(parts[1], depth + 1)});
    read_window(field, out);
    return out;
  }

  int64_t steps_, signals_;
};

bool same_terms(const LinearRow& a, const LinearRow& b) {
  return std::ranges::equal(a.terms, b.terms, [](const Term& s, const Term& t) {
    return s.output == t.output && s.coefficient == t.coefficient;
  });
}

// By outputs, then by direction: a row's opposite stands beside it.
bool before(const LinearRow& a, const LinearRow& b) {
  const auto key = [](const LinearRow& row) {
    return std::tuple(row.terms[0].output, row.terms.size() > 1 ? row.terms[1].output : -1,
                      row.terms[0].coefficient, row.bound);
  };
  return key(a) < key(b);
}

// One row of each direction, the tightest, in a fixed order; false when none can hold together.
bool tidy(Case& c) {
  std::ranges::sort(c.rows, before);
  const auto again = std::ranges::unique(c.rows, same_terms);
  c.rows.erase(again.begin(), again.end());
  for (size_t i = 0; i + 1 < c.rows.size(); ++i) {
    const LinearRow &a = c.rows[i], &b = c.rows[i + 1];
    const bool opposite = a.terms.size() == b.terms.size() &&
                          a.terms[0].output == b.terms[0].output &&
                          a.terms.back().output == b.terms.back().output;
    if (opposite && a.bound + b.bound < 0.) return false;
  }
  return true;
}

// Whether `a` holds wherever `b` does: each of its rows is one of b's, or looser. Both are tidy.
bool covers(const Case& a, const Case& b) {
  auto other = b.rows.begin();
  for (const LinearRow& row : a.rows) {
    while (other != b.rows.end() && !same_terms(*other, row) && before(*other, row)) ++other;
    if (other == b.rows.end() || !same_terms(*other, row) || other->bound > row.bound) return false;
  }
  return true;
}

// Without cases that cannot hold or that another one covers.
Cases reduced(Cases cases) {
  constexpr size_t kMostCompared = 128;
  std::erase_if(cases, [](Case& c) { return !tidy(c); });
  // Short ones cover long ones.
  std::ranges::stable_sort(cases, {}, [](const Case& c) { return c.rows.size(); });
  Cases out;
  for (Case& each : cases) {
    const size_t compared = std::min(out.size(), kMostCompared);
    const bool covered = std::any_of(out.begin(), out.begin() + static_cast<int64_t>(compared),
                                     [&](const Case& c) { return covers(c, each); });
    if (!covered) out.push_back(std::move(each));
  }
  return out;
}

// When a formula holds at a step, or does not, as cases.
class Normalizer {
 public:
  Normalizer(const Field& place, int64_t steps, int64_t signals)
      : place_(place), steps_(steps), signals_(signals) {}

  // A part is asked about a step once: windows of windows meet the same steps again and again.
  [[nodiscard]] const Cases& run(const Formula& f, int64_t t, bool holds) {
    const auto key = std::tuple(&f, t, holds);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    Cases out = compute(f, t, holds);
    remembered_ += rows_of(out);
    if (remembered_ > kMostRemembered) {
      place_.refuse("its parts multiply to more than ", kMostRemembered, " conditions");
    }
    return known_[key] = std::move(out);
  }

 private:
  [[nodiscard]] Cases compute(const Formula& f, int64_t t, bool holds) {
    switch (f.op) {
      case Formula::kAbove:
        return {{{holds ? at_least(output(f, t), f.number) : below(output(f, t), f.number)}}};
      case Formula::kBelow:
        return {{{holds ? at_most(output(f, t), f.number) : above(output(f, t), f.number)}}};
      case Formula::kChange:
        return change(f, t, holds);
      case Formula::kNot:
        return run(f.parts[0], t, !holds);
      case Formula::kAnd:
      case Formula::kOr: {
        Cases out;
        bool first = true;
        for (const Formula& part : f.parts) {
          join(out, run(part, t, holds), (f.op == Formula::kAnd) == holds, first);
        }
        return finished(std::move(out));
      }
      case Formula::kAlways:
      case Formula::kEventually: {
        Cases out;
        bool first = true;
        for (int64_t s = t + f.begin; s <= last(f, t); ++s) {
          join(out, run(f.parts[0], s, holds), (f.op == Formula::kAlways) == holds, first);
        }
        return finished(std::move(out));
      }
      case Formula::kUntil:
        return until(f, t, holds);
    }
    return {};
  }

  [[nodiscard]] int64_t output(const Formula& f, int64_t t) const {
    return t * signals_ + f.signal;
  }

  // Without 'steps' as far as there are outputs to look at.
  [[nodiscard]] int64_t last(const Formula& f, int64_t t) const {
    return f.windowed ? t + f.end : steps_ - 1 - f.horizon;
  }

  [[nodiscard]] Cases change(const Formula& f, int64_t t, bool holds) const {
    const auto a = static_cast<int32_t>(output(f, t)), b = static_cast<int32_t>(output(f, t + 1));
    constexpr double kFar = std::numeric_limits<double>::infinity();
    const LinearRow rise{{{a, -1.}, {b, 1.}}, f.number}, fall{{{a, 1.}, {b, -1.}}, f.number};
    if (holds) return {{{rise, fall}}};
    const double beyond = std::nextafter(-f.number, -kFar);
    return {{{{{{a, 1.}, {b, -1.}}, beyond}}}, {{{{{a, -1.}, {b, 1.}}, beyond}}}};
  }

  // The second at some step, the first at all before: or for each step the second fails there or
  // the first did before.
  [[nodiscard]] Cases until(const Formula& f, int64_t t, bool holds) {
    Cases out;
    bool first = true;
    for (int64_t s = t + f.begin; s <= last(f, t); ++s) {
      Cases here;
      bool none = true;
      join(here, run(f.parts[1], s, holds), holds, none);
      for (int64_t before = t; before < s; ++before) {
        join(here, run(f.parts[0], before, holds), holds, none);
      }
      join(out, finished(std::move(here)), !holds, first);
    }
    return finished(std::move(out));
  }

  // Both (conjunction) or either.
  void join(Cases& out, Cases more, bool both, bool& first) const {
    const bool alone = std::exchange(first, false);
    const size_t count = alone || !both ? out.size() + more.size() : out.size() * more.size();
    const size_t rows = alone || !both ? rows_of(out) + rows_of(more)
                                       : rows_of(out) * more.size() + rows_of(more) * out.size();
    if (static_cast<int64_t>(count) > 4 * kMostCases || rows > kMostRowsOfAll) {
      refuse(count, rows);
    }
    if (alone || !both) {
      std::ranges::move(more, std::back_inserter(out));
      return;
    }
    Cases product;
    for (const Case& a : out) {
      for (const Case& b : more) {
        product.push_back(a);
        product.back().rows.insert(product.back().rows.end(), b.rows.begin(), b.rows.end());
      }
    }
    out = finished(std::move(product));
  }

  [[nodiscard]] Cases finished(Cases cases) const {
    cases = reduced(std::move(cases));
    if (std::ssize(cases) > kMostCases) refuse(cases.size(), rows_of(cases));
    return cases;
  }

  [[noreturn]] void refuse(size_t count, size_t rows) const {
    place_.refuse("multiplies to ", count, " or more ways to be violated with ", rows,
                  " conditions, at most ", kMostCases, " and ", kMostRowsOfAll, " are taken");
  }

  static size_t rows_of(const Cases& cases) {
    size_t out = 0;
    for (const Case& each : cases) out += each.rows.size();
    return out;
  }

  const Field& place_;
  int64_t steps_, signals_;
  std::map<std::tuple<const Formula*, int64_t, bool>, Cases> known_;
  size_t remembered_ = 0;  // conditions in known_
};

// "step 2 is 0.93, above 0.9".
std::string say(const LinearRow& row, std::span<const double> y, int64_t signals) {
  const auto name = [&](int64_t output) {
    const std::string step = str("step ", output / signals);
    return signals > 1 ? str(step, " of signal ", output % signals) : step;
  };
  const int64_t a = row.terms[0].output;
  const double value = y[static_cast<size_t>(a)];
  if (row.terms.size() == 1) {
    const bool most = row.terms[0].coefficient > 0.;
    return str(name(a), " is ", brief(value), most ? ", below " : ", above ",
               brief(most ? row.bound : -row.bound));
  }
  const int64_t b = row.terms[1].output;
  return str(name(a), " to ", name(b), " is ", brief(value), " to ",
             brief(y[static_cast<size_t>(b)]));
}

}  // namespace

Specification compile_temporal(const Reader& reader) {
  reader.check_keys({"steps", "formula"});
  const int64_t outputs = reader.subject().outputs;
  const Field steps_field = reader.file().at("steps");
  const int64_t steps = steps_field.integer(1, outputs), signals = outputs / steps;
  if (signals * steps != outputs) {
    steps_field.fail("does not divide the network's ", outputs, " outputs");
  }
  const Field field = reader.file().at("formula");
  const Formula formula = Parser(steps, signals).parse(field);
  if (formula.horizon >= steps) {
    field.fail("looks ", formula.horizon, " steps ahead, the outputs have ", steps);
  }
  Cases cases = Normalizer(field, steps, signals).run(formula, 0, false);
  if (cases.empty()) field.fail("can never be violated");
  auto [boxes, rows] = reader.plain_boxes();
  Specification out;
  out.property = reader.property(std::move(boxes), rows, cases, outputs);
  out.words = [rows = std::move(rows), cases, signals](
                  std::span<const float>, std::span<const double> y, const Verdict& verdict) {
    std::string text = whose(rows, verdict) + ":";
    if (verdict.case_index < 0) return text + " outside of every box";
    const Case& violated = cases[static_cast<size_t>(verdict.case_index)];
    for (size_t i = 0; i < violated.rows.size() && i < kMostRows; ++i) {
      text += str(i == 0 ? " " : "; ", say(violated.rows[i], y, signals));
    }
    const size_t left = violated.rows.size() - std::min(violated.rows.size(), kMostRows);
    return left > 0 ? str(text, "; and ", left, " more") : text;
  };
  return out;
}

}  // namespace grapeshot::properties
