#include "grapeshot/report/escape.h"

#include <doctest/doctest.h>

using namespace grapeshot::report;

TEST_CASE("markup: nothing that HTML or XML reads as more than text is left") {
  CHECK(markup("<a href=\"x\">&'") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  CHECK(markup("caf\xc3\xa9") == "caf\xc3\xa9");
  // Control characters, bytes that are no UTF-8, and U+FFFF.
  CHECK(markup("a\x01z") == "a\xef\xbf\xbdz");
  CHECK(markup("a\xffz") == "a\xef\xbf\xbdz");
  CHECK(markup("\xef\xbf\xbf") == "\xef\xbf\xbd");
  CHECK(markup("a\nb\tc") == "a\nb\tc");
}

TEST_CASE("markdown: text stays on its line and in its cell") {
  CHECK(markdown("a|b\nc") == "a&#124;b c");
  CHECK(markdown("<b>") == "&#60;b&#62;");
  CHECK(markdown("@someone #1").find_first_of("@") == std::string::npos);
  CHECK(markdown_code("Y_0 <= Y_1") == "`Y_0 <= Y_1`");
  CHECK(markdown_code("a`|") == "<code>a&#96;&#124;</code>");
}

TEST_CASE("script_json: no name ends the element, and the value is the same") {
  const nlohmann::ordered_json value = {{"</script><!--", "<script>"}};
  const std::string text = script_json(value);
  CHECK(text.find('<') == std::string::npos);
  CHECK(nlohmann::ordered_json::parse(text) == value);
  CHECK(script_json("\xff") == "\"\xef\xbf\xbd\"");
}

TEST_CASE("shell_word: a shell reads back what was written") {
  CHECK(shell_word("run/findings/0-a") == "run/findings/0-a");
  CHECK(shell_word("it's $(here)") == "'it'\\''s $(here)'");
  CHECK(shell_word("") == "''");
}

TEST_CASE("uri_of: bytes that a URI has no room for are escaped") {
  CHECK(uri_of("/a b/\xc3\xa9#?") == "file:///a%20b/%C3%A9%23%3F");
  CHECK(uri_of("/src/specs/a.vnnlib", "/src") == "specs/a.vnnlib");
  CHECK(uri_of("/srcs/a", "/src") == "file:///srcs/a");
}

TEST_CASE("base64: as RFC 4648 has it") {
  CHECK(base64("") == "");
  CHECK(base64("foob") == "Zm9vYg==");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(sha256_base64("abc") == "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}
