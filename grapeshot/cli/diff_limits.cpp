#include "grapeshot/cli/diff_limits.h"

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/free_inputs.h"

namespace grapeshot::cli {

void to_network_units(diff::DiffOptions& options, const DataRows& rows) {
  if (rows.same_units()) return;
  const auto factor = rows.common_step();
  GRAPESHOT_CHECK(factor, kInvalidArgument,
                  "diff has one range for all inputs: --mean and --std must be one number each");
  diff::Limits& limits = options.limits;
  GRAPESHOT_CHECK(!(limits.grid > 0.), kInvalidArgument,
                  "--integer and --grid do not go with --data-scale, --mean and --std in diff");
  if (limits.low != 0. || limits.high != 0.) {
    limits.low = rows.lower(0, limits.low);
    limits.high = rows.upper(0, limits.high);
  }
  for (double* length : {&limits.linf, &limits.smooth, &options.step}) *length *= *factor;
}

at::Tensor frozen_inputs(const std::string& frozen, const DataRows& rows) {
  const std::vector<uint8_t> bits = read_frozen(frozen, rows);
  GRAPESHOT_CHECK(std::ssize(bits) == rows.values().size(1), kInvalidArgument, frozen, ": ",
                  bits.size(), " values; one for each of ", rows.values().size(1),
                  " inputs is needed");
  return at::tensor(bits) != 0;
}

void check_range(diff::Limits& limits, const at::Tensor& images, const std::string& data) {
  if (limits.low == 0. && limits.high == 0.) {
    limits.low = images.min().item<double>();
    limits.high = images.max().item<double>();
  }
  GRAPESHOT_CHECK(limits.low < limits.high, kInvalidArgument, data, ": all values are ", limits.low,
                  "; --low and --high say what else is valid");
  GRAPESHOT_CHECK(
      images.ge(limits.low).all().item<bool>() && images.le(limits.high).all().item<bool>(),
      kInvalidArgument, data, ": holds values outside of --low ", limits.low, " to --high ",
      limits.high);
  if (!(limits.grid > 0.)) return;
  const at::Tensor steps = images.to(at::kDouble) / limits.grid;
  GRAPESHOT_CHECK(at::allclose(steps, steps.round(), 0., 1e-3), kInvalidArgument, data,
                  ": holds values that are no multiples of ", limits.grid);
}

}  // namespace grapeshot::cli
