// grapeshot/io/onnx/ops_algebra.cpp: sums of products by index letters, and determinants.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

constexpr std::string_view kEllipsis = "...";

// An equation's terms without blanks, "ij,jk->ik" as {"ij", "jk"} and "ik"; what it leaves out
// after an arrow that is not there is every letter that occurs once, in order.
struct Equation {
  std::vector<std::string> terms = {""};
  std::string result;
};

Equation parse_equation(std::string_view text) {
  Equation out;
  std::string left(text.substr(0, text.find("->")));
  std::erase_if(left, [](char c) { return c == ' '; });
  std::map<char, int> count;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] == ',') {
      out.terms.emplace_back();
    } else if (left.compare(i, kEllipsis.size(), kEllipsis) == 0) {
      out.terms.back() += kEllipsis;
      i += kEllipsis.size() - 1;
    } else {
      GRAPESHOT_CHECK(std::isalpha(static_cast<unsigned char>(left[i])), kInvalidArgument,
                      "the equation '", text, "' has a '", left[i], "'");
      out.terms.back() += left[i];
      ++count[left[i]];
    }
  }
  if (const size_t arrow = text.find("->"); arrow != std::string_view::npos) {
    out.result = text.substr(arrow + 2);
    std::erase_if(out.result, [](char c) { return c == ' '; });
    return out;
  }
  if (left.find(kEllipsis) != std::string::npos) out.result = kEllipsis;
  for (const auto& [letter, times] : count) {
    if (times == 1) out.result += letter;
  }
  return out;
}

// Whether no result on the way is too large: torch joins operands from the left, and sums over a
// letter once nothing after it names it.
void check_sizes(const Equation& equation, std::span<const Value> in) {
  std::map<char, int64_t> sizes;  // of the axes of an ellipsis together under '.'
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string& term = equation.terms[i];
    const auto letters =
        static_cast<int64_t>(std::ranges::count_if(term, [](char c) { return c != '.'; }));
    const size_t dots = term.find('.');
    GRAPESHOT_CHECK(dots == std::string::npos ? in[i].rank() == letters : in[i].rank() >= letters,
                    kInvalidArgument, "the term '", term, "' does not fit ", in[i].rank(), " axes");
    int64_t axis = 0, rest = 1;
    for (size_t k = 0; k < term.size(); ++k) {
      if (term[k] != '.') {
        sizes[term[k]] = std::max(sizes[term[k]], in[i].size(axis++));
      } else if (k == dots) {
        for (int64_t n = in[i].rank() - letters; n > 0; --n) rest *= in[i].size(axis++);
      }
    }
    sizes['.'] = std::max(sizes['.'], rest);
  }
  std::string later = equation.result;
  for (size_t i = in.size(); i-- > 1;) {
    std::string before;
    for (size_t k = 0; k <= i; ++k) before += equation.terms[k];
    std::vector<int64_t> kept;
    for (const auto& [letter, size] : sizes) {
      if (before.find(letter) != std::string::npos && later.find(letter) != std::string::npos) {
        kept.push_back(size);
      }
    }
    checked_count(kept);
    later += equation.terms[i];
  }
}

// The row axis gets a letter that the equation does not have.
Values einsum(const Call& call) {
  Equation equation = parse_equation(call.node.s("equation", ""));
  GRAPESHOT_CHECK(equation.terms.size() == call.in.size(), kInvalidArgument, "the equation has ",
                  equation.terms.size(), " terms for ", call.in.size(), " inputs");
  for (size_t i = 0; i < call.in.size(); ++i) {
    GRAPESHOT_CHECK(call.has(i), kInvalidArgument, "input ", i, " is missing");
  }
  if (call.planning) check_sizes(equation, call.in);
  const bool rows = row_count(call.in) >= 0;
  std::string joined;
  for (const std::string& term : equation.terms) joined += term;
  char row = 'A';
  while (row <= 'z' && (!std::isalpha(static_cast<unsigned char>(row)) ||
                        joined.find(row) != std::string::npos)) {
    ++row;
  }
  GRAPESHOT_CHECK(!rows || row <= 'z', kUnsupported, "the equation uses every letter");
  joined.clear();
  std::vector<at::Tensor> operands;
  for (size_t i = 0; i < equation.terms.size(); ++i) {
    joined += i == 0 ? "" : ",";
    if (call.in[i].rows) joined += row;
    joined += equation.terms[i];
    operands.push_back(call.in[i].t);
  }
  joined += "->";
  if (rows) joined += row;
  return {Value{at::einsum(joined + equation.result, operands), rows}};
}

Values determinant(const Call& call) {
  return {Value{at::det(call.in[0].t), call.in[0].rows}};
}

constexpr Operator kTable[] = {
    {"Det", 11, 1, kEveryInput, "Determinants of square matrices.", determinant},
    {"Einsum", 12, 1, kEveryInput, "Sums of products, by Einstein's convention.", einsum},
};

}  // namespace

std::span<const Operator> algebra_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
