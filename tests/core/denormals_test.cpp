#include "grapeshot/core/denormals.h"

#include <limits>
#include <thread>

#include <doctest/doctest.h>

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

#if defined(__x86_64__)

namespace {

// Whether this thread makes a denormal from two normal numbers, and reads one.
bool makes_denormals() {
  volatile float small = std::numeric_limits<float>::min();
  const volatile float half = small * 0.5f;
  return half != 0.f;
}

bool reads_denormals() {
  volatile float tiny = std::numeric_limits<float>::denorm_min();
  const volatile float big = tiny * 1e38f;
  return big != 0.f;
}

}  // namespace

TEST_CASE("FlushDenormals: as long as it lives") {
  REQUIRE(makes_denormals());
  {
    const FlushDenormals flush(true);
    CHECK(!makes_denormals());
    CHECK(!reads_denormals());
  }
  CHECK(makes_denormals());
  CHECK(reads_denormals());
}

TEST_CASE("FlushDenormals: one inside the other, each restores what it found") {
  const FlushDenormals flush(true);
  {
    const FlushDenormals keep(false);
    CHECK(makes_denormals());
    CHECK(reads_denormals());
    {
      const FlushDenormals again(true);
      CHECK(!makes_denormals());
    }
    CHECK(makes_denormals());
  }
  CHECK(!makes_denormals());
}

TEST_CASE("FlushDenormals: other threads keep theirs") {
  const FlushDenormals flush(true);
  bool before = false, during = true;
  std::thread([&] {
    const FlushDenormals keep(false);  // a new thread may inherit the flags of its maker
    before = makes_denormals();
    const FlushDenormals own(true);
    during = makes_denormals();
  }).join();
  CHECK(before);
  CHECK(!during);
  CHECK(!makes_denormals());
}

#else

TEST_CASE("FlushDenormals: harmless where there is nothing to set") {
  const FlushDenormals flush(true);
  CHECK(true);
}

#endif
