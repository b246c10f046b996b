#include "grapeshot/io/witness.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "grapeshot/io/npy.h"
#include "tests/support/files.h"
#include "tests/support/gzip.h"

using grapeshot::ErrorCode;
using grapeshot::parse_witness;
using grapeshot::read_witness;
using grapeshot::shortest_decimal;
using grapeshot::Witness;
using grapeshot::write_witness;
using grapeshot::testing::gzip;
using grapeshot::testing::message_of;
using grapeshot::testing::TemporaryFolder;

namespace {

std::string error_in(const std::string& text) {
  return message_of(ErrorCode::kParse, [&] { (void)parse_witness(text, "w.txt"); });
}

}  // namespace

TEST_CASE("parse_witness: VNN-COMP's format, in all its spellings") {
  const std::vector<double> x{0.5, -1e-3}, y{2.};
  for (const char* text : {
           "sat\n((X_0 0.5)\n(X_1 -1e-3)\n(Y_0 2.0))\n",
           "((X_0 0.5) (X_1 -1e-3) (Y_0 2))",
           "(X_0 0.5)(X_1 -0.001)(Y_0 2)",
           "sat ; found by a tool\n( ( X_0\t0.5 )\r\n(X_1 -.001) ; (X_2 7)\n)(((Y_0 2.)))",
           "((Y_0 +2e0)(X_1 -1E-3)(X_0 .5))",
       }) {
    CAPTURE(text);
    const Witness witness = parse_witness(text, "w.txt");
    CHECK(witness.x == x);
    CHECK(witness.y == y);
  }
  CHECK(parse_witness("(X_0 1)", "w.txt").y.empty());
}

TEST_CASE("parse_witness: what is no finite number is kept, for it may be written") {
  const Witness w = parse_witness("((X_0 nan)(X_1 -inf)(X_2 inf)(X_3 NaN)(X_4 1e400))", "w.txt");
  CHECK(std::isnan(w.x[0]));
  CHECK(w.x[1] == -std::numeric_limits<double>::infinity());
  CHECK(w.x[2] == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(w.x[3]));
  CHECK(w.x[4] > 1e308);
}

TEST_CASE("parse_witness: errors name line and column") {
  CHECK(error_in("") ==
        "w.txt: no input in it; a witness is a .npy file or pairs such as (X_0 0.5)");
  CHECK(error_in("sat\n((Y_0 1))") ==
        "w.txt: no input in it; a witness is a .npy file or pairs such as (X_0 0.5)");
  CHECK(error_in("unsat\n") == "w.txt:1:1: expected a pair such as (X_0 0.5), found 'unsat'");
  CHECK(error_in("sat\n(X_0 1) 2") == "w.txt:2:9: expected a pair such as (X_0 0.5), found '2'");
  CHECK(error_in("sat\n((X_0 1)\n (X_0 1))") == "w.txt:3:3: X_0 has a value already");
  CHECK(error_in("((X_0 1)\n(X_2 1))") == "w.txt:2:2: X_2 is there, X_1 is missing");
  CHECK(error_in("((X_1 1))") == "w.txt:1:3: X_1 is there, X_0 is missing");
  CHECK(error_in("((X_0 1)(Y_1 1))") == "w.txt:1:10: Y_1 is there, Y_0 is missing");
  CHECK(error_in("((X_0 1)") ==
        "w.txt:1:9: a parenthesis is not closed, found the end of the file");
  CHECK(error_in("(X_0 1))") == "w.txt:1:8: expected a pair such as (X_0 0.5), found ')'");
  CHECK(error_in("(X_0") == "w.txt:1:5: expected a number, found the end of the file");
  CHECK(error_in("(X_0 one)") == "w.txt:1:6: expected a number, found 'one'");
  CHECK(error_in("(X_0 0x10)") == "w.txt:1:6: expected a number, found '0x10'");
  CHECK(error_in("(X_0 1 2)") == "w.txt:1:8: expected ) after the number, found '2'");
  CHECK(error_in("(X_a 1)") == "w.txt:1:2: expected a variable such as X_0, found 'X_a'");
  CHECK(error_in("(X_99999999999999999999 1)") ==
        "w.txt:1:2: expected a variable such as X_0, found 'X_99999999999999999999'");
  CHECK(error_in("(X_0 \x01)") == "w.txt:1:6: expected a number, found '\\x01'");
}

TEST_CASE("write_witness: float32 inputs come back exactly") {
  const std::vector<float> x{0.1f, -0.f, 1e-45f, 3.4028235e38f, 1.f / 3.f, 16777217.f, -2.5f};
  const std::vector<double> y{0.1, -1e-300, 1. / 3.};
  const std::string text = write_witness(x, y);
  CHECK(text.starts_with("sat\n((X_0 "));
  CHECK(text.ends_with("))\n"));
  const Witness read = parse_witness(text, "w.txt");
  REQUIRE(read.x.size() == x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(static_cast<double>(static_cast<float>(read.x[i])) == read.x[i]);
    CHECK(std::bit_cast<uint32_t>(static_cast<float>(read.x[i])) == std::bit_cast<uint32_t>(x[i]));
  }
  CHECK(read.y == y);
  CHECK(write_witness(std::vector{1.f}, {}) == "sat\n((X_0 1))\n");
  CHECK(shortest_decimal(0.1) == "0.1");
  CHECK(shortest_decimal(static_cast<double>(0.1f)) == "0.10000000149011612");
}

TEST_CASE("read_witness: .npy and text are told apart by their bytes, zipped or not") {
  const TemporaryFolder folder;
  const std::vector<float> x{0.5f, 1.f};
  grapeshot::write_npy(folder.file("w"), x, std::vector<int64_t>{1, 2});
  CHECK(read_witness(folder.file("w")).x == std::vector{0.5, 1.});
  CHECK(read_witness(folder.write("w.npy", "((X_0 1))")).x == std::vector{1.});
  folder.write("z.txt.gz", gzip("((X_0 1))"));
  CHECK(read_witness(folder.file("z.txt")).x == std::vector{1.});
}
