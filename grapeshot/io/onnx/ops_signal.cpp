// grapeshot/io/onnx/ops_signal.cpp: Fourier transforms, windows and mel scales.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {
namespace {

// [..., 1] as real numbers [...], [..., 2] as complex ones.
at::Tensor signal_of(const at::Tensor& x) {
  GRAPESHOT_CHECK(x.dim() >= 3 && (x.size(-1) == 1 || x.size(-1) == 2), kInvalidArgument,
                  "the last axis must be 1 or 2, real and imaginary parts");
  return x.size(-1) == 1 ? x.squeeze(-1) : at::view_as_complex(x.contiguous());
}

// The spectrum of real or complex numbers along an axis, with a last axis of two.
at::Tensor spectrum(const at::Tensor& x, int64_t length, int64_t axis, bool one_sided) {
  if (one_sided && !x.is_complex()) return at::view_as_real(at::fft_rfft(x, length, axis));
  const at::Tensor y = at::fft_fft(x, length, axis);
  return at::view_as_real(one_sided ? y.slice(axis, 0, length / 2 + 1) : y);
}

// The axis is an attribute up to opset 19, then an input.
Values fourier(const Call& call) {
  const Batch batch(call);
  const at::Tensor& x = batch.in[0];
  const int64_t rank = x.dim() - 1;
  int64_t axis = call.opset < 20 ? call.node.i("axis", 1) : -2;
  if (call.opset >= 20 && call.has(2)) axis = constant_integer(call, 2);
  axis = normal_axis(axis, rank) + 1;
  GRAPESHOT_CHECK(axis < rank, kInvalidArgument, "the axis must not be the last one");
  const bool inverse = call.node.i("inverse", 0) != 0, one_sided = call.node.i("onesided", 0) != 0;
  int64_t length = inverse && one_sided ? 2 * (x.size(axis) - 1) : x.size(axis);
  if (call.has(1)) length = constant_integer(call, 1);
  GRAPESHOT_CHECK(length > 0, kInvalidArgument, "the length is ", length);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[static_cast<size_t>(axis)] = length;
  checked_count(sizes);
  const at::Tensor from = signal_of(x);
  const at::Tensor y = !inverse    ? spectrum(from, length, axis, one_sided)
                       : one_sided ? at::fft_irfft(from, length, axis).unsqueeze(-1)
                                   : at::view_as_real(at::fft_ifft(from, length, axis));
  return {batch.value(y)};
}

// Spectra of windows along a signal [N, B, L, 1 or 2].
Values short_time_fourier(const Call& call) {
  const Batch batch(call);
  const at::Tensor x = signal_of(batch.in[0]);
  GRAPESHOT_CHECK(x.dim() == 3, kInvalidArgument, "the signal has ", x.dim(), " axes, not 3");
  const int64_t step = constant_integer(call, 1);
  int64_t length = call.has(2) ? call.in[2].t.numel() : x.size(2);
  if (call.has(3)) length = constant_integer(call, 3);
  GRAPESHOT_CHECK(step > 0 && length > 0 && length <= x.size(2), kInvalidArgument, "frames of ",
                  length, " every ", step, " do not fit a signal of ", x.size(2));
  checked_count({x.size(0) * x.size(1), (x.size(2) - length) / step + 1, length});
  at::Tensor frames = x.unfold(2, length, step);
  if (call.has(2)) frames = frames * call.in[2].t;
  const bool one_sided = call.node.i("onesided", 1) != 0;
  return {batch.value(spectrum(frames, length, 3, one_sided))};
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), n the size, or one less where it is not periodic.
template <int kNumerator0, int kNumerator1, int kNumerator2, int kDenominator>
Values window(const Call& call) {
  const int64_t size = constant_integer(call, 0);
  checked_count({size});
  const int64_t period = call.node.i("periodic", 1) != 0 ? size : size - 1;
  const at::Tensor turn = at::arange(size, at::TensorOptions(at::kDouble)) *
                          (2. * std::numbers::pi / static_cast<double>(period));
  const at::Tensor y = kNumerator0 - kNumerator1 * turn.cos() + kNumerator2 * (turn * 2.).cos();
  return {Value{(y / kDenominator).to(type_of(call, "output_datatype", call.real)), false}};
}

// Triangles that weigh the bins of a spectrum into bands of equal width on the mel scale.
Values mel_weight_matrix(const Call& call) {
  const int64_t bands = constant_integer(call, 0), length = constant_integer(call, 1);
  const int64_t rate = constant_integer(call, 2);
  const double lowest = constant_number(call, 3), highest = constant_number(call, 4);
  GRAPESHOT_CHECK(bands >= 0 && length >= 0 && rate > 0 && lowest >= 0. && highest >= lowest &&
                      std::isfinite(highest),
                  kInvalidArgument, bands, " bands of ", length, " values at a rate of ", rate,
                  " from ", lowest, " to ", highest, " Hz");
  const int64_t bins = length / 2 + 1;
  checked_count({bins, bands + 2});
  const auto mel = [](double hertz) { return 2595. * std::log10(1. + hertz / 700.); };
  const double from = mel(lowest), step = (mel(highest) - from) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;  // bins
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz =
        700. * (std::pow(10., (from + step * static_cast<double>(i)) / 2595.) - 1.);
    const double edge = static_cast<double>(length + 1) * hertz / static_cast<double>(rate);
    edges.push_back(static_cast<int64_t>(std::floor(std::min(edge, 0x1p40))));
  }
  GRAPESHOT_CHECK(edges.back() <= bins, kInvalidArgument, "the highest frequency lies beyond bin ",
                  bins - 1);
  at::Tensor out = at::zeros({bins, bands}, at::kDouble);
  auto weight = out.accessor<double, 2>();
  for (int64_t i = 0; i < bands; ++i) {
    const int64_t left = edges[static_cast<size_t>(i)], middle = edges[static_cast<size_t>(i) + 1],
                  right = edges[static_cast<size_t>(i) + 2];
    const auto share = [](int64_t part, int64_t whole) {
      return static_cast<double>(part) / static_cast<double>(whole);
    };
    for (int64_t k = left; k < std::min(middle, bins); ++k) {
      weight[k][i] = share(k - left, middle - left);
    }
    if (middle < bins) weight[middle][i] = 1.;
    for (int64_t k = middle + 1; k < std::min(right, bins); ++k) {
      weight[k][i] = share(right - k, right - middle);
    }
  }
  return {Value{out.to(type_of(call, "output_datatype", call.real)), false}};
}

constexpr Operator kTable[] = {
    {"BlackmanWindow", 17, 1, kNoInput, "The window of Blackman.", window<42, 50, 8, 100>},
    {"DFT", 17, 1, kFirstInput, "Discrete Fourier transform, and back.", fourier},
    {"HammingWindow", 17, 1, kNoInput, "The window of Hamming.", window<25, 21, 0, 46>},
    {"HannWindow", 17, 1, kNoInput, "The window of Hann.", window<1, 1, 0, 2>},
    {"MelWeightMatrix", 17, 5, kNoInput, "From the bins of a spectrum to bands of the mel scale.",
     mel_weight_matrix},
    {"STFT", 17, 2, kFirstInput, "Spectra of windows along a signal.", short_time_fourier},
};

}  // namespace

std::span<const Operator> signal_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
