#include "grapeshot/io/properties/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <set>
#include <sstream>

#include "grapeshot/base/text.h"
#include "grapeshot/io/npy.h"

namespace grapeshot::properties {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<float>::max();

std::vector<std::string> names(const Field& field, int64_t count) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const Field& each : field.entries()) {
    out.push_back(each.text());
    if (out.back().empty() || !seen.insert(out.back()).second) {
      each.fail("must be a name of its own, is '", printable(out.back()), "'");
    }
  }
  if (std::ssize(out) != count) field.fail("has ", out.size(), " names, must have ", count);
  return out;
}

// By name, else by number; -1 for neither.
int64_t find_name(const std::vector<std::string>& known, const std::string& name, int64_t count) {
  const auto it = std::ranges::find(known, name);
  if (it != known.end()) return it - known.begin();
  int64_t index = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = error == std::errc{} && end == name.data() + name.size();
  return whole && index >= 0 && index < count && name == std::to_string(index) ? index : -1;
}

}  // namespace

Reader::Reader(Field file, const Subject& subject, bool keeps_sets)
    : file_(std::move(file)), subject_(subject), keeps_sets_(keeps_sets) {
  if (file_.has("feature_names")) {
    features_ = names(file_.at("feature_names"), subject.inputs);
  }
  if (file_.has("output_names")) outputs_ = names(file_.at("output_names"), subject.outputs);
}

void Reader::check_keys(std::initializer_list<std::string_view> known) const {
  std::vector<std::string_view> all = {"property", "description", "feature_names", "output_names",
                                       "inputs"};
  all.insert(all.end(), known.begin(), known.end());
  if (file_.has("description")) (void)file_.at("description").text();
  file_.check_keys(all);
}

int64_t Reader::feature(const Field& field) const {
  if (!field.value().is_string()) return field.integer(0, subject_.inputs - 1);
  return feature(field.text(), field);
}

int64_t Reader::feature(const std::string& key, const Field& field) const {
  const int64_t index = find_name(features_, key, subject_.inputs);
  if (index < 0) {
    field.fail("no feature is called '", printable(key), "'; the network has 0 to ",
               subject_.inputs - 1, features_.empty() ? "" : ", or by 'feature_names'");
  }
  return index;
}

std::vector<int64_t> Reader::features(const Field& field) const {
  std::set<int64_t> out;
  for (const Field& each : field.entries()) {
    if (!out.insert(feature(each)).second) each.fail("names a feature twice");
  }
  if (out.empty()) field.fail("must name a feature");
  return {out.begin(), out.end()};
}

int64_t Reader::output(const Field& field) const {
  if (!field.value().is_string()) return field.integer(0, subject_.outputs - 1);
  return output(field.text(), field);
}

int64_t Reader::output(const std::string& key, const Field& field) const {
  const int64_t index = find_name(outputs_, key, subject_.outputs);
  if (index < 0) {
    field.fail("no output is called '", printable(key), "'; the network has 0 to ",
               subject_.outputs - 1, outputs_.empty() ? "" : ", or by 'output_names'");
  }
  return index;
}

int64_t Reader::output() const {
  if (file_.has("output")) return output(file_.at("output"));
  if (subject_.outputs != 1) {
    file_.fail("lacks 'output', which of the network's ", subject_.outputs, " it is about");
  }
  return 0;
}

std::string Reader::feature_name(int64_t feature) const {
  return features_.empty() ? str("feature ", feature) : features_[static_cast<size_t>(feature)];
}

std::string Reader::output_name(int64_t output) const {
  return outputs_.empty() ? str("output ", output) : outputs_[static_cast<size_t>(output)];
}

std::vector<std::string> Reader::feature_names() const {
  std::vector<std::string> out;
  for (int64_t i = 0; i < subject_.inputs; ++i) out.push_back(feature_name(i));
  return out;
}

void Reader::read_center(const Field& field, std::vector<Domain>& out) const {
  const int64_t d = subject_.inputs;
  if (!field.value().is_object()) {
    Domain domain;
    if (!field.value().is_array()) field.fail("must be an array of ", d, " or an object");
    domain.center = field.numbers(d);
    out.push_back(std::move(domain));
    return;
  }
  field.check_keys({"file", "row", "rows"});
  const Field file = field.at("file");
  if (file.text().find('\0') != std::string::npos) file.fail("is no path");
  namespace fs = std::filesystem;
  const std::string path =
      (fs::absolute(field.path()).parent_path() / file.text()).lexically_normal().string();
  if (!path.ends_with(".npy") && !path.ends_with(".npy.gz")) file.fail("must be a .npy file");
  NpyArray data;
  try {
    data = read_npy(path);
  } catch (const Error& error) {
    file.fail(error.what());
  }
  if (std::ranges::find(files_, path) == files_.end()) files_.push_back(path);
  const int64_t n = data.shape.empty() ? 0 : data.shape[0];
  if (n == 0 || std::ssize(data.values) != n * d) {
    file.fail(data.values.size(), " values in ", n, " rows; the network has ", d, " inputs a row");
  }
  if (field.has("row") == field.has("rows")) field.fail("needs one of 'row' and 'rows'");
  std::vector<int64_t> rows;
  if (field.has("row")) {
    rows.push_back(field.at("row").integer(0, n - 1));
  } else if (field.at("rows").value() == "all") {
    for (int64_t i = 0; i < n; ++i) rows.push_back(i);
  } else {
    for (const Field& each : field.at("rows").entries()) rows.push_back(each.integer(0, n - 1));
    if (rows.empty()) field.at("rows").fail("must name a row");
  }
  check_boxes(static_cast<double>(rows.size()));
  for (const int64_t row : rows) {
    Domain domain;
    domain.row = row;
    const auto begin = data.values.begin() + row * d;
    domain.center.assign(begin, begin + d);
    for (const double v : domain.center) {
      if (!std::isfinite(v)) file.fail("row ", row, " holds NaN or infinity");
    }
    out.push_back(std::move(domain));
  }
}

// Features beyond 'only' and 'only_steps' stay at the centre.
void Reader::read_only(const Field& field, Domain& domain) const {
  if (!field.has("only") && !field.has("only_steps")) {
    if (field.has("steps")) field.fail("'steps' goes with 'only_steps'");
    return;
  }
  std::set<int64_t> free;
  if (field.has("only")) {
    const std::vector<int64_t> listed = features(field.at("only"));
    free.insert(listed.begin(), listed.end());
  }
  if (field.has("only_steps")) {
    const Field steps = field.at("steps");
    const int64_t count = steps.integer(1, subject_.inputs), each = subject_.inputs / count;
    if (each * count != subject_.inputs) {
      steps.fail("does not divide the network's ", subject_.inputs, " inputs");
    }
    for (const Field& step : field.at("only_steps").entries()) {
      const int64_t t = step.integer(0, count - 1);
      for (int64_t k = 0; k < each; ++k) free.insert(t * each + k);
    }
  }
  for (int64_t i = 0; i < subject_.inputs; ++i) {
    const auto at = static_cast<size_t>(i);
    if (!free.contains(i)) domain.lo[at] = domain.hi[at] = domain.center[at];
  }
}

void Reader::read_values(const Field& field, Domain& domain) const {
  for (const auto& [key, values] : field.members()) {
    std::vector<double> list = values.numbers();
    std::ranges::sort(list);
    if (list.empty() || std::ranges::adjacent_find(list) != list.end()) {
      values.fail("must list different values");
    }
    if (!domain.values.emplace(feature(key, values), std::move(list)).second) {
      values.fail("is about a feature that has values already");
    }
  }
}

void Reader::read_set(const Field& field, Domain& domain) const {
  for (const char* key : {"ball", "grid", "one_hot"}) {
    if (!field.has(key) || keeps_sets_) continue;
    field.fail("'", key, "' does not go with property ", file_.at("property").text());
  }
  const int64_t d = subject_.inputs;
  if (field.has("grid")) {
    const Field grid = field.at("grid");
    Grid out{std::vector<double>(static_cast<size_t>(d), 0.), {}};
    if (grid.value().is_object()) {
      grid.check_keys({"origin", "step"});
      if (grid.has("origin")) out.origin = grid.at("origin").numbers(d);
      out.step = grid.at("step").numbers(d);
    } else {
      out.step = grid.numbers(d);
    }
    if (std::ranges::any_of(out.step, [](double step) { return step < 0.; })) {
      grid.fail("its steps must be at least 0");
    }
    domain.set.grid = std::make_shared<const Grid>(std::move(out));
  }
  if (field.has("one_hot")) {
    OneHot groups;
    std::set<int64_t> taken;
    for (const Field& each : field.at("one_hot").entries()) {
      std::vector<int32_t>& group = groups.emplace_back();
      for (const int64_t i : features(each)) {
        if (!taken.insert(i).second) each.fail("shares ", feature_name(i), " with another group");
        group.push_back(static_cast<int32_t>(i));
      }
      if (group.size() < 2) each.fail("must name two features at least");
    }
    if (groups.empty()) field.at("one_hot").fail("must hold a group");
    domain.set.one_hot = std::make_shared<const OneHot>(std::move(groups));
  }
  if (!field.has("ball")) return;
  const Field ball = field.at("ball");
  ball.check_keys({"norm", "radius", "center"});
  try {
    domain.set.ball.norm = find_ball_norm(ball.at("norm").text()).norm;
  } catch (const Error& error) {
    ball.at("norm").fail(error.what());
  }
  domain.set.ball.radius = ball.at("radius").number_from(0.);
  if (!(domain.set.ball.radius > 0.)) ball.at("radius").fail("must be above 0");
  if (ball.has("center")) domain.center = ball.at("center").numbers(d);
  if (domain.center.empty()) ball.fail("needs 'center', here or in 'inputs'");
}

std::vector<Domain> Reader::domain(const Field& field) const {
  field.check_keys({"lo", "hi", "center", "eps", "only", "steps", "only_steps", "values", "ball",
                    "grid", "one_hot"});
  const int64_t d = subject_.inputs;
  const bool centered = field.has("center");
  std::vector<Domain> out;
  if (centered) {
    read_center(field.at("center"), out);
  } else {
    if (!field.has("lo") || !field.has("hi")) field.fail("needs 'lo' and 'hi', or 'center'");
    for (const char* key : {"eps", "only", "only_steps", "steps"}) {
      if (field.has(key)) field.fail("'", key, "' goes with 'center'");
    }
    out.emplace_back();
  }
  const std::vector<double> none(static_cast<size_t>(d), kInfinity);
  std::vector<double> lo = none, hi = none, eps(static_cast<size_t>(d), 0.);
  for (double& v : lo) v = -kInfinity;
  if (field.has("lo")) lo = field.at("lo").numbers(d);
  if (field.has("hi")) hi = field.at("hi").numbers(d);
  if (field.has("eps")) eps = field.at("eps").numbers(d);
  if (std::ranges::any_of(eps, [](double e) { return e < 0.; })) {
    field.at("eps").fail("must be at least 0");
  }
  for (Domain& domain : out) {
    domain.lo = lo;
    domain.hi = hi;
    if (centered) {
      for (size_t i = 0; i < eps.size(); ++i) {
        domain.lo[i] = std::max(domain.lo[i], domain.center[i] - eps[i]);
        domain.hi[i] = std::min(domain.hi[i], domain.center[i] + eps[i]);
      }
      read_only(field, domain);
    }
    if (field.has("values")) read_values(field.at("values"), domain);
    read_set(field, domain);
    for (int64_t i = 0; i < d; ++i) {
      const auto at = static_cast<size_t>(i);
      if (const auto it = domain.values.find(i); it != domain.values.end()) {
        domain.lo[at] = it->second.front();
        domain.hi[at] = it->second.back();
      }
      if (domain.lo[at] > domain.hi[at]) {
        field.fail(feature_name(i), " has the lower bound ", domain.lo[at],
                   " above its upper bound ", domain.hi[at]);
      }
      if (std::max(-domain.lo[at], domain.hi[at]) > kLargest) {
        field.fail("the bounds of ", feature_name(i), " are beyond float32");
      }
    }
  }
  return out;
}

std::vector<Domain> Reader::domains() const {
  const Field inputs = file_.at("inputs");
  if (!inputs.value().is_array()) return domain(inputs);
  std::vector<Domain> out;
  for (const Field& each : inputs.entries()) {
    for (Domain& one : domain(each)) out.push_back(std::move(one));
    check_boxes(static_cast<double>(out.size()));
  }
  if (out.empty()) inputs.fail("must hold a box");
  return out;
}

std::vector<Domain> Reader::expand(const std::vector<Domain>& domains) const {
  double count = 0.;
  for (const Domain& domain : domains) {
    double own = 1.;
    for (const auto& [feature, values] : domain.values) own *= static_cast<double>(values.size());
    count += own;
  }
  check_boxes(count);
  std::vector<Domain> out;
  for (const Domain& domain : domains) {
    const size_t begin = out.size();
    out.push_back(domain);
    out.back().values.clear();
    for (const auto& [feature, values] : domain.values) {
      const auto at = static_cast<size_t>(feature);
      const std::vector<Domain> before(out.begin() + static_cast<int64_t>(begin), out.end());
      out.resize(begin);
      for (const Domain& each : before) {
        for (const double value : values) {
          out.push_back(each);
          out.back().lo[at] = out.back().hi[at] = value;
        }
      }
    }
  }
  return out;
}

PlainBoxes Reader::plain_boxes() const {
  PlainBoxes out;
  for (const Domain& domain : boxes()) {
    out.boxes.push_back(inward(domain));
    out.rows.push_back(domain.row);
  }
  return out;
}

void Reader::check_boxes(double count) const {
  if (count > static_cast<double>(kMostBoxes)) {
    file_.refuse("its values multiply to ", brief(count), " boxes, at most ", kMostBoxes,
                 " are taken");
  }
}

Box Reader::inward(const std::vector<double>& lo, const std::vector<double>& hi) const {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  Box box;
  for (size_t i = 0; i < lo.size(); ++i) {
    auto a = static_cast<float>(lo[i]), b = static_cast<float>(hi[i]);
    if (lo[i] == hi[i]) {
      if (static_cast<double>(a) != lo[i]) box.nearest.push_back(static_cast<int32_t>(i));
    } else {
      if (a < lo[i]) a = std::nextafter(a, kFar);
      if (b > hi[i]) b = std::nextafter(b, -kFar);
      box.empty = box.empty || a > b;
    }
    box.lo.push_back(a);
    box.hi.push_back(b);
  }
  return box;
}

Box Reader::inward(const Domain& domain) const {
  Box box = inward(domain.lo, domain.hi);
  InputSet set = domain.set;
  if (set.grid && !box.empty) box.empty = !snap_bounds(*set.grid, box.lo, box.hi);
  if (set.ball.norm != BallNorm::kNone) {
    set.ball = inner_ball(set.ball.norm, domain.center, set.ball.radius, set, box.lo, box.hi);
    box.empty = box.empty || !(set.ball.radius > 0.);
  }
  box.set = std::move(set);
  return box;
}

void Reader::check_size(size_t boxes, const std::vector<Case>& cases, int64_t outputs) const {
  size_t rows = 0;
  for (const Case& each : cases) rows = std::max(rows, each.rows.size());
  if (std::ssize(cases) > kMostCases) {
    file_.refuse("has ", cases.size(), " ways to be violated, at most ", kMostCases, " are taken");
  }
  const double conditions =
      static_cast<double>(boxes) * static_cast<double>(cases.size()) * static_cast<double>(rows);
  // What compares one label with all others needs no matrix.
  const bool label = top1_label({{}, cases}, outputs) >= 0;
  const double numbers = conditions * (label ? 1. : static_cast<double>(outputs));
  const double of_box = numbers / static_cast<double>(boxes);
  const std::string what = str(boxes, " boxes, ", cases.size(), " ways to be violated of ", rows,
                               " conditions, over ", outputs, " outputs");
  if (of_box > static_cast<double>(kMostOfBox)) {
    file_.refuse("multiplies to ", brief(of_box), " numbers a box (", what, "), at most ",
                 kMostOfBox, " are taken");
  }
  if (conditions > static_cast<double>(kMostConditions) ||
      numbers > static_cast<double>(kMostNumbers)) {
    file_.refuse("multiplies to ", brief(conditions), " conditions of ", brief(numbers),
                 " numbers (", what, "), at most ", kMostConditions, " and ", kMostNumbers,
                 " are taken");
  }
}

Property Reader::property(std::vector<Box> boxes, std::vector<int64_t>& rows,
                          const std::vector<Case>& cases, int64_t outputs) const {
  check_size(boxes.size(), cases, outputs);  // before cases are copied
  std::vector<Region> regions;
  for (Box& box : boxes) regions.push_back({std::move(box), cases});
  return property(std::move(regions), rows, outputs);
}

Property Reader::property(std::vector<Region> regions, std::vector<int64_t>& rows,
                          int64_t outputs) const {
  check_size(regions.size(), regions[0].cases, outputs);
  Property out;
  out.inputs = std::ssize(regions[0].box.lo);
  out.outputs = outputs;
  std::vector<int64_t> kept;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].box.empty) continue;
    out.regions.push_back(std::move(regions[i]));
    kept.push_back(rows[i]);
  }
  if (kept.empty()) {
    out.regions = std::move(regions);
  } else {
    rows = std::move(kept);
  }
  return out;
}

std::string whose(const std::vector<int64_t>& rows, const Verdict& verdict, std::string_view row,
                  std::string_view none) {
  const int64_t of = verdict.region < 0 ? -1 : rows[static_cast<size_t>(verdict.region)];
  return of < 0 ? std::string(none) : str(row, " ", of);
}

std::string top_name(const std::vector<std::string>& names, std::span<const double> y) {
  const auto top = std::ranges::max_element(y) - y.begin();
  return names.empty() ? std::to_string(top) : names[static_cast<size_t>(top)];
}

std::string brief(double value) {
  std::ostringstream out;
  out << std::setprecision(6) << value;
  return out.str();
}

LinearRow at_most(int64_t output, double bound) {
  return {{{static_cast<int32_t>(output), 1.}}, bound};
}

LinearRow at_least(int64_t output, double bound) {
  return {{{static_cast<int32_t>(output), -1.}}, -bound};
}

LinearRow below(int64_t output, double bound) {
  return at_most(output, std::nextafter(bound, -kInfinity));
}

LinearRow above(int64_t output, double bound) {
  return at_least(output, std::nextafter(bound, kInfinity));
}

LinearRow no_less(int64_t a, int64_t b) {
  std::vector<Term> terms = {{static_cast<int32_t>(b), 1.}, {static_cast<int32_t>(a), -1.}};
  std::ranges::sort(terms, {}, &Term::output);
  return {std::move(terms), 0.};
}

}  // namespace grapeshot::properties
