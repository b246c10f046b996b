// grapeshot/cli/machine.h: what this process runs on, and what it has used.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace grapeshot::cli {

/// Of grapeshot, "1.2.3".
[[nodiscard]] std::string version();

/// Version of grapeshot and LibTorch, processor with its vector instructions, cores, devices.
[[nodiscard]] nlohmann::ordered_json describe_machine();

/// Seconds since this process was started, loading of its libraries included.
[[nodiscard]] double process_age_s();

/// Resident memory now.
[[nodiscard]] double rss_mib();
/// Largest resident memory so far.
[[nodiscard]] double peak_rss_mib();

/// Multiply-adds per second of one core in a large float32 matrix product, measured for about
/// `seconds`.
[[nodiscard]] double measured_peak_macs(double seconds);

}  // namespace grapeshot::cli
