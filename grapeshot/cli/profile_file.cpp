#include "grapeshot/cli/profile_file.h"

#include <map>
#include <span>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/io/npz.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMostClasses = 1'000'000;
constexpr const char* kFormat = "grapeshot profile 1";

template <class T>
std::string encode(const at::Tensor& t) {
  const at::Tensor dense = t.contiguous();
  return encode_npy(std::span(dense.const_data_ptr<T>(), static_cast<size_t>(dense.numel())),
                    std::span<const int64_t>(dense.sizes().data(), dense.sizes().size()));
}

// One array of the file as float32.
at::Tensor take(std::map<std::string, NpyArray>& arrays, const std::string& name,
                const std::string& path) {
  const auto it = arrays.find(name);
  GRAPESHOT_CHECK(it != arrays.end(), kParse, path, ": lacks the array '", name,
                  "' of reference statistics");
  return at::from_blob(it->second.values.data(), it->second.shape, at::kDouble).to(at::kFloat);
}

// How the neurons of the layers `names` respond, from arrays whose names begin with `kind`.
std::vector<TapProfile> take_ranges(std::map<std::string, NpyArray>& arrays,
                                    const std::string& kind, const std::vector<std::string>& names,
                                    const std::string& path) {
  std::vector<TapProfile> out;
  for (size_t i = 0; i < names.size(); ++i) {
    TapProfile tap{names[i], take(arrays, str(kind, "low_", i), path),
                   take(arrays, str(kind, "high_", i), path),
                   take(arrays, str(kind, "deviation_", i), path)};
    GRAPESHOT_CHECK(tap.low.dim() == 1 && tap.low.sizes() == tap.high.sizes() &&
                        tap.low.sizes() == tap.deviation.sizes(),
                    kParse, path, ": the arrays of layer ", i, " differ in size");
    GRAPESHOT_CHECK(
        at::isfinite(tap.low).all().item<bool>() && at::isfinite(tap.high).all().item<bool>() &&
            tap.low.le(tap.high).all().item<bool>() && tap.deviation.ge(0).all().item<bool>(),
        kParse, path, ": the ranges of layer ", i, " are none");
    out.push_back(std::move(tap));
  }
  return out;
}

}  // namespace

void write_profile(const std::string& path, const Profile& profile) {
  ordered_json about = {{"format", kFormat},
                        {"model_sha256", profile.model_sha256},
                        {"rows", profile.rows},
                        {"layer", profile.layer},
                        {"taps", ordered_json::array()}};
  std::map<std::string, std::string> arrays;
  const auto add = [&](const std::string& kind, size_t i, const TapProfile& tap) {
    arrays[str(kind, "low_", i)] = encode<float>(tap.low);
    arrays[str(kind, "high_", i)] = encode<float>(tap.high);
    arrays[str(kind, "deviation_", i)] = encode<float>(tap.deviation);
  };
  for (size_t i = 0; i < profile.taps.size(); ++i) {
    const TapProfile& tap = profile.taps[i];
    about["taps"].push_back(tap.name);
    add("", i, tap);
  }
  // Left out where there are none.
  for (size_t i = 0; i < profile.states.size(); ++i) {
    about["states"].push_back(profile.states[i].name);
    add("state_", i, profile.states[i]);
  }
  arrays["traces"] = encode<float>(profile.traces);
  arrays["predicted"] = encode<double>(profile.predicted.to(at::kDouble));
  const std::string text = about.dump();
  const int64_t shape[] = {std::ssize(text)};
  arrays["about"] =
      encode_npy(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()), shape);
  write_npz(path, arrays);
}

Profile read_profile(const std::string& path, const std::string& model_sha256,
                     const std::string& model) {
  std::map<std::string, NpyArray> arrays = read_npz(path);
  std::string text;
  for (const double byte : arrays["about"].values) text += static_cast<char>(byte);
  const auto about = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  GRAPESHOT_CHECK(
      about.is_object() && about.contains("format") && about["format"] == kFormat, kParse, path,
      ": holds no reference statistics; `grapeshot profile MODEL --data X.npy --out stats.npz` "
      "makes them");
  Profile out;
  out.model_sha256 = json_field<std::string>(about, "model_sha256", path);
  GRAPESHOT_CHECK(out.model_sha256 == model_sha256, kInvalidArgument, path,
                  ": the statistics are of another model than ", model, " (its SHA-256 differs)");
  out.rows = json_field<int64_t>(about, "rows", path);
  out.layer = json_field<std::string>(about, "layer", path);
  out.taps =
      take_ranges(arrays, "", json_field<std::vector<std::string>>(about, "taps", path), path);
  if (about.contains("states")) {
    const auto names = json_field<std::vector<std::string>>(about, "states", path);
    out.states = take_ranges(arrays, "state_", names, path);
  }
  out.traces = take(arrays, "traces", path);
  out.predicted = take(arrays, "predicted", path).to(at::kLong);
  const TapProfile* layer = out.find(out.layer);
  GRAPESHOT_CHECK(layer && out.rows > 0 && out.traces.dim() == 2 &&
                      out.traces.size(0) == out.rows && out.traces.size(1) == layer->low.numel() &&
                      out.predicted.dim() == 1 && out.predicted.size(0) == out.rows &&
                      out.predicted.min().item<int64_t>() >= 0 &&
                      out.predicted.max().item<int64_t>() < kMostClasses &&
                      at::isfinite(out.traces).all().item<bool>(),
                  kParse, path, ": its traces do not fit");
  return out;
}

}  // namespace grapeshot::cli
