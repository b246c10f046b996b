#include "grapeshot/cli/diff_summary.h"

#include <cstdio>

#include "grapeshot/core/coverage.h"

namespace grapeshot::cli {

using nlohmann::ordered_json;

ordered_json by_name(const std::vector<std::pair<std::string, double>>& values) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, value] : values) out[name] = value;
  return out;
}

double mean(double sum, int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.;
}

ordered_json diff_counts(const diff::DiffProgress& p) {
  return {{"images", p.images},
          {"images_with_differences", p.broken},
          {"images_left_out", p.left_out},
          {"differences", p.differences},
          {"not_finite", p.not_finite},
          {"candidates", p.candidates},
          {"candidates_differing", p.differing},
          {"mean_l2", mean(p.l2_sum, p.differences)},
          {"mean_l2_share", mean(p.share_sum, p.differences)},
          {"seeds_kept", p.kept},
          {"coverage", by_name(p.coverage)}};
}

namespace {

void print_differences(const diff::DiffProgress& p, const ordered_json& summary) {
  std::printf(
      "%lld of %lld images are predicted otherwise nearby: %lld differences in %.1f s "
      "(start-up %.2f s)\n",
      static_cast<long long>(p.broken), static_cast<long long>(p.images),
      static_cast<long long>(p.differences), p.seconds, summary["start_up_s"].get<double>());
  std::printf("mean L2 distance %.4g, %.3g %% of the image's norm; %lld candidates\n",
              mean(p.l2_sum, p.differences), 100. * mean(p.share_sum, p.differences),
              static_cast<long long>(p.candidates));
}

void print_runtimes(const diff::DiffProgress& p, const ordered_json& summary) {
  std::printf(
      "ONNX Runtime %s disagrees near %lld of %lld images: %lld inputs in %.1f s (start-up %.2f "
      "s)\n",
      summary["runtimes"]["onnxruntime"].get<std::string>().c_str(),
      static_cast<long long>(p.broken), static_cast<long long>(p.images),
      static_cast<long long>(p.disagreements), p.seconds, summary["start_up_s"].get<double>());
  std::printf("%lld candidates; of %lld that were apart, %lld are so within rounding\n",
              static_cast<long long>(p.candidates), static_cast<long long>(p.differing),
              static_cast<long long>(p.undecided));
}

}  // namespace

void print_diff(const diff::DiffProgress& p, const ordered_json& summary, int64_t misread) {
  if (summary.contains("runtimes")) {
    print_runtimes(p, summary);
  } else {
    print_differences(p, summary);
  }
  if (summary.contains("as_published")) {
    std::printf(
        "as published %lld would be reported; %lld of them would not pass: %lld predicted "
        "as the image, %lld past a limit, %lld within rounding\n",
        static_cast<long long>(p.differing), static_cast<long long>(p.would_not_pass),
        static_cast<long long>(p.as_image), static_cast<long long>(p.past_limits),
        static_cast<long long>(p.within_rounding));
  }
  if (p.dropped > 0) {
    std::printf("%lld transformed images dropped: too far, or the same as before\n",
                static_cast<long long>(p.dropped));
  }
  if (p.not_finite > 0) {
    std::printf("%lld inputs have outputs that are NaN or infinite\n",
                static_cast<long long>(p.not_finite));
  }
  for (size_t i = 0; i < p.coverage.size(); ++i) {
    const bool share = find_criterion(p.coverage[i].first).share;
    const double scale = share ? 100. : 1.;
    std::printf("%s %.4g%s of the images, %.4g%s with what was tried\n",
                p.coverage[i].first.c_str(), scale * p.before[i].second, share ? " %" : "",
                scale * p.coverage[i].second, share ? " %" : "");
  }
  if (p.left_out > 0) {
    std::printf("%lld images left out: %s\n", static_cast<long long>(p.left_out),
                summary.contains("others") ? "the models do not agree on them as they are"
                                           : "rounding decides what they are");
  }
  if (misread > 0) {
    std::printf("%lld images left out: the model does not predict their labels\n",
                static_cast<long long>(misread));
  }
  std::printf("%s\n", summary["out"].get<std::string>().c_str());
}

}  // namespace grapeshot::cli
