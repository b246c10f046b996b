// grapeshot/io/query_declare.cpp: the version, the networks and the variables of VNN-LIB 2.0.
#include <algorithm>
#include <utility>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/query_internal.h"

namespace grapeshot::query {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 27;  // of all variables together

class Reader {
 public:
  explicit Reader(Cursor& cursor) : cursor_(cursor) {}

  Declarations run() {
    version();
    do network();
    while (cursor_.token().text == "(declare-network");
    return std::move(out_);
  }

 private:
  void version() {
    if (cursor_.token().text != "(vnnlib-version") cursor_.fail_as("(vnnlib-version <2.0>)");
    cursor_.take();
    const Token version = cursor_.take(TokenKind::kVersion, "a version such as <2.0>");
    if (!version.text.starts_with("<2.") || version.text.size() > 12)
      cursor_.fail(ErrorCode::kParse, version.offset, "is of version ", version.text,
                   "; this reads versions 1.0 and 2.0 of VNN-LIB");
    cursor_.expect(")");
  }

  void network() {
    if (cursor_.token().text != "(declare-network") cursor_.fail_as("(declare-network ...)");
    cursor_.take();
    const Token name = cursor_.take(TokenKind::kName, "the network's name");
    Network& own = out_.networks.emplace_back();
    own.name = name.text;
    if (!network_index_.emplace(name.text, out_.networks.size() - 1).second)
      cursor_.refuse(name.offset, "a network is called ", name.text, " already");
    std::vector<Token> targets;
    while (cursor_.token().text == "(equal-to" || cursor_.token().text == "(isomorphic-to") {
      const Link link = cursor_.take().text == "(equal-to" ? Link::kEqualTo : Link::kIsomorphicTo;
      if (own.link != Link::kNone)
        cursor_.refuse(cursor_.token().offset, "the network ", own.name,
                       " is linked to another one already");
      out_.networks.back().link = link;
      targets.push_back(cursor_.take(TokenKind::kName, "the name of a network"));
      cursor_.expect(")");
    }
    if (cursor_.token().text != "(declare-input") cursor_.fail_as("(declare-input ...)");
    while (cursor_.token().text == "(declare-input") variable(Role::kInput);
    while (cursor_.token().text == "(declare-hidden") variable(Role::kHidden);
    if (cursor_.token().text != "(declare-output")
      cursor_.fail_as("(declare-output ...) behind all inputs and hidden tensors");
    while (cursor_.token().text == "(declare-output") variable(Role::kOutput);
    cursor_.expect(")");
    for (const Token& target : targets) link(target);
  }

  void link(const Token& target) {
    const size_t own = out_.networks.size() - 1;
    const auto known = network_index_.find(target.text);
    if (known == network_index_.end())
      cursor_.fail(ErrorCode::kParse, target.offset, "no network above is called ", target.text);
    if (out_.networks[known->second].link != Link::kNone)
      cursor_.fail(ErrorCode::kParse, target.offset, "the network ", target.text,
                   " is linked to another one itself, or is this one; link to that one");
    out_.networks[own].target = known->second;
    const auto ports = [&](size_t network) {
      std::vector<const Variable*> out;
      for (const Variable& each : out_.variables)
        if (each.network == network && each.role != Role::kHidden) out.push_back(&each);
      return out;
    };
    const auto same = [](const Variable* a, const Variable* b) {
      return a->role == b->role && a->type == b->type && a->shape == b->shape;
    };
    if (!std::ranges::equal(ports(own), ports(known->second), same))
      cursor_.fail(ErrorCode::kParse, target.offset,
                   "the inputs and outputs differ in number, type or "
                   "shape from those of ",
                   target.text);
  }

  void variable(Role role) {
    cursor_.take();
    const Token name = cursor_.take(TokenKind::kName, "the variable's name");
    const Token type = cursor_.take(TokenKind::kName, "an element type such as float32");
    Variable made{.name = std::string(name.text),
                  .type = std::string(type.text),
                  .role = role,
                  .network = out_.networks.size() - 1,
                  .shape = {},
                  .offset = name.offset};
    if (type.text != "float32" && type.text != "real" && type.text != "Real")
      cursor_.refuse(type.offset, "the element type '", printable(type.text),
                     "' is not supported; declare float32, or real");
    cursor_.expect("[");
    if (!cursor_.accept("]")) {
      do made.shape.push_back(dimension());
      while (cursor_.accept(","));
      cursor_.expect("]");
    }
    for (const int64_t size : made.shape) {
      if (size > kMostElements || made.size > kMostElements / size) {
        cursor_.refuse(name.offset, name.text, " has more than ", kMostElements, " elements");
        made.size = 1;
        break;
      }
      made.size *= size;
    }
    if (role == Role::kHidden)
      made.tensor = unquoted(cursor_.take(TokenKind::kString, "the tensor's name"));
    cursor_.expect(")");
    int64_t& count = role == Role::kInput ? out_.inputs : out_.outputs;
    made.begin = std::exchange(count, count + made.size);
    if (out_.inputs + out_.outputs > kMostElements)
      cursor_.fail(ErrorCode::kUnsupported, name.offset, "the variables up to here have more than ",
                   kMostElements, " elements together");
    if (!out_.index.emplace(name.text, out_.variables.size()).second)
      cursor_.fail(ErrorCode::kParse, name.offset, name.text, " is declared already");
    out_.variables.push_back(std::move(made));
  }

  int64_t dimension() {
    const Token number = cursor_.take(TokenKind::kNumber, "a size");
    const int64_t value = cursor_.whole(number, 1, "size");
    const bool negative = number.text.starts_with('-');
    if (value < 1 || negative)
      cursor_.fail(ErrorCode::kParse, number.offset, "a size must be at least 1, found ",
                   number.text);
    return value;
  }

  static std::string unquoted(const Token& token) {
    std::string out;
    const std::string_view text = token.text.substr(1, token.text.size() - 2);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      ++i;
      out += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    }
    return out;
  }

  Cursor& cursor_;
  Declarations out_;
  std::unordered_map<std::string_view, size_t> network_index_;
};

}  // namespace

Declarations read_declarations(Cursor& cursor) {
  return Reader(cursor).run();
}

}  // namespace grapeshot::query
