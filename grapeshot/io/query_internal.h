// grapeshot/io/query_internal.h: tokens, types and exact polynomials of VNN-LIB 2.0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gmpxx.h>

#include "grapeshot/base/error.h"
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

/// A walk over the tokens of a text, and what is wrong with them.
class Cursor {
 public:
  explicit Cursor(const vnnlib::Source& source);

  [[nodiscard]] const vnnlib::Source& source() const { return source_; }
  [[nodiscard]] const Token& token() const { return token_; }
  /// A token other than ')' that touches the end of the text is not judged: it may be half of one.
  Token take();
  Token take(TokenKind kind, std::string_view expected) {
    if (token_.kind != kind) fail_as(expected);
    return take();
  }
  void expect(std::string_view text) {
    if (token_.text != text) fail_as(str("'", text, "'"));
    take();
  }
  bool accept(std::string_view text) {
    if (token_.text != text) return false;
    take();
    return true;
  }

  template <class... Parts>
  [[noreturn]] void fail(ErrorCode code, size_t offset, const Parts&... parts) const {
    throw Error(code, str(source_.at(offset), ": ", parts...));
  }
  /// That `expected` does not come next.
  [[noreturn]] void fail_as(std::string_view expected) const;

  /// What the grammar allows and the reader does not: said by throw_refusal(), when nothing else is
  /// wrong.
  template <class... Parts>
  void refuse(size_t offset, const Parts&... parts) {
    if (!refused_)
      refused_.emplace(ErrorCode::kUnsupported, str(source_.at(offset), ": ", parts...));
  }
  void throw_refusal() const {
    if (refused_) throw Error(*refused_);
  }

  /// The value of a number token that should be a whole one from 0, where the grammar also takes
  /// signs and fractions; those are refused, and are `otherwise`.
  int64_t whole(const Token& number, int64_t otherwise, std::string_view what);

 private:
  const vnnlib::Source& source_;
  Token token_;
  std::optional<Error> refused_;
};

/// The first part of a query.
struct Declarations {
  std::vector<Network> networks;
  std::vector<Variable> variables;
  int64_t inputs = 0, outputs = 0;  ///< elements; outputs with the hidden tensors
  std::unordered_map<std::string_view, size_t> index;  ///< of the variables
};

/// The version and all networks.
[[nodiscard]] Declarations read_declarations(Cursor& cursor);

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
