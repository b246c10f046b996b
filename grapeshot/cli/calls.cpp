#include "grapeshot/cli/calls.h"

namespace grapeshot::cli {
namespace {

constexpr CallRow kTable[] = {
    {"fuzz", declare_fuzz_call},     {"falsify", declare_falsify_call},
    {"diff", declare_diff_call},     {"coverage", declare_coverage_call},
    {"replay", declare_replay_call},
};

}  // namespace

std::span<const CallRow> calls() {
  return kTable;
}

}  // namespace grapeshot::cli
