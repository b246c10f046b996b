// grapeshot/io/query.cpp: what a query says of its variables and values.
#include "grapeshot/io/query.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "grapeshot/base/decimal.h"
#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/query_internal.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::query {
namespace {

/// A value that float32 keeps the sign of.
double signed_value(const mpq_class& value) {
  const auto narrow = static_cast<double>(static_cast<float>(value.get_d()));
  if (narrow != 0. || sgn(value) == 0) return narrow;
  return sgn(value) * static_cast<double>(std::numeric_limits<float>::denorm_min());
}

}  // namespace

mpq_class rational(std::string_view number) {
  const size_t dot = number.find('.');
  if (dot == std::string_view::npos) return mpq_class(std::string(number), 10);
  const std::string digits(str(number.substr(0, dot), number.substr(dot + 1)));
  const size_t places = number.size() - dot - 1;
  mpq_class out(str(digits, "/1", std::string(places, '0')), 10);
  out.canonicalize();
  return out;
}

bool Query::plain() const {
  const bool joins =
      networks.size() > 1 || !extras.empty() || property.inputs != std::ssize(place) ||
      std::ranges::any_of(variables,
                          [](const Variable& each) { return each.role == Role::kHidden; });
  return !joins;
}

std::string Query::element(const Variable& variable, int64_t index) const {
  if (variable.shape.empty()) return variable.name;
  std::vector<std::string> places;
  for (size_t i = variable.shape.size(); i-- > 0;) {
    places.push_back(std::to_string(index % variable.shape[i]));
    index /= variable.shape[i];
  }
  std::string out = variable.name + "[";
  for (size_t i = places.size(); i-- > 0;) out += places[i] + (i > 0 ? "," : "]");
  return out;
}

std::string Query::input_name(int64_t input) const {
  const auto at = std::ranges::find(place, static_cast<int32_t>(input)) - place.begin();
  for (const Variable& each : variables) {
    if (each.role == Role::kInput && at >= each.begin && at < each.begin + each.size) {
      return element(each, at - each.begin);
    }
  }
  return str("X_", input);
}

std::string Query::output_name(int64_t output) const {
  for (const Variable& each : variables) {
    if (each.role != Role::kInput && output >= each.begin && output < each.begin + each.size) {
      return element(each, output - each.begin);
    }
  }
  return str("Y_", output);
}

std::vector<double> Query::values(const Variable& variable, std::span<const float> x,
                                  std::span<const double> y) const {
  std::vector<double> out;
  for (int64_t i = variable.begin; i < variable.begin + variable.size; ++i) {
    const auto at = static_cast<size_t>(i);
    out.push_back(variable.role == Role::kInput
                      ? static_cast<double>(x[static_cast<size_t>(place[at])])
                      : y[at]);
  }
  return out;
}

std::string Query::describe(const Case& violated) const {
  constexpr size_t kMostRows = 3;
  std::string out;
  for (size_t r = 0; r < violated.rows.size() && r < kMostRows; ++r) {
    const auto& [terms, bound] = violated.rows[r];
    const bool strict = bound == -std::numeric_limits<double>::denorm_min();
    out += r == 0 ? "" : " and ";
    if (terms[0].output >= base_outputs) {
      const std::string& text = extras[static_cast<size_t>(terms[0].output - base_outputs)].text;
      // One relation may be two rows.
      out = r > 0 && out.ends_with(text + " and ") ? out.substr(0, out.size() - 5) : out + text;
    } else if (terms.size() == 2) {
      const bool first = terms[0].coefficient > 0.;
      out += str(output_name(terms[first ? 0 : 1].output),
                 strict ? " < " : " <= ", output_name(terms[first ? 1 : 0].output));
    } else {
      const double sign = terms[0].coefficient;
      out += str(output_name(terms[0].output),
                 sign > 0. ? " <= " : " >= ", shortest_decimal(sign * bound));
    }
  }
  if (violated.rows.size() > kMostRows)
    out += str(" and ", violated.rows.size() - kMostRows, " more");
  return out;
}

void settle_extras(const Query& query, std::span<const double> x, std::span<double> y) {
  GRAPESHOT_CHECK(std::ssize(x) == query.property.inputs && std::ssize(y) == query.property.outputs,
                  kInternal, "a query of ", query.property.inputs, " inputs and ",
                  query.property.outputs, " outputs has got ", x.size(), " and ", y.size());
  const auto base = static_cast<size_t>(query.base_outputs);
  const auto value = [&](int32_t factor) {
    const auto i = static_cast<size_t>(factor);
    return i < x.size() ? x[i] : y[i - x.size()];
  };
  for (size_t k = 0; k < query.exact->extras.size(); ++k) {
    mpq_class sum = 0;
    bool finite = true;
    for (const auto& [factors, coefficient] : query.exact->extras[k]) {
      mpq_class term = coefficient;
      for (const int32_t factor : factors) {
        const double v = value(factor);
        finite = finite && std::isfinite(v);
        if (finite) term *= mpq_class(v);
      }
      sum += term;
    }
    y[base + k] = finite ? signed_value(sum) : std::numeric_limits<double>::quiet_NaN();
  }
}

std::string write_assignment(const Query& query, std::span<const float> x,
                             std::span<const double> y) {
  std::string out;
  for (const Variable& each : query.variables) {
    out += str(each.name, " ", each.type, " [");
    for (size_t i = 0; i < each.shape.size(); ++i) out += str(i > 0 ? "," : "", each.shape[i]);
    out += "]\n";
    for (const double value : query.values(each, x, y)) out += shortest_decimal(value) + "\n";
  }
  return out;
}

}  // namespace grapeshot::query
