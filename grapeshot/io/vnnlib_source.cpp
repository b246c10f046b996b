// grapeshot/io/vnnlib_source.cpp: what the readers of both versions share: places in a text,
// clauses.
#include <algorithm>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/vnnlib_internal.h"

namespace grapeshot::vnnlib {
namespace {

bool ends_word(char c) {
  return is_blank(c) || c == '(' || c == ')' || c == ';';
}

}  // namespace

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

int64_t Source::line(size_t offset) const {
  return 1 + std::ranges::count(text.substr(0, offset), '\n');
}

std::string Source::at(size_t offset) const {
  const std::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return str(path, ":", line(offset), ":", column);
}

std::string_view Source::word(size_t offset) const {
  size_t end = offset;
  while (end < text.size() && !ends_word(text[end])) ++end;
  return text.substr(offset, end - offset);
}

void append(Clauses& to, const Clauses& from) {
  const size_t shift = to.atoms.size();
  to.atoms.insert(to.atoms.end(), from.atoms.begin(), from.atoms.end());
  for (const size_t end : from.ends) to.ends.push_back(shift + end);
}

void check_size(size_t cases, size_t references, const VnnlibLimits& limits, const Source& source,
                size_t offset) {
  GRAPESHOT_CHECK(cases <= limits.cases && references <= limits.relations, kUnsupported,
                  source.at(offset), ": the disjunctions up to here make more than ", limits.cases,
                  " cases or ", limits.relations, " relations in them; split the specification");
}

Clauses product(const Clauses& a, Clauses b, const VnnlibLimits& limits, const Source& source,
                size_t offset) {
  if (a.size() == 1 && a.atoms.empty()) return b;
  if (b.size() == 1 && b.atoms.empty()) return a;
  check_size(a.size() * b.size(), a.size() * b.atoms.size() + b.size() * a.atoms.size(), limits,
             source, offset);
  Clauses out;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      out.atoms.insert(out.atoms.end(), a[i].begin(), a[i].end());
      out.atoms.insert(out.atoms.end(), b[j].begin(), b[j].end());
      out.ends.push_back(out.atoms.size());
    }
  }
  return out;
}

}  // namespace grapeshot::vnnlib
