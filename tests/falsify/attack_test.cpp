#include "grapeshot/falsify/attack.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)
using falsify::Attack;

TEST_CASE("attacks: every row has a name of its own, a sentence, a round and a prior") {
  std::set<std::string> names;
  for (const Attack& attack : falsify::attacks()) {
    CAPTURE(std::string(attack.name));
    CHECK(names.insert(std::string(attack.name)).second);
    CHECK(attack.summary.ends_with('.'));
    CHECK((attack.round != nullptr));
    CHECK((attack.prior != nullptr));
  }
  CHECK(names.size() >= 20);
}

TEST_CASE("parse_attacks: all, names in order, unknown ones with what there is") {
  CHECK(falsify::parse_attacks("all").size() == falsify::attacks().size());
  const auto two = falsify::parse_attacks("grid,polish");
  REQUIRE(two.size() == 2);
  CHECK(two[0]->name == "grid");
  CHECK(two[1]->name == "polish");
  CHECK_THROWS_WITH_AS((void)falsify::parse_attacks("gird"),
                       doctest::Contains("no attack is called 'gird'; known: centre"), Error);
  CHECK_THROWS_WITH_AS((void)falsify::parse_attacks(","), "--attacks names no attack", Error);
}
