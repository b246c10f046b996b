#include "grapeshot/core/spec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A bound in float32 that claims no more than the double does.
float bound32(double bound) {
  const auto nearest = static_cast<float>(bound);
  return nearest > bound ? std::nextafter(nearest, -kInfinity) : nearest;
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
  return {part(lo), part(hi), part(label), part(a), part(b)};
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
  instance_ = at::tensor(instance, at::kLong);
  first_region_ = at::tensor(first, at::kLong);
  if (!empty && std::ranges::all_of(labels, [](int64_t label) { return label >= 0; })) {
    label_ = at::tensor(labels, at::kLong);
    return;
  }
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

RowSpec SpecTensors::gather(const at::Tensor& region) const {
  const auto pick = [&](const at::Tensor& t) {
    return t.defined() ? t.index_select(0, region) : t;
  };
  return {pick(lo_), pick(hi_), pick(label_), pick(a_), pick(b_)};
}

at::Tensor box_centre(const at::Tensor& lo, const at::Tensor& hi) {
  return at::clamp(lo + 0.5 * (hi - lo), lo, hi);
}

at::Tensor project(const at::Tensor& x, const RowSpec& spec) {
  return at::clamp(x, spec.lo, spec.hi);
}

at::Tensor margins(const at::Tensor& y, const RowSpec& spec) {
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
  if (!spec.label.defined()) {
    const int64_t n = y.size(0), k = y.size(1);
    const at::Tensor flat = nearest_row(y, spec).flat.view({n, 1, 1}).expand({n, 1, k});
    return spec.a.reshape({n, -1, k}).gather(1, flat).squeeze(1).neg();
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
  return g;
}

std::span<const OutputKind> output_kinds() {
  return kTable;
}

const OutputKind& output_kind(const Region& region, int64_t outputs) {
  return *std::ranges::find_if(
      kTable, [&](const OutputKind& kind) { return kind.matches(region, outputs); });
}

}  // namespace grapeshot
