#include "grapeshot/diff/subject.h"

#include <ATen/ATen.h>

#include "grapeshot/core/criteria.h"
#include "grapeshot/core/memory.h"
#include "grapeshot/core/profile.h"

namespace grapeshot::diff {
namespace {

LoopOptions loop_options(const DiffOptions& options) {
  LoopOptions out;
  out.tau = options.tau;
  out.criterion = options.criterion;
  out.criteria = options.criteria;
  out.per_criterion = options.per_criterion;
  return out;
}

at::Tensor outgoing(const Model& model, const std::vector<int64_t>& taps) {
  std::vector<at::Tensor> out = {at::zeros({0})};
  const std::vector<at::Tensor> known = model.outgoing_weights();
  for (const int64_t tap : taps) {
    const auto i = static_cast<size_t>(tap);
    const bool has = i < known.size() && known[i].defined();
    out.push_back(has ? known[i] : at::zeros({model.taps()[i].neurons}));
  }
  return at::cat(out);
}

}  // namespace

Subject::Subject(const Model& model, const DiffOptions& options, const Profile* profile)
    : model_(model),
      options_(options),
      coverage_(model, loop_options(options), profile),
      chosen_(parse_strategies(options.strategy)),
      objective_(&find_objective(options.objective)),
      taps_(counted_taps(model, false)) {
  for (const int64_t tap : taps_) neurons_ += model.taps()[static_cast<size_t>(tap)].neurons;
  hits_ = at::zeros({neurons_});
  weight_ = outgoing(model, taps_);
}

void Subject::in_pieces(int64_t rows, const std::function<void(int64_t begin, int64_t end)>& work) {
  for (int64_t begin = 0; begin < rows;) {
    const int64_t end = rows - begin > most_rows_ ? begin + most_rows_ : rows;
    try {
      work(begin, end);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error) || end - begin == 1) throw;
      most_rows_ = fewer_rows_ = (end - begin + 1) / 2;
      continue;
    }
    begin = end;
  }
}

Subject::Look Subject::look(const at::Tensor& x) {
  std::vector<Look> parts;
  in_pieces(x.size(0), [&](int64_t begin, int64_t end) {
    parts.push_back(look_at_once(x.slice(0, begin, end)));
  });
  if (parts.size() == 1) return parts[0];
  Look out;
  for (const auto of :
       {&Look::y, &Look::label, &Look::finite, &Look::response, &Look::means, &Look::gain}) {
    std::vector<at::Tensor> all;
    for (const Look& part : parts) all.push_back(part.*of);
    out.*of = at::cat(all);
  }
  return out;
}

Subject::Look Subject::look_at_once(const at::Tensor& x) {
  Wanted wanted = coverage_.wanted();
  wanted.taps = taps_;
  wanted.means = wanted.extremes = true;
  const Trace trace = model_.trace(x, Head::kLogits, wanted);
  Look out;
  out.y = trace.y;
  out.label = trace.y.argmax(1);
  out.finite = at::isfinite(trace.y).all(1);
  std::vector<at::Tensor> parts = scaled_means(trace.means, trace.extremes);
  parts.push_back(at::zeros({x.size(0), 0}));  // there may be no layer
  out.response = at::cat(parts, 1);
  parts = trace.means;
  parts.push_back(at::zeros({x.size(0), 0}));
  out.means = at::cat(parts, 1);
  hits_ += (out.response > options_.tau).sum(0);
  out.gain = coverage_.update(wanted, trace);
  if (!out.gain.defined()) out.gain = at::zeros({x.size(0)});
  return out;
}

at::Tensor Subject::climb(const at::Tensor& x, const at::Tensor& of_class, const Look& seen,
                          Rng& rng) {
  at::Tensor driven = select_neurons(chosen_, known(seen), options_.neurons, rng) * options_.lambda;
  if (objective_->drives_largest && neurons_ > 0) {
    const at::Tensor largest = seen.means.nan_to_num().abs().argmax(1, /*keepdim=*/true);
    driven = driven.scatter_add(1, largest, seen.means.gather(1, largest).sign());
  }
  std::vector<at::Tensor> parts;
  in_pieces(x.size(0), [&](int64_t begin, int64_t end) {
    const at::Tensor weights = of_class.slice(0, begin, end);
    parts.push_back(
        gradient(x.slice(0, begin, end), driven.slice(0, begin, end),
                 [&](const at::Tensor& y) { return objective_->cotangent(y, weights); }));
  });
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

at::Tensor Subject::gradient(const at::Tensor& x, const at::Tensor& driven,
                             const Cotangent& of_outputs) const {
  std::vector<at::Tensor> of_taps;
  int64_t begin = 0;
  for (const int64_t tap : taps_) {
    const int64_t width = model_.taps()[static_cast<size_t>(tap)].neurons;
    of_taps.push_back(driven.slice(1, begin, begin + width));
    begin += width;
  }
  const bool any = driven.any().item<bool>();
  return model_
      .joint_gradient(
          x, Head::kLogits, Surrogate::kLoose, any ? taps_ : std::vector<int64_t>{},
          [&](const at::Tensor& y) -> JointCotangent { return {of_outputs(y), of_taps}; })
      .x;
}

bool Subject::overflows(const at::Tensor& x) const {
  return !at::isfinite(model_.evaluate(x.unsqueeze(0))).all().item<bool>();
}

int64_t Subject::prediction(const at::Tensor& x) const {
  const at::Tensor row = x.unsqueeze(0);
  const at::Tensor y32 = model_.evaluate(row), y64 = model_.evaluate(row.to(at::kDouble));
  if (!at::isfinite(y32).all().item<bool>() || !at::isfinite(y64).all().item<bool>()) return -1;
  const auto label = y32.argmax(1).item<int64_t>();
  return y64.argmax(1).item<int64_t>() == label ? label : -1;
}

}  // namespace grapeshot::diff
