#include "grapeshot/report/escape.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <openssl/evp.h>

#include "grapeshot/base/error.h"

namespace grapeshot::report {
namespace {

using nlohmann::json;

// `text` with what is no UTF-8 replaced; nlohmann's writer has the decoder.
std::string utf8(std::string_view text) {
  const std::string quoted =
      json(std::string(text)).dump(-1, ' ', false, json::error_handler_t::replace);
  return json::parse(quoted).get<std::string>();
}

// Neither HTML nor XML 1.0 has them, not even as entities.
bool forbidden(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

std::string markup(std::string_view text) {
  std::string out;
  for (const char c : utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += forbidden(c) ? std::string(kReplacement) : std::string(1, c);
    }
  }
  // U+FFFE and U+FFFF, which XML forbids too.
  for (const char* each : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (size_t at = out.find(each); at != out.npos; at = out.find(each, at)) {
      out.replace(at, 3, kReplacement);
    }
  }
  return out;
}

std::string markdown(std::string_view text) {
  // As entities, which Markdown shows as the characters and never takes for its own.
  constexpr std::string_view kOwn = "\\`*_{}[]()#+-.!|~:@<>&\"'";
  std::string out;
  for (const char c : utf8(text)) {
    if (kOwn.find(c) != kOwn.npos) {
      out += str("&#", static_cast<int>(c), ";");
    } else if (c == '\n' || c == '\t') {
      out += ' ';
    } else {
      out += forbidden(c) ? std::string(kReplacement) : std::string(1, c);
    }
  }
  return out;
}

std::string markdown_code(std::string_view text) {
  // What would end the code or the table's cell goes by entities, which code in backticks has not.
  const auto ends = [](char c) { return c == '`' || c == '|' || c == '\n' || forbidden(c); };
  if (text.empty() || std::ranges::any_of(text, ends) || utf8(text) != text) {
    return "<code>" + markdown(text) + "</code>";
  }
  return "`" + std::string(text) + "`";
}

std::string script_json(const nlohmann::ordered_json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', false, json::error_handler_t::replace)) {
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  }
  return out;
}

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string uri_of(const std::string& path, const std::string& root) {
  const bool below = !root.empty() && path.starts_with(root + "/");
  std::string out = below ? "" : "file://";
  for (const char c : below ? path.substr(root.size() + 1) : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        std::isalnum(byte) != 0 || std::string_view("-._~/").find(c) != std::string_view::npos;
    char escaped[4];
    std::snprintf(escaped, sizeof escaped, "%%%02X", byte);
    out += plain ? std::string(1, c) : std::string(escaped);
  }
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3), '\0');  // std::string has room for the final zero
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return out;
}

std::string sha256_base64(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  GRAPESHOT_CHECK(done == 1, kSystem, "SHA-256 cannot be computed");
  return base64({reinterpret_cast<const char*>(digest), size});
}

std::string number(double value, int digits) {
  char out[40];
  std::snprintf(out, sizeof out, "%.*g", digits, value);
  return out;
}

}  // namespace grapeshot::report
