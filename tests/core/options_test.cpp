#include "grapeshot/core/options.h"

#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "grapeshot/base/error.h"
#include "tests/support/files.h"

using namespace grapeshot;           // NOLINT(google-build-using-namespace)
using namespace grapeshot::testing;  // NOLINT(google-build-using-namespace)

namespace {

template <class Set>
std::string refusal(ErrorCode code, Set set) {
  LoopOptions options;
  set(options);
  return message_of(code, [&] { check_options(options); });
}

std::vector<std::string> flags() {
  std::vector<std::string> names;
  LoopOptions options;
  describe(options,
           [&](std::string_view flag, auto&, std::string_view) { names.emplace_back(flag); });
  return names;
}

}  // namespace

TEST_CASE("describe: every member once, with a flag of its own and a help text") {
  LoopOptions options;
  std::set<std::string_view> seen;
  std::set<const void*> members;
  size_t bytes = 0;
  describe(options, [&](std::string_view flag, auto& member, std::string_view help) {
    CAPTURE(flag);
    CHECK(seen.insert(flag).second);
    CHECK(members.insert(&member).second);
    CHECK(flag.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == flag.npos);
    CHECK(help.size() > 5);
    CHECK(help.back() != '.');
    const auto* begin = reinterpret_cast<const char*>(&options);
    const auto* place = reinterpret_cast<const char*>(&member);
    CHECK((begin <= place && place < begin + sizeof(options)));
    bytes += sizeof(member);
  });
  // Nothing is left out: the members fill the struct but for the padding around the two bools.
  CHECK(sizeof(options) - bytes <= 2 * alignof(LoopOptions) - 2);
}

TEST_CASE("describe: the flags of the command line contract are there") {
  const std::vector<std::string> names = flags();
  const std::set<std::string> known(names.begin(), names.end());
  for (const char* flag : {"steps",
                           "scale",
                           "scale-factor",
                           "eta",
                           "tau",
                           "alpha",
                           "beta",
                           "e-min",
                           "weights",
                           "mutations",
                           "schedule",
                           "coverage",
                           "criterion",
                           "criteria",
                           "candidates",
                           "seconds",
                           "seconds-per-instance",
                           "per-instance",
                           "keep-going",
                           "memory",
                           "seed",
                           "threads",
                           "batch",
                           "device"}) {
    CAPTURE(flag);
    CHECK(known.contains(flag));
  }
}

TEST_CASE("describe: visits constant options too, and the members are those of the struct") {
  LoopOptions changed;
  changed.steps = 77;
  changed.scale = "iso";
  const LoopOptions& options = changed;
  int found = 0;
  describe(options, [&](std::string_view flag, const auto& member, std::string_view) {
    using Member = std::decay_t<decltype(member)>;
    if constexpr (std::is_same_v<Member, int64_t>) found += flag == "steps" && member == 77;
    if constexpr (std::is_same_v<Member, std::string>) found += flag == "scale" && member == "iso";
  });
  CHECK(found == 2);
}

TEST_CASE("LoopOptions: the paper's constants are the defaults") {
  const LoopOptions o;
  CHECK(o.steps == 10);
  CHECK(o.scale_factor == 0.1);
  CHECK(o.eta == 0.01);
  CHECK(o.tau == 0.1);
  CHECK(o.alpha == 10.);
  CHECK(o.beta == 100.);
  CHECK(o.e_min == 0.1);
  check_options(o);
}

TEST_CASE("apply_mode: the three configurations of the paper's Table 1") {
  for (const auto& [name, scale] :
       {std::pair{"seq-fixed", "fixed"}, {"batch-iso", "iso"}, {"batch-ani", "ani"}}) {
    CAPTURE(name);
    LoopOptions o;
    o.seed = 9;
    apply_mode(o, name);
    CHECK(o.schedule == "paper");
    CHECK(o.mutations == "paper");
    CHECK(o.scale == scale);
    CHECK(o.every_tap);
    CHECK(o.seed == 9);
    const bool sequential = std::string_view(name) == "seq-fixed";
    CHECK(o.batch == (sequential ? "1" : "auto"));
    CHECK(o.seconds_per_instance == (sequential ? 60. : 0.));
    CHECK(o.seconds == (sequential ? 0. : 60.));
    check_options(o);
  }
}

TEST_CASE("apply_mode: an unknown name lists the known ones") {
  LoopOptions o;
  CHECK(message_of(ErrorCode::kNotFound, [&] { apply_mode(o, "batch"); }) ==
        "no mode is called 'batch'; known: seq-fixed, batch-iso, batch-ani");
}

TEST_CASE("check_options: numbers out of range are named with the range") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto bad = [](auto set) { return refusal(ErrorCode::kInvalidArgument, set); };
  CHECK(bad([](auto& o) { o.seconds = -1.; }) == "--seconds must be at least 0 (0: no limit)");
  CHECK(bad([&](auto& o) { o.seconds = nan; }) == "--seconds must be at least 0 (0: no limit)");
  CHECK(bad([](auto& o) { o.candidates = -1; }) == "--candidates must be at least 0");
  CHECK(bad([](auto& o) { o.seconds_per_instance = -0.1; }) ==
        "--seconds-per-instance must be at least 0");
  CHECK(bad([](auto& o) { o.per_instance = 0; }) == "--per-instance must be at least 1");
  CHECK(bad([](auto& o) { o.threads = -1; }) == "--threads must be from 0 (all cores) to 1024");
  CHECK(bad([](auto& o) { o.threads = 100000; }) == "--threads must be from 0 (all cores) to 1024");
  CHECK(bad([](auto& o) { o.memory_mib = 0; }) == "--memory must be from 1 to 16777216 MiB");
  CHECK(bad([](auto& o) { o.memory_mib = int64_t{1} << 60; }) ==
        "--memory must be from 1 to 16777216 MiB");
  for (const double s : {0., -0.1, 1.1, nan}) {
    CHECK(bad([&](auto& o) { o.scale_factor = s; }) == "--scale-factor must be in (0, 1]");
  }
  CHECK(bad([](auto& o) { o.eta = 0.; }) == "--eta must be above 0");
  CHECK(bad([&](auto& o) { o.eta = std::numeric_limits<double>::infinity(); }) ==
        "--eta must be above 0");
  CHECK(bad([](auto& o) { o.steps = 0; }) == "--steps must be at least 1");
  CHECK(bad([](auto& o) { o.tau = -1.; }) == "--tau must be at least 0");
  for (auto member : {&LoopOptions::alpha, &LoopOptions::beta, &LoopOptions::e_min}) {
    for (const double energy : {-1., nan, 1.1e9}) {
      CHECK(bad([&](auto& o) { o.*member = energy; }) ==
            "--alpha, --beta and --e-min must be from 0 to 1e9");
    }
  }
  for (const char* batch :
       {"0", "-3", "", "many", "12 ", "1.5", "16777217", "99999999999999999999"}) {
    CAPTURE(batch);
    CHECK(bad([&](auto& o) { o.batch = batch; }) ==
          "--batch must be auto or a number of rows from 1 to 16777216");
  }
}

TEST_CASE("check_options: the ends of the ranges are in them") {
  LoopOptions o;
  o.seconds = 0.;
  o.candidates = 0;
  o.seconds_per_instance = 0.;
  o.scale_factor = 1.;
  o.tau = 0.;
  o.alpha = o.beta = o.e_min = 0.;
  o.steps = 1;
  o.memory_mib = 1;
  for (const char* batch : {"1", "16777216", "auto"}) {
    o.batch = batch;
    check_options(o);
  }
}

TEST_CASE("check_options: unknown words are named with the known ones") {
  const auto bad = [](ErrorCode code, auto set) { return refusal(code, set); };
  CHECK(bad(ErrorCode::kInvalidArgument, [](auto& o) {
          o.device = "tpu";
        }).starts_with("--device: 'tpu' is not one of cpu"));
  CHECK(bad(ErrorCode::kInvalidArgument, [](auto& o) { o.schedule = "fast"; }) ==
        "--schedule: 'fast' is not one of fair, paper");
  CHECK(bad(ErrorCode::kInvalidArgument, [](auto& o) { o.coverage = "local"; }) ==
        "--coverage: 'local' is not one of global, best-input");
  CHECK(bad(ErrorCode::kNotFound, [](auto& o) { o.scale = "log"; }) ==
        "no scale is called 'log'; known: fixed, iso, ani");
  CHECK(bad(ErrorCode::kNotFound, [](auto& o) {
          o.mutations = "fgsm";
        }).starts_with("no mutation is called 'fgsm'; known: gradient, "));
  CHECK(bad(ErrorCode::kInvalidArgument, [](auto& o) {
          o.weights = "gradient";
        }).starts_with("--weights: 'gradient' is not of the form"));
  CHECK(bad(ErrorCode::kNotFound, [](auto& o) {
          o.criterion = "line";
        }).starts_with("no criterion is called 'line'; known: nc"));
  CHECK(bad(ErrorCode::kNotFound, [](auto& o) {
          o.criteria = "nc,line";
        }).starts_with("no criterion is called 'line'; known: nc"));
  LoopOptions none;
  none.criterion = "none";
  check_options(none);
}
