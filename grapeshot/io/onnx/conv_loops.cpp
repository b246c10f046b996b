#include "grapeshot/io/onnx/conv_loops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/clones.h"

namespace grapeshot::onnx {
namespace {

constexpr int64_t kLane = 16;  // floats of a vector; in several registers where those are shorter
using Lane = float __attribute__((vector_size(4 * kLane)));
using Keep = int32_t __attribute__((vector_size(4 * kLane)));
constexpr int64_t kMostVectors = 4;

int64_t vectors_of(int64_t n) {
  return (n + kLane - 1) / kLane;
}

// Weights are packed as [blocks of at most kMostVectors vectors][depth][vectors of the
// block][kLane].

struct Forward {
  const float* packed;
  int64_t vectors;  // of filters
  int64_t depth;    // floats of a window
  const float* bias;
  int64_t rows;     // of the kernel
  int64_t run;      // floats of a window's row
  int64_t pitch;    // floats from one row of the input to the next
  int64_t filters;  // floats of an output pixel
  bool relu;
};

struct Backward {
  const float* packed;
  int64_t vectors;             // of a window, every row of it filled up
  int64_t depth, filters;      // floats of a gradient's pixel
  const int64_t* offsets;      // of every vector from the window's first float
  const int32_t* const* keep;  // of every vector: -1 for what is the window's, else 0
};

struct Image {
  const float* from;
  float* to;
  const int64_t* from_offsets;  // of every pixel
  const int64_t* to_offsets;
  int64_t pixels;
};

namespace plain {
constexpr int kPixels[kMostVectors] = {2, 1, 1, 1};
#include "grapeshot/io/onnx/conv_tiles.inc"
}  // namespace plain

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define GRAPESHOT_LEVELS 1
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {  // 16 registers of 8 floats
constexpr int kPixels[kMostVectors] = {6, 3, 2, 1};
#include "grapeshot/io/onnx/conv_tiles.inc"
}  // namespace avx2
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")
namespace avx512 {  // 32 registers of 16 floats
constexpr int kPixels[kMostVectors] = {14, 12, 8, 6};
#include "grapeshot/io/onnx/conv_tiles.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

template <class Kind>
void run(const Kind& kind, const Image& image, int level) {
#ifdef GRAPESHOT_LEVELS
  if (level == 2) return avx512::blocks(kind, image);
  if (level == 1) return avx2::blocks(kind, image);
#endif
  (void)level;
  plain::blocks(kind, image);
}

// `dense` [depth, vectors * kLane] in blocks.
at::Tensor in_blocks(const at::Tensor& dense) {
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < dense.size(1); begin += kMostVectors * kLane) {
    const int64_t end = std::min(begin + kMostVectors * kLane, dense.size(1));
    parts.push_back(dense.slice(1, begin, end).reshape({-1}));
  }
  return at::cat(parts).contiguous();
}

// Offsets of the pixels of an image of `height` x `width` that are `step` floats and rows `pitch`
// floats apart.
std::vector<int64_t> pixel_offsets(int64_t height, int64_t width, int64_t pitch, int64_t step) {
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(height * width));
  for (int64_t i = 0; i < height; ++i) {
    for (int64_t j = 0; j < width; ++j) out.push_back(i * pitch + j * step);
  }
  return out;
}

struct Padded {
  int64_t height, width, pitch;
};

Padded padded(const ConvPlan& plan, int64_t height, int64_t width) {
  const int64_t w = width + plan.left + plan.last;
  return {height + plan.top + plan.bottom, w, w * plan.channels};
}

at::Tensor channels_last(int64_t n, int64_t c, int64_t h, int64_t w,
                         const at::TensorOptions& options) {
  return at::empty({n, c, h, w}, options.memory_format(at::MemoryFormat::ChannelsLast));
}

// Images of few channels come with channels first, as files have them.
constexpr int64_t kFewChannels = 4;

bool channels_first(const at::Tensor& x) {
  return x.size(1) > 1 && x.size(1) <= kFewChannels && x.is_contiguous();
}

template <int64_t C>
void interleave(const float* from, float* to, int64_t plane, int64_t width) {
  for (int64_t j = 0; j < width; ++j) {
    for (int64_t c = 0; c < C; ++c) to[j * C + c] = from[c * plane + j];
  }
}

template <int64_t C>
void part(const float* from, float* to, int64_t plane, int64_t width) {
  for (int64_t j = 0; j < width; ++j) {
    for (int64_t c = 0; c < C; ++c) to[c * plane + j] = from[j * C + c];
  }
}

// One row of pixels from planes `plane` floats apart to channels last, and back.
GRAPESHOT_CLONES void row_to_last(const float* from, float* to, int64_t channels, int64_t plane,
                                  int64_t width) {
  if (channels == 2) return interleave<2>(from, to, plane, width);
  if (channels == 3) return interleave<3>(from, to, plane, width);
  interleave<4>(from, to, plane, width);
}

GRAPESHOT_CLONES void row_to_first(const float* from, float* to, int64_t channels, int64_t plane,
                                   int64_t width) {
  if (channels == 2) return part<2>(from, to, plane, width);
  if (channels == 3) return part<3>(from, to, plane, width);
  part<4>(from, to, plane, width);
}

}  // namespace

ConvPlan kernel_plan(const at::Tensor& weight) {
  return {.channels = weight.size(1),
          .filters = weight.size(0),
          .rows = weight.size(2),
          .columns = weight.size(3)};
}

int best_conv_level() {
#ifdef GRAPESHOT_LEVELS
  static const bool wide = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  static const bool narrow = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return wide ? 2 : narrow ? 1 : 0;
#else
  return 0;
#endif
}

bool suits_loops(const ConvPlan& plan) {
  const int64_t filled = vectors_of(plan.filters) * kLane;
  const int64_t depth = plan.rows * plan.columns * plan.channels;
  // oneDNN has no good gradient for few channels, nor for strides.
  const bool few = plan.columns * plan.channels <= 2 * kLane;
  const bool strided = plan.down > 1 || plan.right > 1;
  // Every image reads all weights again: where those are not near, oneDNN orders its work better.
  constexpr int64_t kNear = int64_t{1} << 18;
  const bool near = best_conv_level() == 2 && depth * plan.filters <= kNear;
  const bool full = plan.filters * 4 >= filled * 3;
  return full ? few || near : strided && plan.filters * 2 >= filled && near;
}

at::Tensor pack_forward(const ConvPlan& plan, const at::Tensor& weight) {
  const at::Tensor dense = weight.permute({2, 3, 1, 0}).reshape({-1, plan.filters});
  return in_blocks(
      at::constant_pad_nd(dense, {0, vectors_of(plan.filters) * kLane - plan.filters}));
}

at::Tensor pack_backward(const ConvPlan& plan, const at::Tensor& weight) {
  const int64_t run = plan.columns * plan.channels;
  const at::Tensor dense = weight.permute({0, 2, 3, 1}).reshape({plan.filters, plan.rows, run});
  return in_blocks(
      at::constant_pad_nd(dense, {0, vectors_of(run) * kLane - run}).flatten(1).contiguous());
}

at::Tensor conv_forward(const ConvPlan& plan, const at::Tensor& packed, const at::Tensor& bias,
                        const at::Tensor& x, bool relu, int level) {
  const int64_t n = x.size(0), height = x.size(2), width = x.size(3);
  const int64_t out_height = plan.out_height(height), out_width = plan.out_width(width);
  const Padded in = padded(plan, height, width);
  const bool first = channels_first(x);
  const bool pads = first || in.height != height || in.width != width;
  const at::Tensor from = first ? x : x.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor y = channels_last(n, plan.filters, out_height, out_width, x.options());
  const int64_t vectors = vectors_of(plan.filters);
  const at::Tensor start = bias.numel() == vectors * kLane
                               ? bias
                               : at::constant_pad_nd(bias, {0, vectors * kLane - plan.filters});
  const int64_t run_of = plan.columns * plan.channels;
  const Forward kind{packed.const_data_ptr<float>(),
                     vectors,
                     plan.rows * run_of,
                     start.const_data_ptr<float>(),
                     plan.rows,
                     run_of,
                     in.pitch,
                     plan.filters,
                     relu};
  const std::vector<int64_t> from_offsets =
      pixel_offsets(out_height, out_width, plan.down * in.pitch, plan.right * plan.channels);
  const std::vector<int64_t> to_offsets =
      pixel_offsets(out_height, out_width, out_width * plan.filters, plan.filters);
  std::vector<float> frame(pads ? static_cast<size_t>(in.height * in.pitch) : 0, 0.f);
  const auto* image = from.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    const float* source = image;
    if (pads) {
      for (int64_t r = 0; r < height; ++r) {
        float* row = frame.data() + (r + plan.top) * in.pitch + plan.left * plan.channels;
        if (first) {
          row_to_last(image + r * width, row, plan.channels, height * width, width);
        } else {
          std::memcpy(row, image + r * width * plan.channels,
                      static_cast<size_t>(width * plan.channels) * sizeof(float));
        }
      }
      source = frame.data();
    }
    run(kind, {source, to, from_offsets.data(), to_offsets.data(), out_height * out_width}, level);
    image += height * width * plan.channels;
    to += out_height * out_width * plan.filters;
  }
  return y;
}

at::Tensor conv_backward(const ConvPlan& plan, const at::Tensor& packed, const at::Tensor& gradient,
                         int64_t height, int64_t width, bool first, int level) {
  const int64_t n = gradient.size(0), out_height = gradient.size(2), out_width = gradient.size(3);
  const Padded in = padded(plan, height, width);
  const at::Tensor from = gradient.contiguous(at::MemoryFormat::ChannelsLast);
  const int64_t per_row = vectors_of(plan.columns * plan.channels);
  std::vector<int64_t> offsets;
  std::vector<const int32_t*> keep;
  std::array<int32_t, kLane> all = {}, last = {};
  for (int64_t k = 0; k < kLane; ++k) {
    const bool inside = (per_row - 1) * kLane + k < plan.columns * plan.channels;
    all[static_cast<size_t>(k)] = -1;
    last[static_cast<size_t>(k)] = inside ? -1 : 0;
  }
  for (int64_t a = 0; a < plan.rows; ++a) {
    for (int64_t v = 0; v < per_row; ++v) {
      offsets.push_back(a * in.pitch + v * kLane);
      keep.push_back(v + 1 < per_row ? all.data() : last.data());
    }
  }
  const Backward kind{packed.const_data_ptr<float>(),
                      plan.rows * per_row,
                      plan.filters,
                      plan.filters,
                      offsets.data(),
                      keep.data()};
  // Windows of few floats that are side by side would wait for each other: one below the other
  // then.
  const bool down = per_row <= 2;
  const auto offsets_of = [&](int64_t pitch, int64_t step) {
    return down ? pixel_offsets(out_width, out_height, step, pitch)
                : pixel_offsets(out_height, out_width, pitch, step);
  };
  const std::vector<int64_t> from_offsets = offsets_of(out_width * plan.filters, plan.filters);
  const std::vector<int64_t> to_offsets =
      offsets_of(plan.down * in.pitch, plan.right * plan.channels);
  const auto* pixels = from.const_data_ptr<float>();
  const int64_t of_gradient = out_height * out_width * plan.filters;
  const int64_t of_image = height * width * plan.channels;
  const auto add = [&](const float* g, float* to) {
    run(kind, {g, to, from_offsets.data(), to_offsets.data(), out_height * out_width}, level);
  };
  // The last vector of a window's row may reach beyond the image, by zeros.
  first = first && plan.channels > 1 && plan.channels <= kFewChannels;
  if (!first && in.height == height && in.width == width) {
    at::Tensor x = at::zeros({n * of_image + kLane}, gradient.options());
    auto* to = x.mutable_data_ptr<float>();
    for (int64_t i = 0; i < n; ++i) add(pixels + i * of_gradient, to + i * of_image);
    return x.slice(0, 0, n * of_image)
        .view({n, height, width, plan.channels})
        .permute({0, 3, 1, 2});
  }
  const auto format = first ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
  at::Tensor x = at::empty({n, plan.channels, height, width}, gradient.options(), format);
  auto* to = x.mutable_data_ptr<float>();
  std::vector<float> frame(static_cast<size_t>(in.height * in.pitch + kLane));
  for (int64_t i = 0; i < n; ++i) {
    std::fill(frame.begin(), frame.end(), 0.f);
    add(pixels + i * of_gradient, frame.data());
    for (int64_t r = 0; r < height; ++r) {
      const float* row = frame.data() + (r + plan.top) * in.pitch + plan.left * plan.channels;
      if (first) {
        row_to_first(row, to + i * of_image + r * width, plan.channels, height * width, width);
      } else {
        std::memcpy(to + i * of_image + r * width * plan.channels, row,
                    static_cast<size_t>(width * plan.channels) * sizeof(float));
      }
    }
  }
  return x;
}

namespace {

// A matrix product is a convolution of one pixel over an image of one row.
ConvPlan product_plan(int64_t k, int64_t n) {
  ConvPlan plan;
  plan.channels = k;
  plan.filters = n;
  plan.rows = plan.columns = 1;
  return plan;
}

// Of `rows` that lie `step` floats apart.
std::vector<int64_t> row_offsets(int64_t rows, int64_t step) {
  std::vector<int64_t> out(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) out[static_cast<size_t>(i)] = i * step;
  return out;
}

at::Tensor as_kernel(const at::Tensor& weight) {
  return weight.t().contiguous().view({weight.size(1), weight.size(0), 1, 1});
}

}  // namespace

bool suits_product(int64_t k, int64_t n) {
  // Much larger ones would be kept three times. Of those that fill few vectors, the small ones are
  // sooner done here than torch has begun.
  constexpr int64_t kSmall = 4096, kLarge = int64_t{1} << 24;
  if (k * n < kSmall) return best_conv_level() == 2;
  return k * n <= kLarge && 2 * n >= vectors_of(n) * kLane;
}

at::Tensor pack_product(const at::Tensor& weight) {
  return pack_forward(product_plan(weight.size(0), weight.size(1)), as_kernel(weight));
}

at::Tensor pack_product_back(const at::Tensor& weight) {
  return pack_backward(product_plan(weight.size(0), weight.size(1)), as_kernel(weight));
}

at::Tensor product_forward(const at::Tensor& packed, const at::Tensor& bias, const at::Tensor& x,
                           int64_t n, bool relu) {
  const int64_t m = x.size(0), k = x.size(1), vectors = vectors_of(n);
  at::Tensor y = at::empty({m, n}, x.options());
  const at::Tensor from = x.contiguous();
  const at::Tensor start =
      bias.numel() == vectors * kLane ? bias : at::constant_pad_nd(bias, {0, vectors * kLane - n});
  const std::vector<int64_t> from_offsets = row_offsets(m, k), to_offsets = row_offsets(m, n);
  const Forward kind{
      packed.const_data_ptr<float>(), vectors, k, start.const_data_ptr<float>(), 1, k, k, n, relu};
  run(kind,
      {from.const_data_ptr<float>(), y.mutable_data_ptr<float>(), from_offsets.data(),
       to_offsets.data(), m},
      best_conv_level());
  return y;
}

at::Tensor product_backward(const at::Tensor& packed, const at::Tensor& gradient, int64_t k) {
  const int64_t m = gradient.size(0), n = gradient.size(1), vectors = vectors_of(k);
  const at::Tensor from = gradient.contiguous();
  // The last vector of the last row may reach beyond it, by zeros.
  at::Tensor x = at::zeros({m * k + kLane}, gradient.options());
  std::array<int32_t, kLane> all = {}, last = {};
  for (int64_t i = 0; i < kLane; ++i) {
    all[static_cast<size_t>(i)] = -1;
    last[static_cast<size_t>(i)] = (vectors - 1) * kLane + i < k ? -1 : 0;
  }
  std::vector<const int32_t*> keep(static_cast<size_t>(vectors), all.data());
  keep.back() = last.data();
  const std::vector<int64_t> offsets = row_offsets(vectors, kLane);
  const std::vector<int64_t> from_offsets = row_offsets(m, n), to_offsets = row_offsets(m, k);
  const Backward kind{packed.const_data_ptr<float>(), vectors, n, n, offsets.data(), keep.data()};
  run(kind,
      {from.const_data_ptr<float>(), x.mutable_data_ptr<float>(), from_offsets.data(),
       to_offsets.data(), m},
      best_conv_level());
  return x.slice(0, 0, m * k).view({m, k});
}

}  // namespace grapeshot::onnx
