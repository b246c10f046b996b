#include "grapeshot/diff/lineage.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot::diff {
namespace {

constexpr int kTries = 50;

at::Tensor as_images(const at::Tensor& x, const std::vector<int64_t>& shape) {
  return x.view({x.size(0), -1, shape[shape.size() - 2], shape.back()});
}

// Of rows [n, D]: how many inputs differ [n] int64, and by how much at most [n] float64.
std::pair<at::Tensor, at::Tensor> distances(const at::Tensor& x, const at::Tensor& from) {
  const at::Tensor change = x.to(at::kDouble) - from.to(at::kDouble);
  return {(change != 0.).sum(1), change.abs().amax(1)};
}

Distance distance(const at::Tensor& x, const at::Tensor& from) {
  const auto [changed, largest] = distances(x.unsqueeze(0), from.unsqueeze(0));
  return {changed.item<int64_t>(), largest.item<double>()};
}

// [n] bool.
at::Tensor is_valid(const at::Tensor& changed, const at::Tensor& largest, int64_t inputs,
                    const ValidRange& range, const ValidityBound& bound) {
  return (changed < bound.free_share * static_cast<double>(inputs))
      .logical_or(largest < bound.change_share * range.width());
}

}  // namespace

Distance lineage_distance(const Lineage& lineage, const at::Tensor& original, const at::Tensor& x) {
  if (lineage.affine < 0) return distance(x, original);
  const Distance first = distance(lineage.before, original);
  const Distance then = distance(x, lineage.reference);
  return {first.changed + then.changed, std::max(first.largest, then.largest)};
}

std::string broken_lineage(const Lineage& lineage, const at::Tensor& original, const at::Tensor& x,
                           const std::vector<int64_t>& shape, const ValidRange& range,
                           const ValidityBound& bound) {
  if (lineage.affine >= 0) {
    const AppliedTransformation& step = lineage.steps[static_cast<size_t>(lineage.affine)];
    Rng none(uint64_t{0});  // moving pixels draws nothing
    const at::Tensor parameters = at::tensor(step.parameters, at::kDouble).unsqueeze(0);
    const at::Tensor again = transform(
        *step.row, as_images(lineage.before.to(at::kDouble).contiguous().unsqueeze(0), shape),
        parameters, range, none);
    const double off = distance(lineage.reference, again.flatten()).largest;
    // On a grid the last bit may decide which step is nearer.
    const double tolerance = 1e-5 * range.width() + range.grid;
    if (!(off <= tolerance)) {
      return str("its reference is not what ", step.row->name,
                 " makes with these parameters: it is off by ", off);
    }
  }
  const Distance d = lineage_distance(lineage, original, x);
  if (is_valid(at::tensor({d.changed}), at::tensor({d.largest}, at::kDouble), x.numel(), range,
               bound)
          .item<bool>()) {
    return {};
  }
  return str("it changes ", d.changed, " of ", x.numel(), " inputs, by up to ", d.largest,
             ": neither fewer than ", bound.free_share, " of them nor by less than ",
             bound.change_share, " of the range");
}

void check_bound(const ValidityBound& bound) {
  GRAPESHOT_CHECK(bound.free_share >= 0. && bound.free_share <= 1., kInvalidArgument,
                  "--free-share must be from 0 to 1");
  GRAPESHOT_CHECK(bound.change_share >= 0. && std::isfinite(bound.change_share), kInvalidArgument,
                  "--change-share must be at least 0");
  GRAPESHOT_CHECK(bound.free_share > 0. || bound.change_share > 0., kInvalidArgument,
                  "--free-share and --change-share are both 0: no change is valid");
}

void check_images(const std::vector<int64_t>& shape, std::string_view model) {
  const size_t axes = shape.size();
  GRAPESHOT_CHECK(
      axes >= 2 && shape[axes - 1] >= 2 && shape[axes - 2] >= 2, kInvalidArgument, model,
      ": --transform is for images, [.., H, W] or [.., C, H, W] of two pixels "
      "a side at least; its inputs are [",
      [&] {
        std::string text;
        for (const int64_t side : shape) text += str(text.empty() ? "" : ", ", side);
        return text;
      }(),
      "]");
}

// Rows on their way.
struct Transformer::Batch {
  at::Tensor x;          // [n, D], changed where a row has gone on
  at::Tensor reference;  // [n, D], what is measured against
  const at::Tensor& originals;
  std::vector<Lineage>& lineages;
};

Transformer::Transformer(TransformationSet set, const ValidRange& range, const ValidityBound& bound,
                         std::vector<int64_t> shape)
    : set_(std::move(set)), range_(range), bound_(bound), shape_(std::move(shape)) {
  for (const Transformation* row : set_.rows) {
    if (!row->affine) of_values_.push_back(row);
  }
}

Transformer::Advance Transformer::advance(const at::Tensor& x, const at::Tensor& originals,
                                          std::vector<Lineage>& lineages, Rng& rng) const {
  at::Tensor reference = originals.clone();
  std::vector<int64_t> waiting;
  for (int64_t r = 0; r < x.size(0); ++r) {
    const Lineage& lineage = lineages[static_cast<size_t>(r)];
    if (lineage.affine >= 0) reference[r].copy_(lineage.reference);
    if (lineage.affine < 0 || !of_values_.empty()) waiting.push_back(r);
  }
  std::vector<bool> on(lineages.size(), false);
  for (const int64_t r : waiting) on[static_cast<size_t>(r)] = true;
  Batch batch{x.clone(), reference, originals, lineages};
  Advance out;
  for (int i = 0; i < kTries && !waiting.empty(); ++i) {
    waiting = attempt(batch, waiting, rng);
    out.broken += std::ssize(waiting);
  }
  for (const int64_t r : waiting) on[static_cast<size_t>(r)] = false;
  std::vector<Lineage> kept;
  for (int64_t r = 0; r < x.size(0); ++r) {
    if (!on[static_cast<size_t>(r)]) continue;
    out.rows.push_back(r);
    kept.push_back(std::move(lineages[static_cast<size_t>(r)]));
  }
  lineages = std::move(kept);
  out.x = batch.x.index_select(0, at::tensor(out.rows, at::kLong));
  return out;
}

// One draw for each of `rows`, by transformation; returns those for which it was none.
std::vector<int64_t> Transformer::attempt(Batch& batch, const std::vector<int64_t>& rows,
                                          Rng& rng) const {
  const at::Tensor drawn = at::rand({std::ssize(rows)}, rng.generator(), at::kDouble);
  const auto* u = drawn.const_data_ptr<double>();
  std::vector<std::vector<int64_t>> by_row(transformations().size());
  for (size_t k = 0; k < rows.size(); ++k) {
    const bool moved = batch.lineages[static_cast<size_t>(rows[k])].affine >= 0;
    const auto& known = moved ? of_values_ : set_.rows;
    const Transformation* row =
        known[static_cast<size_t>(u[k] * static_cast<double>(known.size()))];
    by_row[static_cast<size_t>(row - transformations().data())].push_back(rows[k]);
  }
  std::vector<int64_t> left;
  for (size_t t = 0; t < by_row.size(); ++t) {
    if (by_row[t].empty()) continue;
    const std::vector<int64_t> more = apply(batch, transformations()[t], by_row[t], rng);
    left.insert(left.end(), more.begin(), more.end());
  }
  std::ranges::sort(left);
  return left;
}

std::vector<int64_t> Transformer::apply(Batch& batch, const Transformation& row,
                                        const std::vector<int64_t>& rows, Rng& rng) const {
  const at::Tensor at = at::tensor(rows, at::kLong);
  const at::Tensor x = batch.x.index_select(0, at).contiguous();
  const int64_t height = shape_[shape_.size() - 2];
  const at::Tensor p =
      draw_parameters(row, set_.deeptest, std::ssize(rows), height, shape_.back(), rng);
  const at::Tensor y = transform(row, as_images(x, shape_), p, range_, rng).reshape(x.sizes());
  // Before an affine one, its input is what is measured: that was valid already.
  const at::Tensor from = row.affine ? batch.originals : batch.reference;
  auto [changed, largest] = distances(row.affine ? x : y, from.index_select(0, at));
  at::Tensor good = (y != x).any(1);
  if (!row.affine) {
    std::vector<int64_t> base;
    std::vector<double> most;
    for (const int64_t r : rows) {
      base.push_back(batch.lineages[static_cast<size_t>(r)].changed);
      most.push_back(batch.lineages[static_cast<size_t>(r)].largest);
    }
    good = good.logical_and(is_valid(changed + at::tensor(base, at::kLong),
                                     at::maximum(largest, at::tensor(most, at::kDouble)), x.size(1),
                                     range_, bound_));
  }
  changed = changed.contiguous();
  largest = largest.contiguous();
  std::vector<int64_t> left;
  for (int64_t k = 0; k < std::ssize(rows); ++k) {
    const int64_t r = rows[static_cast<size_t>(k)];
    if (!good.const_data_ptr<bool>()[k]) {
      left.push_back(r);
      continue;
    }
    Lineage& lineage = batch.lineages[static_cast<size_t>(r)];
    const auto* values = p.const_data_ptr<double>() + k * p.size(1);
    lineage.steps.push_back({&row, {values, values + p.size(1)}});
    batch.x[r].copy_(y[k]);
    if (!row.affine) continue;
    lineage.affine = std::ssize(lineage.steps) - 1;
    lineage.before = x[k].clone();
    lineage.reference = y[k].clone();
    lineage.changed = changed.const_data_ptr<int64_t>()[k];
    lineage.largest = largest.const_data_ptr<double>()[k];
    batch.reference[r].copy_(y[k]);
  }
  return left;
}

}  // namespace grapeshot::diff
