#include "grapeshot/proc/child.h"

#include <csignal>
#include <thread>

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

TEST_CASE("run_child: output, errors and status") {
  const ChildResult r = run_child({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, 10.);
  CHECK(r.status == 3);
  CHECK(r.out == "out\n");
  CHECK(r.err == "err\n");
  CHECK(!r.timed_out);
}

TEST_CASE("run_child: killed at its limit, with its own children") {
  const Clock::time_point start = Clock::now();
  const ChildResult r = run_child({"/bin/sh", "-c", "echo begun; sleep 60 & sleep 60"}, 0.3);
  CHECK(r.timed_out);
  CHECK(r.status == 128 + SIGKILL);
  CHECK(r.out == "begun\n");
  CHECK(seconds_since(start) < 5.);
}

TEST_CASE("run_child: stops when told to, which is no limit") {
  std::atomic<bool> stop = false;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop = true;
  });
  const ChildResult r = run_child({"/bin/sleep", "60"}, 60., &stop);
  later.join();
  CHECK(!r.timed_out);
  CHECK(r.status == 128 + SIGKILL);
}

TEST_CASE("run_child: much output does not block, and is cut") {
  const ChildResult r =
      run_child({"/bin/sh", "-c", "head -c 3000000 /dev/zero; echo done >&2"}, 20.);
  CHECK(r.status == 0);
  CHECK(r.out.size() == kMostOutput);
  CHECK(r.err == "done\n");
}

TEST_CASE("run_child: no such program") {
  CHECK_THROWS_WITH_AS((void)run_child({"/no/such/program"}, 1.),
                       doctest::Contains("/no/such/program: cannot be started"), Error);
}

TEST_CASE("run_child: where SIGCHLD is ignored it ends all the same") {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const ChildResult r = run_child({"/bin/echo", "here"}, 10.);
  (void)std::signal(SIGCHLD, before);
  CHECK(r.out == "here\n");
}
