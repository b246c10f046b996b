#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {

std::vector<int64_t> Window::torch_padding() const {
  std::vector<int64_t> out;
  for (size_t i = before.size(); i-- > 0;) {
    out.push_back(before[i]);
    out.push_back(after[i]);
  }
  return out;
}

std::vector<int64_t> Window::take_padding(at::IntArrayRef spatial) {
  std::vector<int64_t> padding = torch_padding();
  for (size_t i = 0; ceil && i < kernel.size(); ++i) {
    const int64_t reach = dilations[i] * (kernel[i] - 1) + 1;
    const int64_t padded = spatial[i] + before[i] + after[i];
    int64_t last = (padded - reach + strides[i] - 1) / strides[i] * strides[i];
    if (last >= spatial[i] + before[i]) last -= strides[i];
    padding[2 * (kernel.size() - 1 - i) + 1] += std::max<int64_t>(0, last + reach - padded);
  }
  ceil = false;
  std::ranges::fill(before, 0);
  std::ranges::fill(after, 0);
  return padding;
}

Window plain_window(const Call& call, size_t n, std::vector<int64_t> kernel) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const std::vector<int64_t> ones(n, 1), zeros(2 * n, 0);
  Window w;
  w.kernel = call.node.ints("kernel_shape", std::move(kernel));
  w.strides = call.node.ints("strides", ones);
  w.dilations = call.node.ints("dilations", ones);
  const std::vector<int64_t> pads = call.node.ints("pads", zeros);
  GRAPESHOT_CHECK(w.kernel.size() == n && w.strides.size() == n && w.dilations.size() == n &&
                      pads.size() == 2 * n,
                  kInvalidArgument, "kernel_shape, strides, dilations or pads do not fit ", n,
                  " spatial axes");
  const auto positive = [](const auto& v) {
    return std::ranges::all_of(v, [](int64_t i) { return i > 0 && i <= kMost; });
  };
  GRAPESHOT_CHECK(positive(w.kernel) && positive(w.strides) && positive(w.dilations),
                  kInvalidArgument, "kernel_shape, strides and dilations must be between 1 and ",
                  kMost);
  GRAPESHOT_CHECK(std::ranges::all_of(pads, [](int64_t i) { return i >= -kMost && i <= kMost; }),
                  kInvalidArgument, "pads must be within +-", kMost);
  w.ceil = call.node.i("ceil_mode", 0) != 0;
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(n);
  w.before.assign(pads.begin(), middle);
  w.after.assign(middle, pads.end());
  return w;
}

Window read_window(const Call& call, at::IntArrayRef spatial, std::vector<int64_t> kernel) {
  const size_t n = spatial.size();
  Window w = plain_window(call, n, std::move(kernel));
  const std::string_view automatic = call.node.s("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < n; ++i) {
      const int64_t out = (spatial[i] + w.strides[i] - 1) / w.strides[i];
      const int64_t reach = (out - 1) * w.strides[i] + w.dilations[i] * (w.kernel[i] - 1) + 1;
      const int64_t total = std::max<int64_t>(0, reach - spatial[i]);
      w.before[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.after[i] = total - w.before[i];
    }
  } else if (automatic == "VALID") {
    std::ranges::fill(w.before, 0);
    std::ranges::fill(w.after, 0);
  } else {
    GRAPESHOT_CHECK(automatic == "NOTSET", kUnsupported, "auto_pad is '", automatic, "'");
  }
  if (call.planning) {
    std::vector<int64_t> padded = spatial.vec();
    for (size_t i = 0; i < n; ++i) padded[i] += w.before[i] + w.after[i];
    checked_count(padded);
    for (size_t i = 0; i < n; ++i) {
      const int64_t reach = w.dilations[i] * (w.kernel[i] - 1) + 1;
      GRAPESHOT_CHECK(padded[i] >= reach, kInvalidArgument, "a window of ", reach,
                      " does not fit into ", padded[i], " values of axis ", i + 2);
    }
  }
  return w;
}

}  // namespace grapeshot::onnx
