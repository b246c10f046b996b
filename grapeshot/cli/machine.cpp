#include "grapeshot/cli/machine.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include <ATen/ATen.h>
#include <torch/version.h>
#include <unistd.h>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/deadline.h"
#include "grapeshot/core/device.h"

#ifndef GRAPESHOT_VERSION
#define GRAPESHOT_VERSION "unknown"
#endif

namespace grapeshot::cli {

std::string version() {
  return GRAPESHOT_VERSION;
}

nlohmann::ordered_json describe_machine() {
  nlohmann::ordered_json out;
  out["grapeshot"] = version();
  out["libtorch"] = TORCH_VERSION;
  std::ifstream info("/proc/cpuinfo");
  std::string processor = "unknown", features;
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != line.npos) processor = line.substr(colon + 2);
    if (!line.starts_with("flags") || !features.empty()) continue;
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) {
      for (const char* wanted : {"avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16",
                                 "amx_int8", "amx_tile"}) {
        if (word == wanted) features += (features.empty() ? "" : " ") + word;
      }
    }
  }
  out["processor"] = processor;
  out["features"] = features;
  out["cores"] = core_count();
  out["torch_kernels"] = at::get_cpu_capability();
  out["devices"] = has_cuda_library() ? nlohmann::ordered_json({"cpu", "cuda"})
                                      : nlohmann::ordered_json({"cpu"});
  return out;
}

double process_age_s() {
  std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
  std::string text;
  std::getline(stat, text);
  // The command name in parentheses may hold spaces; field 22 is the start in ticks since boot.
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 2, text.size())));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  double now = 0.;
  uptime >> now;
  const double ticks = field.empty() ? 0. : std::stod(field);
  return std::max(0., now - ticks / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

namespace {

// A line of /proc/self/status that counts kB.
double status_mib(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stod(line.substr(name.size())) / 1024.;
  }
  return 0.;
}

}  // namespace

double rss_mib() {
  return status_mib("VmRSS:");
}

double peak_rss_mib() {
  // Not getrusage(): its maximum is also that of the process that forked this one.
  return status_mib("VmHWM:");
}

double measured_peak_macs(double seconds) {
  constexpr int64_t kSize = 768;
  const at::Tensor a = at::rand({kSize, kSize}), b = at::rand({kSize, kSize});
  at::Tensor c = at::mm(a, b);
  double best = 0.;
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    const auto begin = Clock::now();
    at::mm_out(c, a, b);
    best = std::max(best, static_cast<double>(kSize * kSize * kSize) / seconds_since(begin));
  }
  return best;
}

}  // namespace grapeshot::cli
