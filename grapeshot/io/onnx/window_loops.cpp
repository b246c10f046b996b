#include "grapeshot/io/onnx/window_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/native/Pool.h>

#include "grapeshot/base/clones.h"
#include "grapeshot/io/onnx/fused.h"

namespace grapeshot::onnx {
namespace {

// Channels that are worked on in a register; where registers are shorter, in several.
constexpr int64_t kWide = 16, kNarrow = 8;
using Wide = float __attribute__((vector_size(4 * kWide)));
using Narrow = float __attribute__((vector_size(4 * kNarrow)));

struct Plane {
  int64_t height, width, channels;
};

struct Steps {
  int64_t rows, columns;  // of the kernel
  int64_t down, right;    // strides
  int64_t spread_down, spread_right;
};

#define GRAPESHOT_INLINE inline __attribute__((always_inline))

template <class Lane>
constexpr int64_t kLaneOf = sizeof(Lane) / sizeof(float);

template <class Lane>
GRAPESHOT_INLINE void load(Lane& lane, const float* from) {
  std::memcpy(&lane, from, sizeof(Lane));
}

template <class Lane>
GRAPESHOT_INLINE void store(float* to, const Lane& lane) {
  std::memcpy(to, &lane, sizeof(Lane));
}

// The last lane ends where the channels do, over others that have been there before.
template <class Lane>
GRAPESHOT_INLINE int64_t within(int64_t first, int64_t channels) {
  return std::min<int64_t>(first, channels - kLaneOf<Lane>);
}

// Neighbours in a row of pixels that share the loads of weights.
constexpr int64_t kPixels = 4;

// One image: x [in.height, in.width] to y [out.height, out.width, O], w [A B, O].
template <class Lane>
GRAPESHOT_INLINE void convolve_by(const float* x, Plane in, const float* w, const float* bias,
                                  float* y, Plane out, Steps s, bool relu) {
  const Lane least = Lane{} + (relu ? 0.f : -std::numeric_limits<float>::infinity());
  for (int64_t begin = 0; begin < out.channels; begin += kLaneOf<Lane>) {
    const int64_t first = within<Lane>(begin, out.channels);
    Lane start;
    load(start, bias + first);
    for (int64_t i = 0; i < out.height; ++i) {
      for (int64_t j = 0; j < out.width; j += kPixels) {
        // The last ones of a row are done with others that have been there before.
        const int64_t here = std::min(j, out.width - kPixels);
        const float* from = x + i * s.down * in.width + here * s.right;
        Lane sum0 = start, sum1 = start, sum2 = start, sum3 = start;
        for (int64_t a = 0; a < s.rows; ++a) {
          for (int64_t b = 0; b < s.columns; ++b) {
            const float* v = from + a * s.spread_down * in.width + b * s.spread_right;
            Lane weight;
            load(weight, w + (a * s.columns + b) * out.channels + first);
            sum0 += v[0] * weight;
            sum1 += v[s.right] * weight;
            sum2 += v[2 * s.right] * weight;
            sum3 += v[3 * s.right] * weight;
          }
        }
        // As torch: NaN stays.
        float* to = y + (i * out.width + here) * out.channels + first;
        store(to, sum0 < least ? least : sum0);
        store(to + out.channels, sum1 < least ? least : sum1);
        store(to + 2 * out.channels, sum2 < least ? least : sum2);
        store(to + 3 * out.channels, sum3 < least ? least : sum3);
      }
    }
  }
}

// One image: x [in.height, in.width, C] to y [out.height, out.width, C].
template <class Lane>
GRAPESHOT_INLINE void pool_by(const float* x, Plane in, float* y, Plane out, Steps s, int64_t top,
                              int64_t left) {
  for (int64_t i = 0; i < out.height; ++i) {
    const int64_t row = i * s.down - top;
    for (int64_t j = 0; j < out.width; ++j) {
      const int64_t column = j * s.right - left;
      for (int64_t begin = 0; begin < out.channels; begin += kLaneOf<Lane>) {
        const int64_t first = within<Lane>(begin, out.channels);
        Lane most = Lane{} - std::numeric_limits<float>::infinity(), nan = {};
        for (int64_t a = 0; a < s.rows; ++a) {
          const int64_t r = row + a * s.spread_down;
          if (r < 0 || r >= in.height) continue;
          for (int64_t b = 0; b < s.columns; ++b) {
            const int64_t c = column + b * s.spread_right;
            if (c < 0 || c >= in.width) continue;
            Lane v;
            load(v, x + (r * in.width + c) * out.channels + first);
            most = v > most ? v : most;
            nan = v == v ? nan : v;
          }
        }
        store(y + (i * out.width + j) * out.channels + first, nan == nan ? most : nan);
      }
    }
  }
}

// Adds g to where y, both of a window's channels from `first` on, was taken from in x.
template <class Lane>
GRAPESHOT_INLINE void unpool_window(const float* x, Plane in, const float* y, const float* g,
                                    float* to, Steps s, int64_t row, int64_t column,
                                    int64_t first) {
  Lane most, rest;  // of g, what has found no place yet
  load(most, y + first);
  load(rest, g + first);
  for (int64_t a = 0; a < s.rows; ++a) {
    const int64_t r = row + a * s.spread_down;
    if (r < 0 || r >= in.height) continue;
    for (int64_t b = 0; b < s.columns; ++b) {
      const int64_t c = column + b * s.spread_right;
      if (c < 0 || c >= in.width) continue;
      const int64_t at = (r * in.width + c) * in.channels + first;
      Lane v, sum;
      load(v, x + at);
      load(sum, to + at);
      const Lane here = v == most ? rest : Lane{};
      rest = v == most ? Lane{} : rest;
      store(to + at, sum + here);
    }
  }
}

// All windows: y and g [out.height, out.width, C].
template <class Lane>
GRAPESHOT_INLINE void unpool_by(const float* x, Plane in, const float* y, const float* g, float* to,
                                Plane out, Steps s, int64_t top, int64_t left) {
  const int64_t channels = out.channels;
  for (int64_t i = 0; i < out.height; ++i) {
    const int64_t row = i * s.down - top;
    for (int64_t j = 0; j < out.width; ++j, y += channels, g += channels) {
      const int64_t column = j * s.right - left;
      int64_t k = 0;
      for (; k + kLaneOf<Lane> <= channels; k += kLaneOf<Lane>) {
        unpool_window<Lane>(x, in, y, g, to, s, row, column, k);
      }
      for (; k < channels; ++k) unpool_window<float>(x, in, y, g, to, s, row, column, k);
    }
  }
}

// The same with the mean; every window lies inside.
template <class Lane>
GRAPESHOT_INLINE void mean_by(const float* x, Plane in, float* y, Plane out, Steps s) {
  const float share = 1.f / static_cast<float>(s.rows * s.columns);
  for (int64_t i = 0; i < out.height; ++i) {
    for (int64_t j = 0; j < out.width; ++j) {
      for (int64_t begin = 0; begin < out.channels; begin += kLaneOf<Lane>) {
        const int64_t first = within<Lane>(begin, out.channels);
        const float* from = x + (i * s.down * in.width + j * s.right) * out.channels + first;
        Lane sum = {};
        for (int64_t a = 0; a < s.rows; ++a) {
          for (int64_t b = 0; b < s.columns; ++b) {
            Lane v;
            load(v, from + (a * in.width + b) * out.channels);
            sum += v;
          }
        }
        store(y + (i * out.width + j) * out.channels + first, sum * share);
      }
    }
  }
}

// Each for both widths, compiled for every level of the processor.
GRAPESHOT_CLONES
void convolve(const float* x, Plane in, const float* w, const float* bias, float* y, Plane out,
              Steps s, bool relu) {
  if (out.channels >= kWide) {
    convolve_by<Wide>(x, in, w, bias, y, out, s, relu);
  } else {
    convolve_by<Narrow>(x, in, w, bias, y, out, s, relu);
  }
}

GRAPESHOT_CLONES
void pool(const float* x, Plane in, float* y, Plane out, Steps s, int64_t top, int64_t left) {
  if (out.channels >= kWide) {
    pool_by<Wide>(x, in, y, out, s, top, left);
  } else {
    pool_by<Narrow>(x, in, y, out, s, top, left);
  }
}

GRAPESHOT_CLONES
void unpool(const float* x, Plane in, const float* y, const float* g, float* to, Plane out, Steps s,
            int64_t top, int64_t left) {
  if (out.channels >= kWide) {
    unpool_by<Wide>(x, in, y, g, to, out, s, top, left);
  } else {
    unpool_by<Narrow>(x, in, y, g, to, out, s, top, left);
  }
}

GRAPESHOT_CLONES
void mean(const float* x, Plane in, float* y, Plane out, Steps s) {
  if (out.channels >= kWide) {
    mean_by<Wide>(x, in, y, out, s);
  } else {
    mean_by<Narrow>(x, in, y, out, s);
  }
}

Steps steps_of(const Window& w) {
  return {w.kernel[0], w.kernel[1], w.strides[0], w.strides[1], w.dilations[0], w.dilations[1]};
}

int64_t pooled(int64_t size, const Window& w, size_t axis) {
  return at::native::pooling_output_shape<int64_t>(size, w.kernel[axis], w.before[axis],
                                                   w.strides[axis], w.dilations[axis], w.ceil);
}

// Windows that fit into `size`, padding included.
int64_t reach(int64_t size, const Window& w, size_t axis) {
  return (size - w.dilations[axis] * (w.kernel[axis] - 1) - 1) / w.strides[axis] + 1;
}

// What `loop` makes of each image of x [M, in], as [M, out] with channels last.
template <class Loop>
at::Tensor each_image(const at::Tensor& x, Plane in, Plane out, Loop loop) {
  at::Tensor y = at::empty({x.size(0), out.channels, out.height, out.width},
                           x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const auto* from = x.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.size(0); ++i) {
    loop(from, to);
    from += in.height * in.width * in.channels;
    to += out.height * out.width * out.channels;
  }
  return y;
}

}  // namespace

bool is_one_channel(const at::Tensor& x, const at::Tensor& weight, int64_t groups,
                    const Window& window) {
  return groups == 1 && x.dim() == 4 && x.size(1) == 1 && weight.size(0) >= kNarrow &&
         x.device().is_cpu() && x.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && x.numel() > 0 &&
         reach(x.size(3) + window.before[1] + window.after[1], window, 1) >= kPixels;
}

at::Tensor conv_one_channel(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const Window& window, bool relu) {
  const std::vector<int64_t> pads = window.torch_padding();
  const bool padded = std::ranges::any_of(pads, [](int64_t p) { return p != 0; });
  const at::Tensor from = (padded ? at::constant_pad_nd(x, pads) : x).contiguous();
  const Plane in{from.size(2), from.size(3), 1};
  const Plane out{reach(in.height, window, 0), reach(in.width, window, 1), weight.size(0)};
  const at::Tensor w = weight.flatten(1).t().contiguous();
  const at::Tensor b = bias.defined() ? bias.contiguous() : at::zeros({out.channels}, w.options());
  const Steps steps = steps_of(window);
  return each_image(from, in, out, [&](const float* image, float* to) {
    convolve(image, in, w.const_data_ptr<float>(), b.const_data_ptr<float>(), to, out, steps, relu);
  });
}

bool is_pooled_last(const at::Tensor& x, const Window& window) {
  return x.dim() == 4 && x.size(1) >= kNarrow && x.device().is_cpu() &&
         x.scalar_type() == at::kFloat && x.numel() > 0 && !records(x) && window.symmetric() &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor max_pool_last(const at::Tensor& x, const Window& window) {
  const Plane in{x.size(2), x.size(3), x.size(1)};
  const Plane out{pooled(in.height, window, 0), pooled(in.width, window, 1), in.channels};
  const Steps steps = steps_of(window);
  return each_image(x, in, out, [&](const float* from, float* to) {
    pool(from, in, to, out, steps, window.before[0], window.before[1]);
  });
}

at::Tensor max_pool_last_gradient(const at::Tensor& x, const at::Tensor& y,
                                  const at::Tensor& gradient, const Window& window) {
  const auto last = at::MemoryFormat::ChannelsLast;
  const at::Tensor most = y.contiguous(last), g = gradient.contiguous(last);
  const Plane in{x.size(2), x.size(3), x.size(1)}, out{y.size(2), y.size(3), y.size(1)};
  at::Tensor to = at::empty(x.sizes(), x.options().memory_format(last)).zero_();
  const int64_t from = in.height * in.width * in.channels;
  const int64_t pooled_to = out.height * out.width * out.channels;
  for (int64_t i = 0; i < x.size(0); ++i) {
    unpool(x.const_data_ptr<float>() + i * from, in, most.const_data_ptr<float>() + i * pooled_to,
           g.const_data_ptr<float>() + i * pooled_to, to.mutable_data_ptr<float>() + i * from, out,
           steps_of(window), window.before[0], window.before[1]);
  }
  return to;
}

at::Tensor mean_pool_last(const at::Tensor& x, const Window& window) {
  const Plane in{x.size(2), x.size(3), x.size(1)};
  const Plane out{reach(in.height, window, 0), reach(in.width, window, 1), in.channels};
  const Steps steps = steps_of(window);
  return each_image(x, in, out,
                    [&](const float* from, float* to) { mean(from, in, to, out, steps); });
}

namespace {

// Without their sign, floats are in the order of their bits, NaN behind all others.
constexpr int32_t kNoSign = 0x7fffffff;

GRAPESHOT_CLONES void largest_last(const int32_t* x, int64_t pixels, int64_t channels,
                                   int32_t* most) {
  for (int64_t p = 0; p < pixels; ++p, x += channels) {
    for (int64_t c = 0; c < channels; ++c) most[c] = std::max(most[c], x[c] & kNoSign);
  }
}

GRAPESHOT_CLONES int32_t largest(const int32_t* x, int64_t n) {
  int32_t most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, x[i] & kNoSign);
  return most;
}

}  // namespace

at::Tensor largest_of_channels(const at::Tensor& x) {
  const int64_t n = x.size(0), channels = x.size(1), pixels = x.size(2) * x.size(3);
  const bool last = x.is_contiguous(at::MemoryFormat::ChannelsLast);
  if (x.scalar_type() != at::kFloat || !x.device().is_cpu() || (!last && !x.is_contiguous())) {
    return x.abs().flatten(2).amax(2);
  }
  const at::Tensor out = at::zeros({n, channels}, x.options().memory_format(std::nullopt));
  const at::Tensor bits = x.view(at::kInt), out_bits = out.view(at::kInt);
  const auto* from = bits.const_data_ptr<int32_t>();
  auto* to = out_bits.mutable_data_ptr<int32_t>();
  for (int64_t i = 0; i < n; ++i, from += channels * pixels, to += channels) {
    if (last) {
      largest_last(from, pixels, channels, to);
    } else {
      for (int64_t c = 0; c < channels; ++c) to[c] = largest(from + c * pixels, pixels);
    }
  }
  return out;
}

}  // namespace grapeshot::onnx
