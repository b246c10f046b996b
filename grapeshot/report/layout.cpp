#include "grapeshot/report/layout.h"

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace grapeshot::report {
namespace {

int64_t size_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool is_channels(int64_t n) {
  return n == 1 || n == 3;
}

std::optional<ImageLayout> of_flat(int64_t n) {
  constexpr int64_t kLeastSide = 16;
  for (const int64_t channels : {1, 3}) {
    if (n % channels != 0) continue;
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(n / channels)));
    if (side >= kLeastSide && side * side * channels == n) return {{side, side, channels, false}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ImageLayout> image_layout(const std::vector<int64_t>& shape) {
  std::vector<int64_t> s = shape;
  if (s.size() == 4 || s.size() == 2) {
    if (s[0] != 1) return std::nullopt;
    s.erase(s.begin());
  }
  if (s.size() == 1) return of_flat(s[0]);
  // [1, T, E] is a sequence of T steps.
  if (s.size() != 3 || (shape.size() == 3 && s[0] == 1)) return std::nullopt;
  if (is_channels(s[0]) && s[1] > 1 && s[2] > 1) return {{s[1], s[2], s[0], false}};
  if (is_channels(s[2]) && s[0] > 1 && s[1] > 1) return {{s[0], s[1], s[2], true}};
  return std::nullopt;
}

std::vector<std::vector<int64_t>> drawn_shapes(const Run& run) {
  std::map<int64_t, std::vector<int64_t>> of_images;  // by number of values
  for (const Finding& each : run.findings) {
    const int64_t size = size_of(each.shape);
    if (each.shape.size() > 2 && image_layout(each.shape)) of_images.emplace(size, each.shape);
  }
  // Who says 1,28,28 or 28,28 means an image.
  std::vector<int64_t> given = run.input_shape;
  while (given.size() == 2 || given.size() == 3) given.insert(given.begin(), 1);
  std::vector<std::vector<int64_t>> out;
  for (const Finding& each : run.findings) {
    const int64_t size = size_of(each.shape);
    const auto known = of_images.find(size);
    if (!given.empty() && size_of(given) == size) {
      out.push_back(given);
    } else if (each.shape.size() <= 2 && known != of_images.end()) {
      out.push_back(known->second);
    } else {
      out.push_back(each.shape);
    }
  }
  return out;
}

}  // namespace grapeshot::report
