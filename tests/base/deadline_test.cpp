#include "grapeshot/base/deadline.h"

#include <atomic>
#include <limits>
#include <thread>

#include <doctest/doctest.h>

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

TEST_CASE("Deadline: without a limit it expires when it is told to, and not before") {
  std::atomic<bool> stop = false;
  const Deadline never, told(&stop), far(std::numeric_limits<double>::infinity(), &stop);
  CHECK(!never.expired());
  CHECK(!told.expired());
  CHECK(!far.expired());
  stop = true;
  CHECK(!never.expired());
  CHECK(told.expired());
  CHECK(told.stopped());
  CHECK(far.expired());
}

TEST_CASE("Deadline: a limit passes by itself, which is not being stopped") {
  std::atomic<bool> stop = false;
  const Deadline over(0., &stop), soon(0.02, nullptr), later(1000., nullptr);
  CHECK(over.expired());
  CHECK(!over.stopped());
  CHECK(!soon.expired());
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  CHECK(soon.expired());
  CHECK(!soon.stopped());
  CHECK(!later.expired());
  CHECK(Deadline(-1., nullptr).expired());
}

TEST_CASE("Deadline: limits too long for the clock never pass") {
  for (const double limit : {1e9, 1e12, 1e300}) CHECK(!Deadline(limit, nullptr).expired());
}

TEST_CASE("seconds_since: counts seconds") {
  const auto start = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(seconds_since(start) >= 0.02);
  CHECK(seconds_since(start) < 10.);
}
