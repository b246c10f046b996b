#include "grapeshot/core/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string>

#include "grapeshot/base/error.h"
#include "grapeshot/base/table.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/core/mutate.h"
#include "grapeshot/core/scale.h"

namespace grapeshot {
namespace {

struct Mode {
  std::string_view name, scale;
  bool sequential;
};

// Table 1 of the paper.
constexpr Mode kModes[] = {
    {"seq-fixed", "fixed", true},
    {"batch-iso", "iso", false},
    {"batch-ani", "ani", false},
};

void check_range(bool ok, std::string_view flag, std::string_view range) {
  GRAPESHOT_CHECK(ok, kInvalidArgument, "--", flag, " must be ", range);
}

void check_choice(std::string_view value, std::initializer_list<std::string_view> choices,
                  std::string_view flag) {
  std::string known;
  for (const std::string_view each : choices) known += str(known.empty() ? "" : ", ", each);
  GRAPESHOT_CHECK(std::ranges::find(choices, value) != choices.end(), kInvalidArgument, "--", flag,
                  ": '", value, "' is not one of ", known);
}

}  // namespace

void apply_mode(LoopOptions& options, std::string_view name) {
  const Mode& mode = find_row(std::span<const Mode>(kModes), name, "mode");
  options.schedule = "paper";
  options.mutations = "paper";
  options.scale = mode.scale;
  options.every_tap = true;
  if (mode.sequential) {
    options.batch = "1";
    options.seconds_per_instance = 60.;
    options.seconds = 0.;
  }
}

void check_criterion_options(const CriterionOptions& o, double tau) {
  constexpr int64_t kMost = 1'000'000, kMostCells = 1000;
  check_range(tau >= 0. && std::isfinite(tau), "tau", "at least 0");
  check_range(o.sections >= 1 && o.sections <= kMost, "sections", "from 1 to 1000000");
  check_range(o.sigma >= 0. && std::isfinite(o.sigma), "sigma", "at least 0");
  check_range(o.top >= 1, "top-neurons", "at least 1");
  check_range(o.buckets >= 1 && o.buckets <= kMost, "buckets", "from 1 to 1000000");
  check_range(o.upper_bound >= 0. && std::isfinite(o.upper_bound), "upper-bound", "at least 0");
  check_range(o.distance >= 0. && std::isfinite(o.distance), "distance", "at least 0");
  check_range(o.sign_ratio >= 0. && o.sign_ratio <= 1., "sign-ratio", "from 0 to 1");
  check_range(o.cells >= 1 && o.cells <= kMostCells, "cells", "from 1 to 1000");
  check_range(o.value_ratio > 1. && std::isfinite(o.value_ratio), "value-ratio", "above 1");
}

void check_options(const LoopOptions& o) {
  check_range(o.seconds >= 0., "seconds", "at least 0 (0: no limit)");
  check_range(o.candidates >= 0, "candidates", "at least 0");
  check_range(o.seconds_per_instance >= 0., "seconds-per-instance", "at least 0");
  check_range(o.per_instance >= 1, "per-instance", "at least 1");
  check_range(o.threads >= 0 && o.threads <= 1024, "threads", "from 0 (all cores) to 1024");
  check_range(o.memory_mib >= 1 && o.memory_mib <= (int64_t{1} << 24), "memory",
              "from 1 to 16777216 MiB");
  check_range(o.checkpoint_s >= 0., "checkpoint", "at least 0 (0: none)");
  check_range(o.scale_factor > 0. && o.scale_factor <= 1., "scale-factor", "in (0, 1]");
  check_range(o.eta > 0. && std::isfinite(o.eta), "eta", "above 0");
  check_range(o.steps >= 1, "steps", "at least 1");
  check_criterion_options(o.per_criterion, o.tau);
  for (const double energy : {o.alpha, o.beta, o.e_min}) {
    // float32 has to hold the sum of all kept inputs' energies.
    check_range(energy >= 0. && energy <= 1e9, "alpha, --beta and --e-min", "from 0 to 1e9");
  }
  int64_t batch = 0;
  const char* end = o.batch.data() + o.batch.size();
  const auto [last, failure] = std::from_chars(o.batch.data(), end, batch);
  check_range(o.batch == "auto" || (failure == std::errc() && last == end && batch >= 1 &&
                                    batch <= (int64_t{1} << 24)),
              "batch", "auto or a number of rows from 1 to 16777216");
  check_choice(o.device, {"cpu", "cuda"}, "device");
  check_range(o.device == "cpu" || o.mutations != "portfolio", "device",
              "cpu with --mutations portfolio");
  check_choice(o.precision, {"auto", "float32", "bfloat16"}, "precision");
  check_choice(o.schedule, {"fair", "paper"}, "schedule");
  check_choice(o.coverage, {"global", "best-input"}, "coverage");
  (void)find_scale(o.scale);
  if (o.mutations != "portfolio") (void)parse_mutations(o.mutations, o.weights, true);
  check_range(o.mutations != "portfolio" || o.weights.empty(), "weights",
              "left out with --mutations portfolio");
  std::istringstream names(o.criterion + "," + o.criteria);
  for (std::string name; std::getline(names, name, ',');) {
    if (!name.empty() && name != "none") (void)find_criterion(name);
  }
}

}  // namespace grapeshot
