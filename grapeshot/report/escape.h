// grapeshot/report/escape.h: untrusted text inside HTML, XML, Markdown, JSON in HTML, Python,
// shell.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace grapeshot::report {

/// For text and for quoted attributes of HTML and XML: & < > " ' as entities, control characters
/// that neither allows and bytes that are no UTF-8 as U+FFFD.
[[nodiscard]] std::string markup(std::string_view text);

/// For a line of GitHub's Markdown, also within a table: nothing of `text` is markup, a link or a
/// mention, and it stays on one line.
[[nodiscard]] std::string markdown(std::string_view text);
/// The same as code, which people can read before it is rendered too.
[[nodiscard]] std::string markdown_code(std::string_view text);

/// For the content of <script type="application/json">: no < in it, so that nothing ends the
/// element.
[[nodiscard]] std::string script_json(const nlohmann::ordered_json& value);

/// A word of a POSIX shell, in quotes where it needs them.
[[nodiscard]] std::string shell_word(const std::string& text);

/// A URI reference of an absolute path ("file:///a%20b"), or of one below `root` relative to it.
[[nodiscard]] std::string uri_of(const std::string& path, const std::string& root = {});

/// Base64 of `bytes`, and their SHA-256 in base64, as Content-Security-Policy has it.
[[nodiscard]] std::string base64(std::string_view bytes);
[[nodiscard]] std::string sha256_base64(std::string_view bytes);

/// `value` with `digits` significant ones: "0.0524", "1.2e+09".
[[nodiscard]] std::string number(double value, int digits = 4);

}  // namespace grapeshot::report
