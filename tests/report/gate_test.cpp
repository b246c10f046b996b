#include "grapeshot/report/gate.h"

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"

using namespace grapeshot::report;

TEST_CASE("parse_gate: a quantity alone means more than 0, spaces do not count") {
  const auto gate = parse_gate("new, share >= 0.5");
  REQUIRE(gate.size() == 2);
  CHECK(gate[0].quantity->name == "new");
  CHECK(gate[0].comparison == ">");
  CHECK(gate[0].bound == 0.);
  CHECK(gate[1].comparison == ">=");
  CHECK(gate[1].bound == 0.5);
  for (const char* bad :
       {"", ",", "falsified=>1", "falsified>", "falsified>x", "falsified=1", ">0"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((void)parse_gate(bad), grapeshot::Error);
  }
}

TEST_CASE("failure: every quantity has a value for a run without anything") {
  const Run empty;
  for (const Quantity& each : quantities()) {
    CAPTURE(each.name);
    CHECK(each.of(empty, &empty) == 0.);
  }
}
