#include "grapeshot/core/spec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A bound in float32 that claims no more than the double does. The search takes subnormal numbers
// for 0, so that a bound strictly below 0 has to stay below all of them: else a tie violates it.
float bound32(double bound) {
  constexpr float kSmallest = std::numeric_limits<float>::min();
  const auto nearest = static_cast<float>(bound);
  const float below = nearest > bound ? std::nextafter(nearest, -kInfinity) : nearest;
  return below < 0.f ? std::min(below, -kSmallest) : below;
}

at::Tensor boxes(std::span<const Property* const> properties, int64_t regions,
                 std::vector<float> Box::*side) {
  at::Tensor out = at::empty({regions, properties[0]->inputs});
  auto* data = out.mutable_data_ptr<float>();
  for (const Property* property : properties) {
    for (const Region& region : property->regions) {
      data = std::ranges::copy(region.box.*side, data).out;
    }
  }
  return out;
}

TokenMasks masks_of(std::span<const Property* const> properties, int64_t regions) {
  std::vector<int64_t> inputs, most;
  for (const Property* property : properties) {
    for (const Region& region : property->regions) {
      inputs.insert(inputs.end(), region.box.droppable.begin(), region.box.droppable.end());
      most.push_back(region.box.most_dropped);
    }
  }
  if (inputs.empty()) return {};
  std::ranges::sort(inputs);
  const auto [end, last] = std::ranges::unique(inputs);
  inputs.erase(end, last);
  TokenMasks out{at::tensor(inputs, at::kLong), at::zeros({regions, std::ssize(inputs)}, at::kBool),
                 at::tensor(most, at::kLong)};
  auto droppable = out.droppable.accessor<bool, 2>();
  int64_t r = 0;
  for (const Property* property : properties) {
    for (const Region& region : property->regions) {
      for (const int32_t bit : region.box.droppable) {
        droppable[r][std::ranges::lower_bound(inputs, bit) - inputs.begin()] = true;
      }
      ++r;
    }
  }
  return out;
}

struct Nearest {
  at::Tensor margin;  // [N]
  at::Tensor flat;    // [N], index of the deciding row among C * M
};

// The nearest case's farthest row.
Nearest nearest_row(const at::Tensor& y, const RowSpec& spec) {
  const int64_t n = y.size(0), c = spec.b.size(1), m = spec.b.size(2);
  const at::Tensor s =
      at::bmm(spec.a.reshape({n, c * m, -1}), y.unsqueeze(2)).view({n, c, m}) - spec.b;
  const auto [worst, row] = s.max(2);
  const auto [margin, which] = worst.min(1);
  const at::Tensor flat = which * m + row.gather(1, which.unsqueeze(1)).squeeze(1);
  return {margin, flat};
}

// The same row by row where the numbers are at hand: a dozen small tensors less.
bool at_hand(const at::Tensor& y, const RowSpec& spec) {
  const auto simple = [](const at::Tensor& t) {
    return t.defined() && t.device().is_cpu() && t.is_contiguous();
  };
  return y.scalar_type() == at::kFloat && simple(y) &&
         (spec.label.defined() ? simple(spec.label) : simple(spec.a) && simple(spec.b));
}

struct RowVerdict {
  float margin;   // NaN where an output is
  int64_t which;  // the deciding row among C * M, or the other label
};

RowVerdict top1_verdict(const float* y, int64_t outputs, int64_t label) {
  RowVerdict out{-kInfinity, 0};
  bool nan = std::isnan(y[label]);
  for (int64_t k = 0; k < outputs; ++k) {
    if (k == label) continue;
    nan = nan || std::isnan(y[k]);
    if (y[k] > out.margin) out = {y[k], k};
  }
  if (outputs > 1 && out.margin == -kInfinity) out.which = label == 0 ? 1 : 0;
  out.margin = nan ? std::nanf("") : y[label] - out.margin;
  return out;
}

RowVerdict nearest_verdict(const float* y, int64_t outputs, const float* a, const float* b,
                           int64_t cases, int64_t rows) {
  RowVerdict out{kInfinity, 0};
  bool nan = false;
  for (int64_t c = 0; c < cases; ++c) {
    RowVerdict worst{-kInfinity, c * rows};
    for (int64_t m = c * rows; m < (c + 1) * rows; ++m, a += outputs) {
      float sum = 0.f;
      for (int64_t k = 0; k < outputs; ++k) sum += a[k] * y[k];
      const float s = sum - b[m];
      nan = nan || std::isnan(s);
      if (s > worst.margin) worst = {s, m};
    }
    if (worst.margin < out.margin || c == 0) out = worst;
  }
  if (nan) out.margin = std::nanf("");
  return out;
}

// Calls take(row, verdict) for every row.
template <class Take>
void judge_rows(const at::Tensor& y, const RowSpec& spec, const Take& take) {
  const int64_t n = y.size(0), k = y.size(1);
  const auto* row = y.const_data_ptr<float>();
  if (spec.label.defined()) {
    const auto* label = spec.label.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < n; ++i, row += k) take(i, top1_verdict(row, k, label[i]));
    return;
  }
  const int64_t cases = spec.b.size(1), rows = spec.b.size(2);
  const auto *a = spec.a.const_data_ptr<float>(), *b = spec.b.const_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i, row += k, a += cases * rows * k, b += cases * rows) {
    take(i, nearest_verdict(row, k, a, b, cases, rows));
  }
}

bool is_top1(const Region& region, int64_t outputs) {
  return top1_label(region, outputs) >= 0;
}

// Every case is one row over two outputs with opposite signs: a confidence margin.
bool is_margin(const Region& region, int64_t) {
  return std::ranges::all_of(region.cases, [](const Case& c) {
    return c.rows.size() == 1 && c.rows[0].terms.size() == 2 &&
           c.rows[0].terms[0].coefficient == -c.rows[0].terms[1].coefficient;
  });
}

// Every case is one row over one output: it leaves a range.
bool is_range(const Region& region, int64_t) {
  return std::ranges::all_of(region.cases, [](const Case& c) {
    return c.rows.size() == 1 && c.rows[0].terms.size() == 1;
  });
}

bool is_linear(const Region& region, int64_t) {
  return region.cases.size() == 1;
}

bool is_dnf(const Region&, int64_t) {
  return true;
}

constexpr OutputKind kTable[] = {
    {"top1", "Some other output is at least the label's.", is_top1},
    {"margin", "The difference of two outputs reaches a bound, for one of several pairs.",
     is_margin},
    {"range", "One output leaves its range.", is_range},
    {"linear", "A conjunction of linear inequalities over the outputs.", is_linear},
    {"dnf", "Any of several conjunctions of linear inequalities.", is_dnf},
};

}  // namespace

RowSpec RowSpec::slice(int64_t begin, int64_t end) const {
  const auto part = [&](const at::Tensor& t) { return t.defined() ? t.slice(0, begin, end) : t; };
  return {part(lo),
          part(hi),
          part(label),
          part(a),
          part(b),
          {masks.inputs, part(masks.droppable), part(masks.most)},
          set.slice(begin, end)};
}

SpecTensors::SpecTensors(std::span<const Property* const> properties) {
  GRAPESHOT_CHECK(!properties.empty(), kInvalidArgument, "a campaign needs at least one instance");
  const int64_t outputs = properties[0]->outputs;
  std::vector<int64_t> instance, first = {0}, labels;
  int64_t cases = 1, rows = 1;
  bool empty = false;  // some box
  for (size_t i = 0; i < properties.size(); ++i) {
    GRAPESHOT_CHECK(
        properties[i]->inputs == properties[0]->inputs && properties[i]->outputs == outputs,
        kInvalidArgument, "the specifications of one model differ in their variables");
    for (const Region& region : properties[i]->regions) {
      instance.push_back(static_cast<int64_t>(i));
      labels.push_back(top1_label(region, outputs));
      empty = empty || region.box.empty;
      cases = std::max(cases, static_cast<int64_t>(region.cases.size()));
      for (const Case& c : region.cases) rows = std::max(rows, static_cast<int64_t>(c.rows.size()));
    }
    first.push_back(static_cast<int64_t>(instance.size()));
  }
  cases_ = cases;
  const auto regions = static_cast<int64_t>(instance.size());
  lo_ = boxes(properties, regions, &Box::lo);
  hi_ = boxes(properties, regions, &Box::hi);
  masks_ = masks_of(properties, regions);
  set_ = set_rows(properties);
  instance_ = at::tensor(instance, at::kLong);
  first_region_ = at::tensor(first, at::kLong);
  if (!empty && std::ranges::all_of(labels, [](int64_t label) { return label >= 0; })) {
    label_ = at::tensor(labels, at::kLong);
    return;
  }
  // As floating-point numbers: integers may overflow.
  const double numbers = static_cast<double>(regions) * static_cast<double>(cases) *
                         static_cast<double>(rows) * static_cast<double>(outputs);
  GRAPESHOT_CHECK(numbers <= static_cast<double>(kMostNumbers), kUnsupported,
                  "the specifications of one model multiply to ", numbers, " numbers (", regions,
                  " boxes, at most ", cases, " ways to be violated of at most ", rows,
                  " conditions, over ", outputs, " outputs), at most ", kMostNumbers,
                  " are taken: search for them in several runs");
  // A row that is not there never decides (b = +inf), a case that is not there is never near.
  a_ = at::zeros({regions, cases, rows, outputs});
  b_ = at::full({regions, cases, rows}, -kInfinity);
  auto a = a_.accessor<float, 4>();
  auto b = b_.accessor<float, 3>();
  int64_t r = 0;
  for (const Property* property : properties) {
    for (const Region& region : property->regions) {
      // Nothing violates in an empty box: all of its cases are far.
      const size_t there = region.box.empty ? 0 : region.cases.size();
      for (size_t c = 0; c < there; ++c) {
        const auto ci = static_cast<int64_t>(c);
        for (int64_t m = 0; m < rows; ++m) b[r][ci][m] = kInfinity;
        for (size_t m = 0; m < region.cases[c].rows.size(); ++m) {
          const auto mi = static_cast<int64_t>(m);
          const LinearRow& row = region.cases[c].rows[m];
          b[r][ci][mi] = bound32(row.bound);
          for (const Term& term : row.terms) {
            a[r][ci][mi][term.output] = static_cast<float>(term.coefficient);
          }
        }
      }
      ++r;
    }
  }
}

int64_t SpecTensors::bytes_per_row() const {
  int64_t out = 0;
  for (const at::Tensor& each :
       {lo_, hi_, label_, a_, b_, masks_.droppable, masks_.most, set_.centre}) {
    if (each.defined()) out += static_cast<int64_t>(each.nbytes()) / regions();
  }
  return out;
}

void SpecTensors::move_to(at::Device device) {
  for (at::Tensor* each : {&lo_, &hi_, &instance_, &label_, &a_, &b_, &masks_.inputs,
                           &masks_.droppable, &masks_.most}) {
    if (each->defined()) *each = each->to(device);
  }
  set_.move_to(device);
}

RowSpec SpecTensors::gather(const at::Tensor& region) const {
  const auto pick = [&](const at::Tensor& t) {
    return t.defined() ? t.index_select(0, region) : t;
  };
  return {pick(lo_),        pick(hi_), pick(label_),
          pick(a_),         pick(b_),  {masks_.inputs, pick(masks_.droppable), pick(masks_.most)},
          set_.pick(region)};
}

RowSpec with_bits_of(const RowSpec& spec, const at::Tensor& x) {
  RowSpec out = spec;
  if (!spec.masks.any()) return out;
  const at::Tensor bits = x.index_select(1, spec.masks.inputs);
  out.lo = spec.lo.index_copy(1, spec.masks.inputs, bits);
  out.hi = spec.hi.index_copy(1, spec.masks.inputs, bits);
  return out;
}

at::Tensor box_centre(const at::Tensor& lo, const at::Tensor& hi) {
  return at::clamp(lo + 0.5 * (hi - lo), lo, hi);
}

at::Tensor project(const at::Tensor& x, const RowSpec& spec) {
  return spec.set.any() ? project(x, spec.set, spec.lo, spec.hi) : at::clamp(x, spec.lo, spec.hi);
}

at::Tensor margins(const at::Tensor& y, const RowSpec& spec) {
  if (at_hand(y, spec)) {
    at::Tensor out = at::empty({y.size(0)}, y.options());
    auto* to = out.mutable_data_ptr<float>();
    judge_rows(y, spec, [&](int64_t i, const RowVerdict& verdict) {
      to[i] = std::isnan(verdict.margin) ? kInfinity : verdict.margin;
    });
    return out;
  }
  at::Tensor margin;
  if (spec.label.defined()) {
    const at::Tensor label = spec.label.unsqueeze(1);
    const at::Tensor others = y.scatter(1, label, -kInfinity).amax(1);
    margin = y.gather(1, label).squeeze(1) - others;
  } else {
    margin = nearest_row(y, spec).margin;
  }
  return at::nan_to_num(margin, kInfinity, kInfinity, -kInfinity);
}

at::Tensor loss_gradient(const at::Tensor& y, const RowSpec& spec, Loss loss) {
  return judge(y, spec, loss).gradient;
}

Judgement judge(const at::Tensor& y, const RowSpec& spec, Loss loss) {
  const bool hinge = loss == Loss::kHinge || !spec.label.defined();
  if (hinge && at_hand(y, spec)) {
    const int64_t k = y.size(1);
    at::Tensor out = at::zeros_like(y), verdicts = at::empty({y.size(0)}, y.options());
    auto *to = out.mutable_data_ptr<float>(), *verdict_to = verdicts.mutable_data_ptr<float>();
    const bool labelled = spec.label.defined();
    const auto* label = labelled ? spec.label.const_data_ptr<int64_t>() : nullptr;
    const auto* a = labelled ? nullptr : spec.a.const_data_ptr<float>();
    const int64_t of_row = labelled ? 0 : spec.b.size(1) * spec.b.size(2) * k;
    judge_rows(y, spec, [&](int64_t i, const RowVerdict& verdict) {
      verdict_to[i] = std::isnan(verdict.margin) ? kInfinity : verdict.margin;
      if (labelled) {
        to[i * k + verdict.which] = 1.f;
        to[i * k + label[i]] = -1.f;
        return;
      }
      const float* from = a + i * of_row + verdict.which * k;
      for (int64_t j = 0; j < k; ++j) to[i * k + j] = -from[j];
    });
    return {verdicts, out};
  }
  const at::Tensor margin = margins(y, spec);
  if (!spec.label.defined()) {
    const int64_t n = y.size(0), k = y.size(1);
    const at::Tensor flat = nearest_row(y, spec).flat.view({n, 1, 1}).expand({n, 1, k});
    return {margin, spec.a.reshape({n, -1, k}).gather(1, flat).squeeze(1).neg()};
  }
  const at::Tensor label = spec.label.unsqueeze(1);
  at::Tensor g;
  if (loss == Loss::kCrossEntropy) {
    g = at::softmax(y, 1);
    g.scatter_add_(1, label, at::full(label.sizes(), -1., y.options()));
  } else {
    const at::Tensor other = y.scatter(1, label, -kInfinity).argmax(1, true);
    g = at::zeros_like(y);
    g.scatter_(1, other, 1.);
    g.scatter_(1, label, -1.);
  }
  return {margin, g};
}

std::span<const OutputKind> output_kinds() {
  return kTable;
}

const OutputKind& output_kind(const Region& region, int64_t outputs) {
  return *std::ranges::find_if(
      kTable, [&](const OutputKind& kind) { return kind.matches(region, outputs); });
}

}  // namespace grapeshot
