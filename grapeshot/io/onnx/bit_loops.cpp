#include "grapeshot/io/onnx/bit_loops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
#define GRAPESHOT_LEVELS 1
#endif

namespace grapeshot::onnx {
namespace {

constexpr int64_t kWord = 64;  // terms of a word
constexpr int64_t kUnits = 8;  // whose words lie side by side

int64_t word_count(int64_t terms) {
  return (terms + kWord - 1) / kWord;
}

// --- signs to bits
// ---------------------------------------------------------------------------------

void signs_plain(const float* x, int64_t n, uint8_t* bits) {
  for (int64_t i = 0; i < n; i += 8) {
    unsigned byte = 0;
    for (int64_t k = 0; k < std::min<int64_t>(8, n - i); ++k) {
      byte |= static_cast<unsigned>(x[i + k] < 0.f) << k;
    }
    *bits++ = static_cast<uint8_t>(byte);
  }
}

#ifdef GRAPESHOT_LEVELS
__attribute__((target("avx2"))) void signs_avx2(const float* x, int64_t n, uint8_t* bits) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    *bits++ = static_cast<uint8_t>(_mm256_movemask_ps(_mm256_loadu_ps(x + i)));
  }
  signs_plain(x + i, n - i, bits);
}
#endif

// A bit of n / 8 bytes, rounded up, for every number: whether it is negative.
void signs(const float* x, int64_t n, uint8_t* bits) {
#ifdef GRAPESHOT_LEVELS
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return signs_avx2(x, n, bits);
#endif
  signs_plain(x, n, bits);
}

// --- counting
// --------------------------------------------------------------------------------------

struct Layer {
  const int64_t* weights;  // [words, units]
  int64_t words, units;    // units filled up to kUnits
  int64_t terms, real_units;
  const float* scale;
  const float* bias;
};

// y[u] = scale[u] * (terms - 2 * differing bits) + bias[u], for `units` of them from `first` on.
#define GRAPESHOT_COUNT                                                       \
  for (int64_t first = 0; first < l.units; first += kUnits) {                 \
    int64_t count[kUnits] = {};                                               \
    for (int64_t j = 0; j < l.words; ++j) {                                   \
      const int64_t* w = l.weights + j * l.units + first;                     \
      for (int64_t u = 0; u < kUnits; ++u) {                                  \
        count[u] += __builtin_popcountll(static_cast<uint64_t>(x[j] ^ w[u])); \
      }                                                                       \
    }                                                                         \
    for (int64_t u = 0; u < std::min(kUnits, l.real_units - first); ++u) {    \
      const auto sum = static_cast<float>(l.terms - 2 * count[u]);            \
      y[first + u] = l.scale[first + u] * sum + l.bias[first + u];            \
    }                                                                         \
  }

void count_plain(const Layer& l, const int64_t* x, float* y) {
  GRAPESHOT_COUNT
}

#ifdef GRAPESHOT_LEVELS
__attribute__((target("popcnt"))) void count_popcnt(const Layer& l, const int64_t* x, float* y) {
  GRAPESHOT_COUNT
}

// 32 units at a time, in four registers.
__attribute__((target("avx512f,avx512vl,avx512dq,avx512vpopcntdq"))) void count_avx512(
    const Layer& l, const int64_t* x, float* y) {
  constexpr int64_t kTile = 4;
  for (int64_t first = 0; first < l.units; first += kTile * kUnits) {
    const int64_t tiles = std::min(kTile, (l.units - first) / kUnits);
    __m512i count[kTile];
    for (__m512i& each : count) each = _mm512_setzero_si512();
    if (tiles == kTile) {
      for (int64_t j = 0; j < l.words; ++j) {
        const __m512i a = _mm512_set1_epi64(x[j]);
        const int64_t* w = l.weights + j * l.units + first;
#pragma GCC unroll 4
        for (int64_t t = 0; t < kTile; ++t) {
          const __m512i b = _mm512_loadu_si512(w + t * kUnits);
          count[t] = _mm512_add_epi64(count[t], _mm512_popcnt_epi64(_mm512_xor_si512(a, b)));
        }
      }
    } else {
      for (int64_t j = 0; j < l.words; ++j) {
        const __m512i a = _mm512_set1_epi64(x[j]);
        const int64_t* w = l.weights + j * l.units + first;
        for (int64_t t = 0; t < tiles; ++t) {
          const __m512i b = _mm512_loadu_si512(w + t * kUnits);
          count[t] = _mm512_add_epi64(count[t], _mm512_popcnt_epi64(_mm512_xor_si512(a, b)));
        }
      }
    }
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t begin = first + t * kUnits;
      const int64_t left = std::min(kUnits, l.real_units - begin);
      const auto mask = static_cast<__mmask8>((1U << left) - 1U);
      const __m256 differing = _mm512_cvtepi64_ps(count[t]);
      const __m256 sum = _mm256_sub_ps(_mm256_set1_ps(static_cast<float>(l.terms)),
                                       _mm256_add_ps(differing, differing));
      const __m256 scaled = _mm256_mul_ps(_mm256_maskz_loadu_ps(mask, l.scale + begin), sum);
      _mm256_mask_storeu_ps(y + begin, mask,
                            _mm256_add_ps(scaled, _mm256_maskz_loadu_ps(mask, l.bias + begin)));
    }
  }
}
#endif

void count(const Layer& l, const int64_t* x, float* y) {
#ifdef GRAPESHOT_LEVELS
  static const int level =
      __builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512f")
          ? 2
      : __builtin_cpu_supports("popcnt") ? 1
                                         : 0;
  if (level == 2) return count_avx512(l, x, y);
  if (level == 1) return count_popcnt(l, x, y);
#endif
  count_plain(l, x, y);
}

Layer layer_of(const BitWeights& weights, const at::Tensor& bias, int64_t terms) {
  return {weights.bits.const_data_ptr<int64_t>(),
          weights.bits.size(0),
          weights.bits.size(1),
          terms,
          weights.scale.numel(),
          weights.scale.const_data_ptr<float>(),
          bias.const_data_ptr<float>()};
}

}  // namespace

std::optional<BitWeights> pack_bits(const at::Tensor& weight) {
  const at::Tensor size = weight.abs();
  const at::Tensor scale = size.select(1, 0).contiguous();
  const bool alike = (size == scale.unsqueeze(1)).all().item<bool>() &&
                     (scale > 0).all().item<bool>() && scale.isfinite().all().item<bool>();
  if (!alike) return std::nullopt;
  const int64_t units = weight.size(0), terms = weight.size(1), words = word_count(terms);
  const int64_t filled = (units + kUnits - 1) / kUnits * kUnits;
  at::Tensor bits = at::zeros({filled, words}, at::kLong);
  const at::Tensor plain = weight.contiguous();
  for (int64_t u = 0; u < units; ++u) {
    signs(plain.const_data_ptr<float>() + u * terms, terms,
          reinterpret_cast<uint8_t*>(bits.mutable_data_ptr<int64_t>() + u * words));
  }
  return BitWeights{bits.t().contiguous(), scale};
}

at::Tensor bit_product(const BitWeights& weights, const at::Tensor& bias, const at::Tensor& x) {
  const at::Tensor from = x.contiguous();
  const int64_t rows = from.size(0), terms = from.size(1);
  const Layer layer = layer_of(weights, bias, terms);
  at::Tensor y = at::empty({rows, layer.real_units}, x.options());
  std::vector<int64_t> bits(static_cast<size_t>(layer.words), 0);
  for (int64_t i = 0; i < rows; ++i) {
    signs(from.const_data_ptr<float>() + i * terms, terms, reinterpret_cast<uint8_t*>(bits.data()));
    count(layer, bits.data(), y.mutable_data_ptr<float>() + i * layer.real_units);
  }
  return y;
}

bool suits_bits(const ConvPlan& plan) {
  return plan.channels % 8 == 0 && plan.top == 0 && plan.left == 0 && plan.bottom == 0 &&
         plan.last == 0;
}

at::Tensor bit_convolution(const ConvPlan& plan, const BitWeights& weights, const at::Tensor& bias,
                           const at::Tensor& x) {
  const int64_t n = x.size(0), height = x.size(2), width = x.size(3);
  const int64_t out_height = plan.out_height(height), out_width = plan.out_width(width);
  const at::Tensor from = x.contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor y = at::empty({n, plan.filters, out_height, out_width},
                           x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const Layer layer = layer_of(weights, bias, plan.rows * plan.columns * plan.channels);
  const int64_t pixel = plan.channels / 8, pitch = width * pixel;  // bytes
  const int64_t run = plan.columns * pixel;
  std::vector<uint8_t> image(static_cast<size_t>(height * pitch));
  std::vector<int64_t> window(static_cast<size_t>(layer.words), 0);
  const auto* floats = from.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    signs(floats, height * width * plan.channels, image.data());
    floats += height * width * plan.channels;
    for (int64_t r = 0; r < out_height; ++r) {
      for (int64_t c = 0; c < out_width; ++c, to += plan.filters) {
        const uint8_t* begin = image.data() + r * plan.down * pitch + c * plan.right * pixel;
        auto* bytes = reinterpret_cast<uint8_t*>(window.data());
        for (int64_t a = 0; a < plan.rows; ++a, begin += pitch, bytes += run) {
          std::memcpy(bytes, begin, static_cast<size_t>(run));
        }
        count(layer, window.data(), to);
      }
    }
  }
  return y;
}

}  // namespace grapeshot::onnx
