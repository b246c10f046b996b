#include "grapeshot/cli/perturbation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/cli/free_inputs.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/problem.h"

namespace grapeshot::cli {
namespace {

// Every other output is at most the target's.
std::vector<Case> reaches(int64_t target, int64_t outputs) {
  Case all;
  for (int64_t j = 0; j < outputs; ++j) {
    if (j == target) continue;
    std::vector<Term> terms = {{static_cast<int32_t>(target), -1.}, {static_cast<int32_t>(j), 1.}};
    std::ranges::sort(terms, {}, &Term::output);
    all.rows.push_back({std::move(terms), 0.});
  }
  return {std::move(all)};
}

std::shared_ptr<const Grid> grid_of(double step, int64_t inputs, const OneHot* groups) {
  const auto d = static_cast<size_t>(inputs);
  Grid out{std::vector<double>(d, 0.), std::vector<double>(d, step)};
  if (groups) {
    for (const auto& group : *groups) {
      for (const int32_t i : group) out.step[static_cast<size_t>(i)] = 0.;
    }
  }
  return std::make_shared<const Grid>(std::move(out));
}

}  // namespace

void add_grid_options(CLI::App& app, bool& integer, double& grid) {
  auto* whole = app.add_flag("--integer", integer, "Inputs are whole numbers: --grid 1");
  app.add_option("--grid", grid, "Inputs are multiples of this, such as 1/255 as 0.003921568627451")
      ->excludes(whole)
      ->check([](const std::string& text) {
        double step = 0.;
        const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), step);
        const bool number = failure == std::errc() && end == text.data() + text.size();
        return number && step > 0. && std::isfinite(step) ? "" : "must be a finite number above 0";
      });
}

void add_perturbation_options(CLI::App& app, PerturbationOptions& options, CLI::Option* data) {
  app.add_option("--eps", options.eps,
                 "Radius around each input, in the units of --data; several, joined by commas: "
                 "robust accuracy at each")
      ->needs(data)
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--norm", options.norm,
                 "What eps bounds: linf, every input's change; l2, the length of the change; l1, "
                 "the sum of all changes")
      ->needs(data)
      ->capture_default_str();
  add_grid_options(app, options.integer, options.grid);
  app.add_option("--one-hot", options.one_hot,
                 "Groups of inputs of which one is 1 and the others 0, as 3-7,8-10 or 3+5+9: the 1 "
                 "may move")
      ->needs(data);
  app.add_option("--target", options.target,
                 "Only this label counts, or all: every other label, one after another")
      ->needs(data);
}

void check_perturbation(const PerturbationOptions& o, bool data, bool radii) {
  (void)find_ball_norm(o.norm);
  if (!data) return;
  if (radii) {
    GRAPESHOT_CHECK(o.eps.empty(), kInvalidArgument, "--eps and --eps-file exclude each other");
    GRAPESHOT_CHECK(o.norm == "linf", kInvalidArgument, "--eps-file goes with --norm linf");
    return;
  }
  GRAPESHOT_CHECK(!o.eps.empty(), kInvalidArgument, "--data needs a finite --eps above 0");
  for (const double eps : o.eps) {
    GRAPESHOT_CHECK(eps > 0. && std::isfinite(eps), kInvalidArgument,
                    "--data needs a finite --eps above 0");
  }
  std::vector<double> sorted = o.eps;
  std::ranges::sort(sorted);
  GRAPESHOT_CHECK(std::ranges::adjacent_find(sorted) == sorted.end(), kInvalidArgument,
                  "--eps names a radius twice");
}

nlohmann::ordered_json to_json(const PerturbationOptions& o) {
  return {
      {"eps", o.eps.size() == 1 ? nlohmann::ordered_json(o.eps[0]) : nlohmann::ordered_json(o.eps)},
      {"norm", o.norm},
      {"grid", o.step()},
      {"one_hot", o.one_hot},
      {"target", o.target}};
}

PerturbationOptions perturbation_options(const nlohmann::json& object, const std::string& path) {
  PerturbationOptions out;
  const auto eps = json_field<nlohmann::json>(object, "eps", path);
  if (eps.is_array()) {
    out.eps = json_field<std::vector<double>>(object, "eps", path);
  } else if (const auto one = json_field<double>(object, "eps", path); one > 0.) {
    out.eps = {one};
  }
  if (!object.contains("norm")) return out;
  out.norm = json_field<std::string>(object, "norm", path);
  out.grid = json_field<double>(object, "grid", path);
  out.one_hot = json_field<std::string>(object, "one_hot", path);
  out.target = json_field<std::string>(object, "target", path);
  return out;
}

Perturbation::Perturbation(PerturbationOptions options, const DataRows& rows, int64_t outputs,
                           std::string source)
    : options_(std::move(options)),
      outputs_(outputs),
      source_(std::move(source)),
      norm_(find_ball_norm(options_.norm).norm) {
  std::ranges::sort(options_.eps);
  if (options_.eps.empty()) options_.eps = {0.};  // rows have radii of their own
  const int64_t inputs = rows.values().size(1);
  if (!rows.same_units()) {
    const bool lengths = norm_ != BallNorm::kNone || options_.step() > 0.;
    const std::optional<double> unit = rows.common_step();
    GRAPESHOT_CHECK(!lengths || unit, kInvalidArgument,
                    "--norm, --integer and --grid need one --std for all inputs");
    GRAPESHOT_CHECK(!(options_.step() > 0.) || (rows.lower(0, 0.) == 0. && rows.upper(0, 0.) == 0.),
                    kInvalidArgument, "--integer and --grid do not go with --mean");
    GRAPESHOT_CHECK(options_.one_hot.empty(), kInvalidArgument,
                    "--one-hot does not go with --data-scale, --mean and --std");
    unit_ = unit.value_or(1.);
  }
  if (!options_.one_hot.empty()) {
    set_.one_hot =
        std::make_shared<const OneHot>(parse_one_hot(options_.one_hot, inputs, rows.columns()));
  }
  if (options_.step() > 0.) {
    set_.grid = grid_of(options_.step() * unit_, inputs, set_.one_hot.get());
  }
  const std::string& target = options_.target;
  if (target.empty() || target == "all") return;
  int64_t label = -1;
  const auto [end, failure] = std::from_chars(target.data(), target.data() + target.size(), label);
  GRAPESHOT_CHECK(failure == std::errc() && end == target.data() + target.size() && label >= 0 &&
                      label < outputs,
                  kInvalidArgument, "--target: '", printable(target),
                  "' is neither a label from 0 to ", outputs - 1, " nor all");
  target_ = label;
}

std::vector<int64_t> Perturbation::targets(int64_t label) const {
  if (options_.target.empty()) return {-1};
  if (target_) return *target_ == label ? std::vector<int64_t>() : std::vector<int64_t>{*target_};
  std::vector<int64_t> out;
  for (int64_t j = 0; j < outputs_; ++j) {
    if (j != label) out.push_back(j);
  }
  return out;
}

// Features of a group may be 0 or 1, whatever eps is.
void Perturbation::open_groups(int64_t row, std::span<const double> x, Box& box) const {
  if (!set_.one_hot) return;
  for (const auto& group : *set_.one_hot) {
    int64_t ones = 0, others = 0;
    for (const int32_t i : group) {
      const auto at = static_cast<size_t>(i);
      ones += x[at] == 1. ? 1 : 0;
      others += x[at] != 1. && x[at] != 0. ? 1 : 0;
      box.lo[at] = 0.f;
      box.hi[at] = 1.f;
    }
    GRAPESHOT_CHECK(ones == 1 && others == 0, kInvalidArgument, source_, ": row ", row, ": inputs ",
                    group.front(), " to ", group.back(),
                    ", a group of --one-hot, are not a single 1 and else 0");
  }
}

// The 1 stays where the feature that has it is frozen, and goes to no other that is.
void Perturbation::close_groups(std::span<const double> x, Box& box) const {
  if (!set_.one_hot) return;
  for (const auto& group : *set_.one_hot) {
    const bool fixed = std::ranges::any_of(
        group, [&](int32_t i) { return box.lo[static_cast<size_t>(i)] == 1.f; });
    for (const int32_t i : group) {
      const auto at = static_cast<size_t>(i);
      if (fixed) box.lo[at] = box.hi[at] = static_cast<float>(x[at]);
    }
  }
}

std::vector<PerturbedRow> Perturbation::of(int64_t row, std::span<const double> x, int64_t label,
                                           const FreeInputs& free,
                                           const std::function<Box(double eps)>& box_of) const {
  std::vector<PerturbedRow> out;
  for (const int64_t target : targets(label)) {
    for (const double eps : options_.eps) {
      // A product is rounded: towards the centre.
      const double radius = unit_ == 1. ? eps : std::nextafter(eps * unit_, 0.);
      PerturbedRow& one = out.emplace_back(
          PerturbedRow{top1_property(box_of(eps), label, outputs_), {}, eps, target});
      Region& region = one.property.regions[0];
      if (target >= 0) region.cases = reaches(target, outputs_);
      Box& box = region.box;
      open_groups(row, x, box);
      free.restrict(row, x, box);
      close_groups(x, box);
      box.set = set_;
      if (set_.grid && !box.empty) box.empty = !snap_bounds(*set_.grid, box.lo, box.hi);
      const Ball ball = inner_ball(norm_, x, radius, set_, box.lo, box.hi);
      one.original = at::tensor(ball.centre);
      if (norm_ == BallNorm::kNone) continue;
      box.empty = box.empty || !(ball.radius > 0.);
      box.set.ball = ball;
    }
  }
  return out;
}

void keep_to_grid(Property& property, double step, const std::string& spec) {
  if (!(step > 0.)) return;
  std::shared_ptr<const Grid> grid;
  for (Region& region : property.regions) {
    Box& box = region.box;
    GRAPESHOT_CHECK(!box.set.grid, kUnsupported, spec,
                    ": has a grid of its own, so that --grid and --integer do not go with it");
    GRAPESHOT_CHECK(box.set.ball.norm == BallNorm::kNone, kUnsupported, spec,
                    ": has a ball, with which --grid and --integer do not go: say 'grid' there");
    if (!grid) grid = grid_of(step, property.inputs, box.set.one_hot.get());
    box.set.grid = grid;
    if (!box.empty) box.empty = !snap_bounds(*grid, box.lo, box.hi);
  }
}

}  // namespace grapeshot::cli
