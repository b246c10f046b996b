#include "grapeshot/base/text.h"

#include <doctest/doctest.h>

TEST_CASE("printable: bytes that are no printable ASCII are escaped and long text is cut") {
  using grapeshot::printable;
  CHECK(printable("X_0") == "X_0");
  CHECK(printable("") == "");
  CHECK(printable(std::string_view("a\0\n\xff", 4)) == "a\\x00\\x0a\\xff");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
}

TEST_CASE("split_at: empty parts go, the others keep their order") {
  using grapeshot::split_at;
  using Parts = std::vector<std::string_view>;
  CHECK(split_at(',', "a,bc,d") == Parts{"a", "bc", "d"});
  CHECK(split_at(',', ",a,,b,") == Parts{"a", "b"});
  CHECK(split_at(',', "") == Parts{});
  CHECK(split_at(';', "a,b") == Parts{"a,b"});
}
