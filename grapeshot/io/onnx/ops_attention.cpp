// grapeshot/io/onnx/ops_attention.cpp: attention, and what goes with its cache and positions.
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [N, B, S, H * D] -> [N, B, H, S, D]; tensors with a heads axis pass unchanged.
at::Tensor split_heads(const at::Tensor& x, int64_t heads) {
  if (x.dim() == 5) return x;
  GRAPESHOT_CHECK(x.dim() == 4, kInvalidArgument, "an input has ", x.dim() - 1,
                  " axes, it needs 3 or 4");
  GRAPESHOT_CHECK(heads > 0 && x.size(3) % heads == 0, kInvalidArgument, heads,
                  " heads do not fit an axis of ", x.size(3));
  return x.unflatten(3, {heads, x.size(3) / heads}).transpose(2, 3);
}

at::Tensor joined_heads(const at::Tensor& x) {
  return x.transpose(2, 3).flatten(3);
}

// Every head of keys or values as often as queries share it.
at::Tensor repeated_heads(const at::Tensor& x, int64_t heads) {
  GRAPESHOT_CHECK(x.size(2) > 0 && heads % x.size(2) == 0, kInvalidArgument, heads,
                  " heads of queries do not fit ", x.size(2), " of keys and values");
  return heads == x.size(2) ? x : x.repeat_interleave(heads / x.size(2), 2);
}

// What is added to the products of `queries` and `keys`, broadcast to [N, B, H, queries, keys]: 0
// or -infinity, or a mask's own numbers; undefined where nothing is.
at::Tensor bias_of(const Call& call, const Batch& batch, const at::Tensor& like, int64_t past) {
  const int64_t queries = like.size(3), keys = like.size(4);
  at::Tensor bias;
  const auto add = [&](const at::Tensor& t) { bias = bias.defined() ? bias + t : t; };
  const auto allow = [&](const at::Tensor& allowed) {
    add(at::zeros(allowed.sizes(), like.options()).masked_fill(allowed.logical_not(), -kInfinity));
  };
  if (batch.has(3)) {
    at::Tensor mask = batch.in[3];
    GRAPESHOT_CHECK(mask.dim() >= 2 && mask.dim() <= 5 && mask.size(-1) <= keys, kInvalidArgument,
                    "a mask of shape ", mask.sizes().slice(1), " does not fit ", keys, " keys");
    while (mask.dim() < 5) mask = mask.unsqueeze(1);
    const bool boolean = mask.scalar_type() == at::kBool;
    if (mask.size(-1) < keys) {
      const at::Scalar outside = boolean ? at::Scalar(false) : at::Scalar(-kInfinity);
      mask = at::constant_pad_nd(mask, {0, keys - mask.size(-1)}, outside);
    }
    boolean ? allow(mask) : add(mask.to(like.scalar_type()));
  }
  const at::Tensor key = at::arange(keys, at::TensorOptions(at::kLong).device(like.device()));
  at::Tensor filled;  // of keys, [N, B, 1, 1, 1]
  if (batch.has(6)) filled = batch.in[6].to(at::kLong).reshape({-1, like.size(1), 1, 1, 1});
  // -1: no bound on that side.
  const int64_t left = call.node.i("left_window_size", -1);
  const int64_t right = call.node.i("right_window_size", -1);
  GRAPESHOT_CHECK(left >= -1 && right >= -1, kInvalidArgument, "a window reaches ", left,
                  " to the left and ", right, " to the right");
  const bool causal = call.node.i("is_causal", 0) != 0;
  if (causal || left >= 0 || right >= 0) {
    const at::Tensor query = at::arange(queries, key.options()).unsqueeze(1);
    const at::Tensor at = filled.defined() ? query + (filled - queries) : query + past;
    if (causal || right >= 0) allow(key <= (causal ? at : at + right));
    if (left >= 0) allow(key >= at - left);
  }
  if (filled.defined()) allow(key < filled);
  return bias;
}

// Attention(Q, K, V, mask, past keys, past values, filled lengths); Vaswani et al., 2017.
Values attention(const Call& call) {
  const Batch batch(call);
  const bool folded = batch.in[0].dim() == 4;
  const int64_t kv_heads = call.node.i("kv_num_heads", 0);
  const at::Tensor q = split_heads(batch.in[0], call.node.i("q_num_heads", 0));
  at::Tensor k = split_heads(batch.in[1], kv_heads), v = split_heads(batch.in[2], kv_heads);
  GRAPESHOT_CHECK(q.dim() == 5 && k.dim() == 5 && v.dim() == 5, kInvalidArgument,
                  "queries, keys and values have different numbers of axes");
  int64_t past = 0;
  GRAPESHOT_CHECK(batch.has(4) == batch.has(5), kInvalidArgument,
                  "past keys and past values are not given together");
  if (batch.has(4)) {
    past = batch.in[4].dim() == 5 ? batch.in[4].size(3) : 0;
    k = at::cat({batch.in[4], k}, 3);
    v = at::cat({batch.in[5], v}, 3);
  }
  if (call.planning) checked_count({q.size(0), q.size(1), q.size(2), q.size(3), k.size(3)});
  const double scale =
      call.node.f("scale", static_cast<float>(1. / std::sqrt(static_cast<double>(q.size(4)))));
  GRAPESHOT_CHECK(scale >= 0., kInvalidArgument, "scale is ", scale);
  const at::Tensor keys = repeated_heads(k, q.size(2));
  const double root = std::sqrt(scale);
  const at::Tensor product = at::matmul(q * root, keys.transpose(3, 4) * root);
  // Opset 23 first said that softcap comes after the mask and later that it comes before, which is
  // what runtimes do.
  const double cap = call.node.f("softcap", 0.f);
  const at::Tensor capped = cap > 0. ? (product / cap).tanh() * cap : product;
  const at::Tensor bias = bias_of(call, batch, product, past);
  const at::Tensor biased = bias.defined() ? capped + bias : capped;
  const at::Tensor scores = biased.to(type_of(call, "softmax_precision", biased.scalar_type()));
  at::Tensor shares;
  if (bias.defined()) {
    // A query that may look nowhere gets zeros, without a NaN on the way or in its gradient.
    const at::Tensor nowhere = at::isneginf(bias.amax(-1, true));
    shares = scores.masked_fill(nowhere, 0.).softmax(4).masked_fill(nowhere, 0.);
  } else {
    shares = scores.softmax(4);
  }
  shares = shares.to(q.scalar_type());
  const at::Tensor y = at::matmul(shares, repeated_heads(v, q.size(2)));
  // Mode 1 was the biased product before it became the capped one; without a cap the first is
  // meant.
  const int64_t mode = call.node.i("qk_matmul_output_mode", 0);
  const at::Tensor& seen = mode == 0               ? product
                           : mode == 1 && cap > 0. ? capped
                           : mode == 3             ? shares
                                                   : biased;
  return {batch.value(folded ? joined_heads(y) : y), batch.value(k), batch.value(v),
          batch.value(seen)};
}

// Pairs of features turned by angles that depend on the place; Su et al., 2021.
Values rotary_embedding(const Call& call) {
  const Batch batch(call);
  const bool folded = batch.in[0].dim() == 4;
  const at::Tensor x = split_heads(batch.in[0], call.node.i("num_heads", 0));
  int64_t turned = call.node.i("rotary_embedding_dim", 0);
  if (turned == 0) turned = x.size(4);
  GRAPESHOT_CHECK(turned > 0 && turned % 2 == 0 && turned <= x.size(4), kInvalidArgument,
                  "rotary_embedding_dim is ", turned, " of ", x.size(4));
  const auto angles = [&](size_t input) {
    at::Tensor t = call.in[input].t;
    if (call.has(3)) {
      GRAPESHOT_CHECK(t.dim() == 2, kInvalidArgument, "a cache has ", t.dim(), " axes, not 2");
      t = t.index({wrapped(call.in[3].t, t.size(0))});
    }
    GRAPESHOT_CHECK(t.dim() == 3 && t.size(2) == turned / 2, kInvalidArgument, "a cache of shape ",
                    call.in[input].t.sizes(), " does not fit ", turned / 2, " pairs");
    return t.unsqueeze(1);  // [B, 1, S, D / 2]
  };
  const at::Tensor cosine = angles(1), sine = angles(2);
  const at::Tensor part = x.slice(4, 0, turned), rest = x.slice(4, turned);
  const bool interleaved = call.node.i("interleaved", 0) != 0;
  const at::Tensor a = interleaved ? part.slice(4, 0, turned, 2) : part.slice(4, 0, turned / 2),
                   b = interleaved ? part.slice(4, 1, turned, 2) : part.slice(4, turned / 2);
  const at::Tensor real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  const at::Tensor both =
      interleaved ? at::stack({real, imaginary}, -1).flatten(4) : at::cat({real, imaginary}, 4);
  const at::Tensor y = at::cat({both, rest}, 4);
  return {batch.value(folded ? joined_heads(y) : y)};
}

// A cache with an update written along an axis, from a place on that each entry of the batch has.
Values tensor_scatter(const Call& call) {
  const Batch batch(call);
  const at::Tensor &cache = batch.in[0], &update = batch.in[1];
  const int64_t axis = normal_axis(call.node.i("axis", -2), cache.dim() - 1) + 1;
  GRAPESHOT_CHECK(axis >= 2 && update.dim() == cache.dim(), kInvalidArgument, "the update has ",
                  update.dim() - 1, " axes, the cache ", cache.dim() - 1,
                  ", and the axis must not be that of the batch");
  const std::string_view mode = call.node.s("mode", "linear");
  GRAPESHOT_CHECK(mode == "linear" || mode == "circular", kUnsupported, "mode is '", mode, "'");
  const int64_t size = cache.size(axis), written = update.size(axis);
  std::vector<int64_t> along(static_cast<size_t>(cache.dim()), 1);
  along[static_cast<size_t>(axis)] = written;
  const auto options = at::TensorOptions(at::kLong).device(cache.device());
  at::Tensor place = at::arange(written, options).reshape(along);
  if (batch.has(2)) {
    std::vector<int64_t> starts(static_cast<size_t>(cache.dim()), 1);
    starts[0] = cache.size(0);
    starts[1] = cache.size(1);
    place = place + batch.in[2].to(at::kLong).reshape(starts);
  }
  if (mode == "circular") place = place.remainder(std::max<int64_t>(size, 1));
  return {batch.value(at::scatter(cache, axis, place.expand(update.sizes()), update))};
}

constexpr Operator kTable[] = {
    {"Attention", 23, 3, kEveryInput, "Softmax of scaled products, masked, causal or cached.",
     attention},
    {"RotaryEmbedding", 23, 3, kFirstInput, "Pairs of features turned by their place.",
     rotary_embedding},
    {"TensorScatter", 24, 2, 0b11, "An update written into a cache, from a place on.",
     tensor_scatter},
};

}  // namespace

std::span<const Operator> attention_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
