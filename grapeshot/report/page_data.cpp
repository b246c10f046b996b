#include "grapeshot/report/page_data.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "grapeshot/base/error.h"
#include "grapeshot/report/cluster.h"
#include "grapeshot/report/escape.h"
#include "grapeshot/report/layout.h"
#include "grapeshot/report/picture.h"

namespace grapeshot::report {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostOutputs = 12;  // of a finding
constexpr size_t kMostFeatures = 8;  // that changed, in words
constexpr size_t kMostPoints = 256;  // of a curve

// Five digits are more than a page shows; JSON has no NaN and no infinity, the page says the word.
ordered_json rounded(double value) {
  const std::string text = number(value, 5);
  return std::isfinite(value) ? ordered_json(std::strtod(text.c_str(), nullptr))
                              : ordered_json(text);
}

ordered_json rounded(const std::optional<double>& value) {
  return value ? rounded(*value) : ordered_json();
}

std::string name_at(const std::vector<std::string>& names, size_t i, const char* prefix) {
  return i < names.size() ? names[i] : str(prefix, i);
}

size_t argmax(const std::vector<double>& y) {
  return static_cast<size_t>(std::ranges::max_element(y) - y.begin());
}

// The outputs to show: all, or the largest before and after.
std::vector<size_t> outputs_shown(const Finding& finding) {
  std::vector<size_t> all(finding.after.size());
  std::iota(all.begin(), all.end(), size_t{0});
  if (all.size() <= kMostOutputs) return all;
  std::set<size_t> chosen;
  for (const std::vector<double>* y : {&finding.before, &finding.after}) {
    if (y->size() != all.size()) continue;
    std::ranges::partial_sort(all, all.begin() + kMostOutputs / 2,
                              [&](size_t a, size_t b) { return (*y)[a] > (*y)[b]; });
    chosen.insert(all.begin(), all.begin() + kMostOutputs / 2);
  }
  return {chosen.begin(), chosen.end()};
}

class Details {
 public:
  explicit Details(const Run& run) : run_(run), shapes_(drawn_shapes(run)) {}

  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] const ordered_json& pictures() const { return pictures_; }

  // Its outputs, its change in numbers, and what it looks like.
  void add(size_t f, ordered_json& out) {
    const Finding& finding = run_.findings[f];
    for (const size_t i : outputs_shown(finding)) {
      const bool known = finding.before.size() == finding.after.size();
      out["y"].push_back({name_at(run_.class_names, i, "Y_"),
                          known ? rounded(finding.before[i]) : ordered_json(),
                          rounded(finding.after[i])});
    }
    const std::vector<float> change = change_of(finding);
    if (change.empty()) return;
    const std::optional<ImageLayout> layout = image_layout(shapes_[f]);
    if (layout) {
      add_image(finding, *layout, change, out);
    } else {
      add_features(finding, change, out);
      add_curve(finding, change, out);
    }
    bytes_ += out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).size();
  }

  // Index of the mean change of a cluster's images, or null.
  ordered_json mean_change(const Cluster& cluster) {
    const size_t first = cluster.findings[0];
    const std::optional<ImageLayout> layout = image_layout(shapes_[first]);
    if (!layout || cluster.findings.size() < 2) return {};
    constexpr size_t kMostAveraged = 200;
    std::vector<float> mean(run_.findings[first].input.size(), 0.f);
    for (const size_t f :
         std::span(cluster.findings).first(std::min(kMostAveraged, cluster.findings.size()))) {
      if (shapes_[f] != shapes_[first]) return {};
      const std::vector<float> change = change_of(run_.findings[f]);
      for (size_t i = 0; i < change.size(); ++i) mean[i] += change[i];
    }
    const double largest = largest_of(mean);
    if (!(largest > 0.)) return {};
    return keep(change_picture(*layout, mean, largest));
  }

 private:
  static double largest_of(const std::vector<float>& change) {
    double out = 0.;
    for (const float each : change) out = std::max(out, std::abs(static_cast<double>(each)));
    return out;
  }

  static std::vector<float> change_of(const Finding& finding) {
    std::vector<float> out(finding.input.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = finding.input[i] - finding.original[i];
    return out;
  }

  // Findings of one instance share their original.
  ordered_json keep(const std::string& picture) {
    const auto [known, added] = known_.emplace(picture, pictures_.size());
    if (added) {
      pictures_.push_back(picture);
      bytes_ += picture.size();
    }
    return known->second;
  }

  void add_image(const Finding& finding, const ImageLayout& layout,
                 const std::vector<float>& change, ordered_json& out) {
    const Range range = range_of(finding.original, finding.input);
    const double largest = largest_of(change);
    out["g"] = {keep(picture(layout, finding.original, range)),
                keep(picture(layout, finding.input, range)),
                keep(change_picture(layout, change, largest > 0. ? largest : 1.))};
    if (largest > 0.) out["a"] = rounded((range.white - range.black) / largest);
  }

  // The inputs that changed most, by name.
  void add_features(const Finding& finding, const std::vector<float>& change, ordered_json& out) {
    std::vector<size_t> order;
    for (size_t i = 0; i < change.size(); ++i) {
      if (change[i] != 0.f) order.push_back(i);
    }
    const size_t shown = std::min(kMostFeatures, order.size());
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(shown),
                              std::greater<>(), [&](size_t i) { return std::abs(change[i]); });
    for (const size_t i : std::span(order).first(shown)) {
      out["f"].push_back({name_at(run_.feature_names, i, "X_"),
                          rounded(static_cast<double>(finding.original[i])),
                          rounded(static_cast<double>(finding.input[i]))});
    }
  }

  // Of every few neighbours the one that changed most.
  static void add_curve(const Finding& finding, const std::vector<float>& change,
                        ordered_json& out) {
    const size_t block = (change.size() + kMostPoints - 1) / kMostPoints;
    for (size_t begin = 0; begin < change.size(); begin += block) {
      const size_t end = std::min(begin + block, change.size());
      size_t i = begin;
      for (size_t j = begin; j < end; ++j) i = std::abs(change[j]) > std::abs(change[i]) ? j : i;
      out["o"].push_back(rounded(static_cast<double>(finding.original[i])));
      out["x"].push_back(rounded(static_cast<double>(finding.input[i])));
    }
  }

  const Run& run_;
  std::vector<std::vector<int64_t>> shapes_;
  std::map<std::string, size_t> known_;
  ordered_json pictures_ = ordered_json::array();
  size_t bytes_ = 0;
};

ordered_json finding_json(const Run& run, const Finding& finding) {
  ordered_json out = {{"id", finding.id},
                      {"i", finding.instance},
                      {"m", rounded(finding.margin)},
                      {"w", describe(run, finding)},
                      {"r", replay_line(finding)}};
  if (!finding.mutation.empty()) out["u"] = finding.mutation;
  if (!finding.notes.empty()) out["n"] = finding.notes;
  if (finding.pair) out["p"] = true;
  const bool classes = finding.property == "top1" || finding.property == "prediction";
  if (classes && !finding.after.empty() && finding.before.size() == finding.after.size()) {
    out["c"] = {name_at(run.class_names, argmax(finding.before), "class "),
                name_at(run.class_names, argmax(finding.after), "class ")};
  }
  int64_t changed = 0;
  double largest = 0., squares = 0.;
  for (size_t i = 0; i < finding.input.size(); ++i) {
    const double by =
        static_cast<double>(finding.input[i]) - static_cast<double>(finding.original[i]);
    changed += by != 0. ? 1 : 0;
    largest = std::max(largest, std::abs(by));
    squares += by * by;
  }
  if (!finding.input.empty()) {
    out["l"] = {changed, finding.input.size(), rounded(largest), rounded(std::sqrt(squares))};
  }
  return out;
}

// Broken instances first, where not all fit.
ordered_json instance_rows(const Run& run) {
  std::vector<size_t> order(run.instances.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() > kMostInstanceRows) {
    std::ranges::stable_partition(order, [&](size_t i) { return run.instances[i].broken(); });
    order.resize(kMostInstanceRows);
  }
  ordered_json out = ordered_json::array();
  for (const size_t i : order) {
    const Instance& each = run.instances[i];
    out.push_back({i, each.name, each.model, each.findings, rounded(each.best_margin),
                   each.candidates ? ordered_json(*each.candidates) : ordered_json(),
                   rounded(each.seconds_to_first)});
  }
  return out;
}

}  // namespace

PageData page_data(const Run& run) {
  PageData out;
  ordered_json findings = ordered_json::array(), groups = ordered_json::array();
  for (const Finding& each : run.findings) findings.push_back(finding_json(run, each));
  const std::vector<Cluster> clusters = find_clusters(run);
  Details details(run);
  for (const Cluster& each : clusters) {
    std::string title = with_class_names(each.violated, run.class_names);
    if (title.empty()) title = each.property;
    if (each.directions > 1) title += str(" · direction ", each.direction + 1);
    std::set<size_t> instances;
    for (const size_t f : each.findings) instances.insert(run.findings[f].instance);
    groups.push_back({{"t", title},
                      {"k", each.property},
                      {"i", instances.size()},
                      {"f", each.findings},
                      {"d", details.bytes() < kMostDetailBytes / 4 ? details.mean_change(each)
                                                                   : ordered_json()}});
  }
  // The deepest of every cluster, then the second ones, and so on.
  bool more = true;
  for (size_t rank = 0; more; ++rank) {
    more = false;
    for (const Cluster& each : clusters) {
      if (rank >= each.findings.size() || details.bytes() > kMostDetailBytes) continue;
      more = true;
      details.add(each.findings[rank], findings[each.findings[rank]]);
      ++out.drawn;
    }
  }
  ordered_json rows = instance_rows(run);
  out.rows = std::ssize(rows);
  out.clusters = std::ssize(clusters);
  std::vector<std::string> models;
  for (const Model& each : run.models) models.push_back(each.name());
  out.json = {{"noun", noun(run)},
              {"models", models},
              {"instances", std::move(rows)},
              {"findings", std::move(findings)},
              {"clusters", std::move(groups)},
              {"pictures", details.pictures()}};
  return out;
}

}  // namespace grapeshot::report
