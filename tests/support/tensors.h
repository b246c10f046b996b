// tests/support/tensors.h: tensors for tests, written and compared briefly.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

namespace grapeshot::testing {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// float32 [rows, columns] of `values` in row-major order.
inline at::Tensor matrix(int64_t rows, int64_t columns, const std::vector<float>& values) {
  return at::tensor(values).reshape({rows, columns});
}

inline at::Tensor vector(const std::vector<float>& values) {
  return at::tensor(values);
}

inline at::Tensor indices(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

inline at::Tensor flags(const std::vector<int64_t>& values) {
  return indices(values).to(at::kBool);
}

inline std::vector<float> floats(const at::Tensor& t) {
  const at::Tensor flat = t.to(at::kFloat).contiguous();
  const auto* data = flat.const_data_ptr<float>();
  return {data, data + flat.numel()};
}

inline std::vector<double> doubles(const at::Tensor& t) {
  const at::Tensor flat = t.to(at::kDouble).contiguous();
  const auto* data = flat.const_data_ptr<double>();
  return {data, data + flat.numel()};
}

inline std::vector<int64_t> longs(const at::Tensor& t) {
  const at::Tensor flat = t.to(at::kLong).contiguous();
  const auto* data = flat.const_data_ptr<int64_t>();
  return {data, data + flat.numel()};
}

/// Whether a is within `tolerance` of b (doctest's Approx adds 1 to what its epsilon is a share
/// of).
inline bool near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance;
}

/// Largest |a - b| over 1 + |b|; +inf when the shapes differ or one is not finite where the other
/// is.
inline double relative_gap(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return kInf;
  if (a.numel() == 0) return 0.;
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const double gap = ((x - y).abs() / (y.abs() + 1.)).max().item<double>();
  return std::isnan(gap) ? kInf : gap;
}

}  // namespace grapeshot::testing
