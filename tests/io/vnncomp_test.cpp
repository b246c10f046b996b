#include "grapeshot/io/vnncomp.h"

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

TEST_CASE("parse_expected: columns by name, in any order") {
  const auto rows = parse_expected(
      "vnnlib,onnx,extra,verdict,best_time_s,best_tool\r\nv/p.vnnlib,o/n.onnx,,sat,1.5,abc\r\n\n"
      "v/q.vnnlib,o/n.onnx,,unknown,,\n",
      "e.csv");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].model == "o/n.onnx");
  CHECK(rows[0].spec == "v/p.vnnlib");
  CHECK(rows[0].verdict == "sat");
  CHECK(rows[0].tool == "abc");
  CHECK(rows[0].seconds == 1.5);
  CHECK(rows[1].line == 4);
  CHECK(!rows[1].seconds);
}

TEST_CASE("parse_expected: what is wrong, with its line") {
  CHECK_THROWS_WITH_AS((void)parse_expected("onnx,vnnlib\n", "e.csv"),
                       "e.csv:1: the header names no column 'verdict'", Error);
  CHECK_THROWS_WITH_AS((void)parse_expected("onnx,vnnlib,verdict\na,b\n", "e.csv"),
                       "e.csv:2: 2 fields, the header has 3", Error);
  CHECK_THROWS_WITH_AS((void)parse_expected("\n", "e.csv"), doctest::Contains("e.csv: empty"),
                       Error);
}

TEST_CASE("parse_results: VNN-COMP's rows, old and new words") {
  const auto rows = parse_results(
      "acasxu,./b/onnx/a.onnx,./b/vnnlib/p.vnnlib,0.01,holds,3.5\n"
      "acasxu,./b/onnx/a.onnx,./b/vnnlib/q.vnnlib,0.01,violated,1\n"
      "acasxu,./b/onnx/a.onnx,./b/vnnlib/r.vnnlib,0.01,timeout,116\n",
      "r.csv");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].verdict == "unsat");
  CHECK(rows[0].category == "acasxu");
  CHECK(rows[0].seconds == 3.5);
  CHECK(rows[1].verdict == "sat");
  CHECK(rows[2].verdict == "timeout");
  CHECK_THROWS_WITH_AS((void)parse_results("a,b,c\n", "r.csv"),
                       doctest::Contains("r.csv:1: 3 fields instead of category,onnx,vnnlib"),
                       Error);
}

TEST_CASE("same_file_name: ends of paths, with or without .gz") {
  CHECK(same_file_name("./benchmarks/acasxu/onnx/a.onnx", "onnx/a.onnx"));
  CHECK(same_file_name("onnx/a.onnx.gz", "/x/onnx/a.onnx"));
  CHECK(same_file_name(".gz", ".gz"));
  CHECK(same_file_name("a.onnx", "a.onnx"));
  CHECK(!same_file_name("onnx/ba.onnx", "a.onnx"));
  CHECK(!same_file_name("onnx/a.onnx", "other/a.onnx"));
  CHECK(!same_file_name("onnx/a.onnx", ""));
}
