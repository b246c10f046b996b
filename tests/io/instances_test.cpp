#include "grapeshot/io/instances.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/files.h"

using grapeshot::ErrorCode;
using grapeshot::InstanceRow;
using grapeshot::read_instances;
using grapeshot::testing::message_of;
using grapeshot::testing::TemporaryFolder;

namespace {

struct Benchmark : TemporaryFolder {
  Benchmark() {
    write("onnx/a.onnx", "a");
    write("onnx/b.onnx.gz", "b");
    write("vnnlib/p.vnnlib", "p");
  }
};

}  // namespace

TEST_CASE("read_instances: paths are found relative to the csv, zipped or not") {
  const Benchmark folder;
  const std::string csv = folder.write(
      "instances.csv",
      "onnx/a.onnx,vnnlib/p.vnnlib,116\r\n\n./onnx/b.onnx, vnnlib/p.vnnlib , 1.5e1 \n" +
          folder.file("onnx/a.onnx") + "," + folder.file("vnnlib/p.vnnlib") + ",1");
  const std::vector<InstanceRow> rows = read_instances(csv);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].model == folder.file("onnx/a.onnx"));
  CHECK(rows[0].spec == folder.file("vnnlib/p.vnnlib"));
  CHECK(rows[0].timeout_s == 116.);
  CHECK(rows[0].line == 1);
  CHECK(rows[1].model == folder.file("onnx/b.onnx.gz"));
  CHECK(rows[1].timeout_s == 15.);
  CHECK(rows[1].line == 3);
  CHECK(rows[2].model == rows[0].model);
  CHECK(rows[2].line == 4);
}

TEST_CASE("read_instances: a relative csv gives absolute paths") {
  const Benchmark folder;
  const std::string csv = folder.write("instances.csv", "onnx/a.onnx,vnnlib/p.vnnlib,1\n");
  const std::string relative = std::filesystem::relative(csv).string();
  const std::string model = read_instances(relative).at(0).model;
  CHECK(std::filesystem::path(model).is_absolute());
  CHECK(std::filesystem::equivalent(model, folder.file("onnx/a.onnx")));
}

TEST_CASE("read_instances: a header is skipped") {
  const Benchmark folder;
  const std::string csv = folder.write(
      "instances.csv", "\xef\xbb\xbfonnx,vnnlib,timeout_s\nonnx/a.onnx,vnnlib/p.vnnlib,1\n");
  const std::vector<InstanceRow> rows = read_instances(csv);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].line == 2);
}

TEST_CASE("read_instances: the first wrong row is named and nothing is returned") {
  const Benchmark folder;
  const auto message = [&](const std::string& row) {
    const std::string csv =
        folder.write("instances.csv", "onnx/a.onnx,vnnlib/p.vnnlib,1\n\n" + row + "\n,,,\n");
    const std::string text = message_of(ErrorCode::kParse, [&] { (void)read_instances(csv); });
    CHECK(text.starts_with(csv + ":3: "));
    return text.substr(csv.size() + 4);
  };
  CHECK(message("onnx/a.onnx,vnnlib/p.vnnlib") ==
        "expected three fields, onnx,vnnlib,timeout, found 2");
  CHECK(message("onnx/a.onnx,vnnlib/p.vnnlib,1,2") ==
        "expected three fields, onnx,vnnlib,timeout, found 4");
  CHECK(message(std::string("onnx/a.onnx\0.no,vnnlib/p.vnnlib,1", 34)) ==
        "the onnx field is no path: 'onnx/a.onnx\\x00.no'");
  CHECK(message("onnx/c.onnx,vnnlib/p.vnnlib,1") == folder.file("onnx/c.onnx") + ": no such file");
  CHECK(message("onnx/a.onnx,vnnlib/q.vnnlib,1") ==
        folder.file("vnnlib/q.vnnlib") + ": no such file");
  CHECK(message(",vnnlib/p.vnnlib,1") == "the onnx field is empty");
  CHECK(message("onnx/a.onnx,,1") == "the vnnlib field is empty");
  for (const std::string timeout : {"0", "-1", "", "abc", "nan", "1e999"})
    CHECK(message("onnx/a.onnx,vnnlib/p.vnnlib," + timeout) ==
          "the timeout must be a positive number of seconds, found '" + timeout + "'");
}

TEST_CASE("read_instances: a missing or empty csv is named") {
  const Benchmark folder;
  const std::string none = folder.file("none.csv");
  CHECK(message_of(ErrorCode::kNotFound, [&] { (void)read_instances(none); }) ==
        none + ": no such file");
  const std::string empty = folder.write("empty.csv", "\n\n");
  CHECK(message_of(ErrorCode::kParse, [&] { (void)read_instances(empty); }) ==
        empty + ": no instance in it; write lines onnx,vnnlib,timeout");
}
