#include "grapeshot/core/profile.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot {

const TapProfile* Profile::find(const std::string& tap) const {
  const auto it = std::ranges::find(taps, tap, &TapProfile::name);
  return it == taps.end() ? nullptr : &*it;
}

const TapProfile* Profile::find_states(const std::string& of) const {
  const auto it = std::ranges::find(states, of, &TapProfile::name);
  return it == states.end() ? nullptr : &*it;
}

std::vector<int64_t> counted_taps(const Model& model, bool every_tap) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < model.taps().size(); ++i) {
    if (every_tap || !model.taps()[i].redundant) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}

namespace {

// The index of `layer` among `taps`; of the last but the outputs' for "".
size_t find_layer(const Model& model, const std::vector<int64_t>& taps, const std::string& layer) {
  GRAPESHOT_CHECK(!taps.empty(), kInvalidArgument, model.name(),
                  ": has no layer whose neurons could be counted");
  if (layer.empty()) return taps.size() - std::min<size_t>(taps.size(), 2);
  std::string known;
  for (size_t i = 0; i < taps.size(); ++i) {
    const std::string& name = model.taps()[static_cast<size_t>(taps[i])].name;
    if (name == layer) return i;
    known += str(known.empty() ? "" : ", ", name);
  }
  throw Error(ErrorCode::kNotFound,
              str(model.name(), ": has no layer '", layer, "'; known: ", known));
}

// Sums of one tap's activations, from which its moments come.
struct Moments {
  at::Tensor low, high, sum, squares;
  int64_t count = 0;

  void add(const at::Tensor& activations) {
    const at::Tensor a = activations.to(at::kDouble);
    const bool first = !low.defined();
    low = first ? a.amin(0) : at::minimum(low, a.amin(0));
    high = first ? a.amax(0) : at::maximum(high, a.amax(0));
    sum = first ? a.sum(0) : sum + a.sum(0);
    squares = first ? a.square().sum(0) : squares + a.square().sum(0);
    count += a.size(0);
  }

  [[nodiscard]] TapProfile profile(const std::string& name) const {
    const auto n = static_cast<double>(count);
    const at::Tensor deviation = (squares / n - (sum / n).square()).clamp_min(0.).sqrt();
    return {name, low.to(at::kFloat), high.to(at::kFloat), deviation.to(at::kFloat)};
  }
};

}  // namespace

Profile make_profile(const Model& model, const at::Tensor& x, const std::string& layer,
                     int64_t rows) {
  // What criteria look at by default is recorded by the same program as they do it; what lowering
  // leaves out comes from another pass.
  Wanted counted = counted_taps(model, false), others;
  const size_t at_layer = find_layer(model, counted.taps, layer);
  for (const int64_t tap : counted_taps(model, true)) {
    if (std::ranges::find(counted.taps, tap) == counted.taps.end()) others.taps.push_back(tap);
  }
  counted.largest = others.largest = false;
  counted.means = others.means = true;
  counted.states = true;
  std::vector<Moments> moments(model.taps().size()), states(model.recurrent_layers().size());
  std::vector<at::Tensor> traces, predicted;
  Profile out;
  for (const at::Tensor& part : x.split(rows)) {
    const Trace first = model.trace(part, Head::kLogits, counted);
    const Trace second = others.taps.empty() ? Trace() : model.trace(part, Head::kLogits, others);
    at::Tensor good = at::isfinite(first.y).all(1);
    for (const Trace* trace : {&first, &second}) {
      for (const at::Tensor& a : trace->means) good.logical_and_(at::isfinite(a).all(1));
    }
    for (const at::Tensor& a : first.states) good.logical_and_(at::isfinite(a).flatten(1).all(1));
    const at::Tensor kept = good.nonzero().squeeze(1);
    if (kept.size(0) == 0) continue;
    out.rows += kept.size(0);
    const auto take = [&](const Wanted& wanted, const Trace& trace) {
      for (size_t k = 0; k < wanted.taps.size(); ++k) {
        moments[static_cast<size_t>(wanted.taps[k])].add(trace.means[k].index_select(0, kept));
      }
    };
    take(counted, first);
    take(others, second);
    for (size_t k = 0; k < states.size(); ++k) {
      states[k].add(first.states[k].index_select(0, kept).flatten(0, 1));
    }
    traces.push_back(first.means[at_layer].index_select(0, kept).to(at::kFloat).contiguous());
    predicted.push_back(first.y.index_select(0, kept).argmax(1));
  }
  GRAPESHOT_CHECK(out.rows > 0, kInvalidArgument, model.name(),
                  ": no input of the data has finite activations");
  for (size_t t = 0; t < moments.size(); ++t) {
    out.taps.push_back(moments[t].profile(model.taps()[t].name));
  }
  for (size_t k = 0; k < states.size(); ++k) {
    out.states.push_back(states[k].profile(model.recurrent_layers()[k].name));
  }
  out.layer = model.taps()[static_cast<size_t>(counted.taps[at_layer])].name;
  out.traces = at::cat(traces);
  out.predicted = at::cat(predicted);
  return out;
}

}  // namespace grapeshot
