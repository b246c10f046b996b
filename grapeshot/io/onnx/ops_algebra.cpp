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

// The row axis gets a letter that the equation does not have.
Values einsum(const Call& call) {
  Equation equation = parse_equation(call.node.s("equation", ""));
  GRAPESHOT_CHECK(equation.terms.size() == call.in.size(), kInvalidArgument, "the equation has ",
                  equation.terms.size(), " terms for ", call.in.size(), " inputs");
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
    GRAPESHOT_CHECK(call.has(i), kInvalidArgument, "input ", i, " is missing");
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
