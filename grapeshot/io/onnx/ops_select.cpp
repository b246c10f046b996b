// grapeshot/io/onnx/ops_select.cpp: values picked by what they are, and places of values.
#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/io/onnx/ops.h"
#include "grapeshot/io/onnx/shapes.h"

namespace grapeshot::onnx {
namespace {

// Where the condition, which may be shorter than the axis, holds.
Values compress(const Call& call) {
  const Value& x = call.in[0];
  const at::Tensor where = call.in[1].t.to(at::kBool).flatten().nonzero().flatten();
  if (call.node.find("axis")) {
    const int64_t axis = normal_axis(call.node.i("axis", 0), x.rank());
    return {Value{x.t.index_select(axis + x.rows, where), x.rows}};
  }
  const Value flat = reshaped(x, {product(x.shape())});
  return {Value{flat.t.index_select(x.rows, where), x.rows}};
}

Values non_zero(const Call& call) {
  const at::Tensor& x = call.in[0].t;
  // Of a single number ONNX gives no axis, but a place.
  return {Value{x.dim() == 0 ? x.ne(0).reshape({1}).nonzero().slice(1, 0, 0).t() : x.nonzero().t(),
                false}};
}

// Values, the place of each one's first, for every value its number, and how many there are.
Values unique(const Call& call) {
  const at::Tensor& given = call.in[0].t;
  const at::Tensor x = given.detach();
  const bool sorted = call.node.i("sorted", 1) != 0, along = call.node.find("axis") != nullptr;
  const int64_t axis = along ? normal_axis(call.node.i("axis", 0), x.dim()) : 0;
  auto [values, inverse, counts] = along ? at::unique_dim(x, axis, true, true, true)
                                         : at::_unique2(x.flatten(), true, true, true);
  inverse = inverse.flatten();
  const at::Tensor place = at::arange(inverse.numel(), inverse.options());
  at::Tensor first = at::full({counts.numel()}, inverse.numel(), inverse.options())
                         .scatter_reduce(0, inverse, place, "amin");
  if (!sorted) {  // in the order in which they come
    const at::Tensor order = first.argsort();
    const at::Tensor number =
        at::empty_like(order).scatter_(0, order, at::arange(order.numel(), order.options()));
    first = first.index_select(0, order);
    counts = counts.index_select(0, order);
    inverse = number.index_select(0, inverse);
  }
  // Picked out of the input, so that gradients find their way.
  const at::Tensor y = (along ? given : given.flatten()).index_select(axis, first);
  return {Value{y, false}, Value{first, false}, Value{inverse, false}, Value{counts, false}};
}

// The lower and upper corner of boxes [B, M, 4] as [B, M, 2] each.
std::pair<at::Tensor, at::Tensor> corners(const at::Tensor& boxes, bool by_center) {
  const at::Tensor a = boxes.slice(2, 0, 2), b = boxes.slice(2, 2, 4);
  if (by_center) return {a - b / 2, a + b / 2};
  return {at::minimum(a, b), at::maximum(a, b)};
}

// Boxes in the order of their scores, without those that overlap one before.
Values non_max_suppression(const Call& call) {
  const at::Tensor boxes = call.in[0].t.to(at::kDouble), scores = call.in[1].t.to(at::kDouble);
  GRAPESHOT_CHECK(boxes.dim() == 3 && boxes.size(2) == 4 && scores.dim() == 3 &&
                      scores.size(0) == boxes.size(0) && scores.size(2) == boxes.size(1),
                  kInvalidArgument, "boxes of shape ", boxes.sizes(),
                  " do not fit scores of shape ", scores.sizes());
  const int64_t batches = scores.size(0), classes = scores.size(1), count = scores.size(2);
  const int64_t most =
      call.has(2) && call.in[2].t.numel() > 0 ? std::max<int64_t>(constant_integer(call, 2), 0) : 0;
  // Every box that is kept is compared with all others.
  GRAPESHOT_CHECK(std::min(most, count) <= (int64_t{1} << 30) / std::max<int64_t>(count, 1),
                  kUnsupported, "up to ", most, " of ", count, " boxes");
  const auto number = [&](size_t i, double otherwise) {
    return call.has(i) && call.in[i].t.numel() > 0 ? constant_number(call, i) : otherwise;
  };
  const double overlap = number(3, 0.);
  const double threshold = number(4, -std::numeric_limits<double>::infinity());
  const auto [low, high] = corners(boxes, call.node.i("center_point_box", 0) != 0);
  const at::Tensor area = (high - low).prod(2);
  std::vector<int64_t> picked;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t c = 0; c < classes; ++c) {
      const at::Tensor score = scores[b][c];
      at::Tensor open = score > threshold;
      if (threshold == -std::numeric_limits<double>::infinity()) open = at::ones_like(open);
      const at::Tensor order = at::argsort(score, /*stable=*/true, 0, /*descending=*/true);
      int64_t taken = 0;
      for (int64_t k = 0; k < count && taken < most; ++k) {
        const int64_t i = order[k].item<int64_t>();
        if (!open[i].item<bool>()) continue;
        picked.insert(picked.end(), {b, c, i});
        ++taken;
        const at::Tensor shared =
            (at::minimum(high[b], high[b][i]) - at::maximum(low[b], low[b][i]))
                .clamp_min(0.)
                .prod(1);
        const at::Tensor ratio = shared / (area[b] + area[b][i] - shared);
        open = open.logical_and(at::logical_not(ratio > overlap));
      }
    }
  }
  const at::Tensor out = at::tensor(picked, at::TensorOptions(at::kLong));
  return {Value{out.reshape({static_cast<int64_t>(picked.size()) / 3, 3}), false}};
}

// The first values of every sequence backwards, as many as its length says.
Values reverse_sequence(const Call& call) {
  const Batch batch(call);
  const at::Tensor& x = batch.in[0];
  const int64_t time = call.node.i("time_axis", 0), entry = call.node.i("batch_axis", 1);
  GRAPESHOT_CHECK(x.dim() >= 3 && (time == 0 || time == 1) && entry == 1 - time, kInvalidArgument,
                  "time_axis is ", time, ", batch_axis ", entry, " of ", x.dim() - 1, " axes");
  const auto options = at::TensorOptions(at::kLong).device(x.device());
  std::vector<int64_t> steps(static_cast<size_t>(x.dim()), 1), lengths = steps;
  steps[static_cast<size_t>(time + 1)] = x.size(time + 1);
  lengths[0] = x.size(0);
  lengths[static_cast<size_t>(entry + 1)] = x.size(entry + 1);
  const at::Tensor step = at::arange(x.size(time + 1), options).reshape(steps);
  const at::Tensor length = batch.in[1].to(at::kLong).reshape(lengths);
  const at::Tensor from = at::where(step < length, length - 1 - step, step);
  return {batch.value(x.gather(time + 1, from.expand(x.sizes())))};
}

Values eye_like(const Call& call) {
  const Value& x = call.in[0];
  GRAPESHOT_CHECK(x.rank() == 2, kInvalidArgument, "the input has ", x.rank(), " axes, not 2");
  const at::ScalarType type = type_of(call, "dtype", x.t.scalar_type());
  const int64_t k = std::clamp<int64_t>(call.node.i("k", 0), -x.size(0), x.size(1));
  const auto whole = at::TensorOptions(at::kLong).device(x.t.device());
  const at::Tensor row = at::arange(x.size(0), whole).unsqueeze(1);
  return {Value{(at::arange(x.size(1), whole) == row + k).to(type), false}};
}

// The middle of axes that are too long, and zeros around those that are too short.
Values center_crop_pad(const Call& call) {
  const Value& x = call.in[0];
  const std::vector<int64_t> wanted = constant_ints(call, 1);
  std::vector<int64_t> axes = call.node.ints("axes", {});
  for (int64_t i = 0; !call.node.find("axes") && i < x.rank(); ++i) axes.push_back(i);
  GRAPESHOT_CHECK(axes.size() == wanted.size(), kInvalidArgument, "there are ", wanted.size(),
                  " sizes for ", axes.size(), " axes");
  std::vector<int64_t> sizes = x.shape().vec(), pads(2 * sizes.size(), 0);
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto axis = static_cast<size_t>(normal_axis(axes[k], x.rank()));
    GRAPESHOT_CHECK(wanted[k] >= 0, kInvalidArgument, "a size of ", wanted[k], " is impossible");
    const int64_t more = wanted[k] - x.size(static_cast<int64_t>(axis));
    const int64_t before = more < 0 ? -(-more / 2) : more / 2;
    sizes[axis] = wanted[k];
    pads[2 * (sizes.size() - 1 - axis)] = before;
    pads[2 * (sizes.size() - 1 - axis) + 1] = more - before;
  }
  checked_count(sizes);
  return {Value{at::constant_pad_nd(x.t, pads), x.rows}};
}

// How often sequences of whole numbers of a pool occur in [C] or [B, C], with up to max_skip_count
// others between neighbours.
Values tf_idf(const Call& call) {
  const Value& x = call.in[0];
  const Node& node = call.node;
  const std::vector<int64_t> pool = node.ints("pool_int64s", {}),
                             begins = node.ints("ngram_counts", {}),
                             places = node.ints("ngram_indexes", {});
  const std::string_view mode = node.s("mode", "TF");
  const int64_t shortest = node.i("min_gram_length", 1), longest = node.i("max_gram_length", 1);
  GRAPESHOT_CHECK(!pool.empty(), kUnsupported, "a pool of texts is not supported");
  GRAPESHOT_CHECK(mode == "TF" || mode == "IDF" || mode == "TFIDF", kUnsupported, "mode is '", mode,
                  "'");
  const auto possible = [](int64_t i) { return i >= 0 && i < (int64_t{1} << 24); };
  GRAPESHOT_CHECK((x.rank() == 1 || x.rank() == 2) && !places.empty() &&
                      std::ranges::all_of(places, possible) && shortest > 0,
                  kInvalidArgument, "ngram_indexes, min_gram_length or an input of ", x.rank(),
                  " axes is impossible");
  const int64_t width = std::ranges::max(places) + 1, length = x.size(x.rank() - 1);
  std::vector<int64_t> sizes = x.t.sizes().vec();
  checked_count({product(sizes), static_cast<int64_t>(places.size())});
  sizes.back() = width;
  checked_count(sizes);
  at::Tensor y = at::zeros(sizes, x.t.options().dtype(call.real));
  size_t gram = 0;  // the first of its length
  for (size_t n = 1; n <= begins.size(); ++n) {
    const int64_t begin = begins[n - 1];
    const int64_t end = n < begins.size() ? begins[n] : static_cast<int64_t>(pool.size());
    const auto size = static_cast<int64_t>(n);
    GRAPESHOT_CHECK(begin >= 0 && begin <= end && end <= static_cast<int64_t>(pool.size()) &&
                        (end - begin) / size <= static_cast<int64_t>(places.size() - gram),
                    kInvalidArgument, "ngram_counts do not fit the pool or ngram_indexes");
    const int64_t grams = (end - begin) / size;
    const at::Tensor place =
        at::tensor(at::IntArrayRef(places).slice(gram, static_cast<size_t>(grams)));
    gram += static_cast<size_t>(grams);
    if (size < shortest || size > longest || grams == 0) continue;
    const at::Tensor words =
        at::tensor(at::IntArrayRef(pool).slice(static_cast<size_t>(begin),
                                               static_cast<size_t>(grams * size)))
            .reshape({grams, size});
    const int64_t skips = size == 1 ? 0 : node.i("max_skip_count", 0);
    for (int64_t step = 1; step <= skips + 1 && (size - 1) * step < length; ++step) {
      const int64_t starts = length - (size - 1) * step;
      at::Tensor found;
      for (int64_t k = 0; k < size; ++k) {
        const at::Tensor same =
            x.t.slice(-1, k * step, k * step + starts).unsqueeze(-1) == words.select(1, k);
        found = found.defined() ? found.logical_and(same) : same;
      }
      y = y.index_add(-1, place, found.sum(-2).to(y.scalar_type()));
    }
  }
  if (mode != "TF") {
    if (mode == "IDF") y = (y > 0).to(y.scalar_type());
    if (const Attribute* weights = node.find("weights"); weights && !weights->floats.empty()) {
      GRAPESHOT_CHECK(static_cast<int64_t>(weights->floats.size()) == width, kInvalidArgument,
                      "there are ", weights->floats.size(), " weights for ", width, " outputs");
      y = y * at::tensor(weights->floats).to(y.scalar_type());
    }
  }
  return {Value{y, x.rows}};
}

constexpr Operator kTable[] = {
    {"CenterCropPad", 18, 2, kFirstInput, "The middle, cropped or padded to a shape.",
     center_crop_pad},
    {"Compress", 9, 2, kFirstInput, "Where a condition holds along an axis.", compress},
    {"EyeLike", 9, 1, kFirstInput, "Ones on a diagonal, in the shape of the input.", eye_like},
    {"NonMaxSuppression", 10, 2, kNoInput, "Boxes by score without those that overlap.",
     non_max_suppression},
    {"NonZero", 9, 1, kNoInput, "Places of values that are not 0.", non_zero},
    {"ReverseSequence", 10, 2, kFirstInput, "Sequences backwards up to their lengths.",
     reverse_sequence},
    {"TfIdfVectorizer", 9, 1, kFirstInput, "How often sequences of whole numbers occur.", tf_idf},
    {"Unique", 11, 1, kNoInput, "Values without repetition, sorted or in order.", unique},
};

}  // namespace

std::span<const Operator> select_operators() {
  return kTable;
}

}  // namespace grapeshot::onnx
