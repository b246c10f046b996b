// grapeshot/io/query_internal.h: tokens, types and exact polynomials of VNN-LIB 2.0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gmpxx.h>

#include "grapeshot/io/query.h"
#include "grapeshot/io/vnnlib_internal.h"

namespace grapeshot::query {

enum class TokenKind : uint8_t {
  kEnd,
  kPunctuation,  ///< one of ( ) [ ] , + - *
  kOpening,      ///< "(assert", "(declare-input", ...: one token, no blank between
  kRelation,     ///< <= >= < > == !=
  kConnective,   ///< and, or
  kNumber,
  kName,
  kString,   ///< with its quotes
  kVersion,  ///< "<2.0>"
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  size_t offset = 0;
};

/// The longest token at `offset`, behind blanks and comments. Throws kParse for a character that
/// begins none and for numbers with an exponent.
[[nodiscard]] Token scan(const vnnlib::Source& source, size_t offset);

/// Element types as the standard groups them: what constants an expression may have with them.
enum class Family : uint8_t { kUnknown, kFloat, kSigned, kUnsigned, kOther };
[[nodiscard]] Family family_of(std::string_view type);

/// Coefficients by ascending factors, none of them 0.
using Terms = std::map<std::vector<int32_t>, mpq_class>;

struct Exact {
  std::vector<Terms> extras;
};

/// The value of a number token.
[[nodiscard]] mpq_class rational(std::string_view number);

}  // namespace grapeshot::query
