#include "grapeshot/io/npy.h"

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/files.h"

using grapeshot::Error;
using grapeshot::ErrorCode;
using grapeshot::NpyArray;
using grapeshot::read_npy;
using grapeshot::write_npy;
using grapeshot::testing::message_of;
using grapeshot::testing::stored_bytes;
using grapeshot::testing::TemporaryFolder;

namespace {

/// A .npy file of format 1.0 (2.0 with `wide`).
std::string npy(const std::string& header, const std::string& data, bool wide = false) {
  std::string out = "\x93NUMPY";
  out += wide ? '\x02' : '\x01';
  out += '\0';
  for (size_t i = 0; i < (wide ? 4u : 2u); ++i)
    out += static_cast<char>(header.size() >> (8 * i) & 255);
  return out + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string header_of(const std::string& type, const std::string& shape,
                      const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

}  // namespace

TEST_CASE("write_npy: what is written is read back, bit for bit") {
  const TemporaryFolder folder;
  const std::vector<float> values{0.1f, -0.f, 1e-45f, 3e38f, -1.f, 2.f};
  const std::vector<std::vector<int64_t>> shapes{{6}, {2, 3}, {1, 6, 1}};
  for (const auto& shape : shapes) {
    write_npy(folder.file("a.npy"), values, shape);
    const NpyArray read = read_npy(folder.file("a.npy"));
    CHECK(read.shape == shape);
    REQUIRE(read.values.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i)
      CHECK(std::bit_cast<uint32_t>(static_cast<float>(read.values[i])) ==
            std::bit_cast<uint32_t>(values[i]));
  }
  const std::string bytes = stored_bytes(folder.file("a.npy"));
  CHECK((bytes.size() - values.size() * 4) % 64 == 0);
  CHECK_THROWS_AS(write_npy(folder.file("b.npy"), values, std::vector<int64_t>{5}), Error);
}

TEST_CASE("write_npy_float64: no bit is lost") {
  const TemporaryFolder folder;
  const std::vector<double> values{0.1, 1e-300, -1. / 3.};
  grapeshot::write_npy_float64(folder.file("a.npy"), values, std::vector<int64_t>{3, 1});
  CHECK(read_npy(folder.file("a.npy")).shape == std::vector<int64_t>{3, 1});
  CHECK(read_npy(folder.file("a.npy")).values == values);
}

TEST_CASE("write_npy: a scalar and an array without elements") {
  const TemporaryFolder folder;
  write_npy(folder.file("a.npy"), std::vector{4.f}, {});
  CHECK(read_npy(folder.file("a.npy")).shape.empty());
  CHECK(read_npy(folder.file("a.npy")).values == std::vector{4.});
  write_npy(folder.file("a.npy"), {}, std::vector<int64_t>{0, 3});
  CHECK(read_npy(folder.file("a.npy")).shape == std::vector<int64_t>{0, 3});
}

TEST_CASE("read_npy: all element types") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& type, const std::string& data) {
    return read_npy(folder.write("a.npy", npy(header_of(type, "(2,)"), data))).values;
  };
  const std::vector<double> expected{1., -2.}, whole{1., 2.};
  CHECK(read("<f4", bytes_of<float>({1.f, -2.f})) == expected);
  CHECK(read("<f8", bytes_of<double>({1., -2.})) == expected);
  CHECK(read("|i1", bytes_of<int8_t>({1, -2})) == expected);
  CHECK(read("<i2", bytes_of<int16_t>({1, -2})) == expected);
  CHECK(read("<i4", bytes_of<int32_t>({1, -2})) == expected);
  CHECK(read("<i8", bytes_of<int64_t>({1, -2})) == expected);
  CHECK(read("|u1", bytes_of<uint8_t>({1, 2})) == whole);
  CHECK(read("<u2", bytes_of<uint16_t>({1, 2})) == whole);
  CHECK(read("<u4", bytes_of<uint32_t>({1, 2})) == whole);
  CHECK(read("<u8", bytes_of<uint64_t>({1, 2})) == whole);
  CHECK(read("|b1", bytes_of<uint8_t>({1, 0})) == std::vector{1., 0.});
}

TEST_CASE("read_npy: Fortran order becomes row-major") {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "a.npy", npy(header_of("|u1", "(2, 3)", "True"), bytes_of<uint8_t>({1, 4, 2, 5, 3, 6})));
  CHECK(read_npy(path).values == std::vector{1., 2., 3., 4., 5., 6.});
  const std::string wide = folder.write(
      "b.npy", npy(header_of("|u1", "(2, 1, 2)", "True"), bytes_of<uint8_t>({1, 3, 2, 4}), true));
  CHECK(read_npy(wide).values == std::vector{1., 2., 3., 4.});
}

TEST_CASE("read_npy: what is wrong with a file is said") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& bytes) {
    const std::string path = folder.write("a.npy", bytes);
    const std::string text = message_of(ErrorCode::kParse, [&] { (void)read_npy(path); });
    CHECK(text.starts_with(path + ": "));
    return text.substr(path.size() + 2);
  };
  CHECK(message("") == "not a .npy file; write one with numpy.save");
  CHECK(message("1.0 2.0 3.0") == "not a .npy file; write one with numpy.save");
  CHECK(message("\x93NUMPY") == "the file ends inside its header");
  CHECK(message(npy(header_of("<f4", "(2,)"), "").substr(0, 30)) ==
        "the file ends inside its header");
  std::string unknown = npy("", "    ");
  unknown[6] = 9;
  CHECK(message(unknown) == ".npy format 9 is not known; this reads 1 to 3");
  CHECK(message(npy(header_of("<f4", "(2,)"), "1234567")) ==
        "the file ends before its last number");
  CHECK(message(npy(header_of("<f4", "(1,)"), "1234567")) == "3 bytes follow the last number");
  CHECK(message(npy(header_of("<f2", "(1,)"), "12")) ==
        "elements of type '<f2' are not supported; save float32, float64, bool or integers of 8 to "
        "64 bits");
  CHECK(message(npy(header_of(">f4", "(1,)"), "1234")).starts_with("elements of type '>f4'"));
  CHECK(message(npy(header_of("<f4", "(4294967296, 4294967296, 4)"), "1234")) ==
        "the file ends before its last number");
  const std::string prefix = "not a readable .npy file: ";
  CHECK(message(npy(header_of("<f4", "(-1,)"), "1234")) == prefix + "the shape is malformed");
  CHECK(message(npy(header_of("<f4", "4"), "1234")) == prefix + "the header lacks a '('");
  CHECK(message(npy("{'descr': '<f4', }", "1234")) ==
        prefix + "the header lacks 'descr' or 'shape'");
  CHECK(message(npy("{'descr': '<f4", "1234")) ==
        prefix + "the header has a string without an end");
  CHECK(message(npy("{'other': 1}", "1234")) == prefix + "unknown header key 'other'");
  CHECK(message(npy(header_of("<f4", "(1,)", "1"), "1234")) ==
        prefix + "'fortran_order' is neither True nor False");
}

TEST_CASE("read_npy: truncated and changed files give an array or an Error") {
  const TemporaryFolder folder;
  const std::string good = npy(header_of("<f4", "(2, 2)"), std::string(16, 'a'));
  const auto survive = [&](const std::string& bytes) {
    try {
      (void)read_npy(folder.write("a.npy", bytes));
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  CHECK(survive(good));
  for (size_t size = 0; size < good.size(); ++size) CHECK(!survive(good.substr(0, size)));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    survive(bytes);
  }
}
