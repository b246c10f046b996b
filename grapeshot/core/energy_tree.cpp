#include "grapeshot/core/energy_tree.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot {
namespace {

int64_t nodes_for(int64_t entries) {
  return (entries + EnergyTree::kChildren - 1) / EnergyTree::kChildren;
}

// The same order always, so that sums made again are the same.
double sum_of(const double* child) {
  double sums[4] = {};
  for (int64_t i = 0; i < EnergyTree::kChildren; i += 4) {
    for (int64_t k = 0; k < 4; ++k) sums[k] += child[i + k];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The first child whose running sum passes `share` of their sum, or the last that has any.
int64_t pick_child(const double* child, double sum, double share) {
  constexpr int64_t kBlock = 8;  // whose sum is not waited for
  const double aim = share * sum;
  double running = 0.;
  int64_t last = EnergyTree::kChildren - 1;
  for (int64_t i = 0; i < EnergyTree::kChildren; i += kBlock) {
    const double* c = child + i;
    const double block = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
    if (!(running + block > aim) && i + kBlock < EnergyTree::kChildren) {
      running += block;
      continue;
    }
    for (int64_t k = i; k < i + kBlock; ++k) {
      if (child[k] > 0.) last = k;
      running += child[k];
      if (running > aim) return last;
    }
    if (block > 0.) return last;
  }
  while (last > 0 && !(child[last] > 0.)) --last;
  return last;
}

}  // namespace

// Level 0 has the entries themselves below its nodes, level 2 is the root.
EnergyTree::EnergyTree(int64_t capacity, const at::TensorOptions& options) {
  GRAPESHOT_CHECK(capacity >= 1 && capacity <= kCapacity, kInvalidArgument, "a model has ",
                  capacity - 1, " regions, more than the ", kCapacity - 1,
                  " that a campaign can hold");
  int64_t below = capacity;
  for (at::Tensor& level : sums_) {
    below = nodes_for(below);
    level = at::zeros({below, kChildren}, options.dtype(at::kDouble));
  }
  energies_ = sums_[0].view({-1}).slice(0, 0, capacity);
}

at::Tensor EnergyTree::get(const at::Tensor& index) const {
  return energies_.index_select(0, index);
}

void EnergyTree::set(const at::Tensor& index, const at::Tensor& energy) {
  energies_.index_copy_(0, index, energy.to(at::kDouble));
  if (energies_.device().is_cpu()) {
    const auto* at = index.const_data_ptr<int64_t>();
    for (size_t level = 0; level + 1 < sums_.size(); ++level) {
      const auto* below = sums_[level].const_data_ptr<double>();
      auto* above = sums_[level + 1].mutable_data_ptr<double>();
      const int64_t entries = level == 0 ? kChildren : kChildren * kChildren;
      for (int64_t i = 0; i < index.size(0); ++i) {
        const int64_t node = at[i] / entries;
        above[node] = sum_of(below + node * kChildren);
      }
    }
    return;
  }
  at::Tensor node = index;
  for (size_t level = 0; level + 1 < sums_.size(); ++level) {
    // Summed again from the children: sums that are only added to drift.
    node = at::floor_divide(node, kChildren);
    sums_[level + 1].view({-1}).index_copy_(0, node, sums_[level].index_select(0, node).sum(1));
  }
}

void EnergyTree::sum_up() {
  for (size_t level = 0; level + 1 < sums_.size(); ++level) {
    if (energies_.device().is_cpu()) {
      const auto* below = sums_[level].const_data_ptr<double>();
      auto* above = sums_[level + 1].mutable_data_ptr<double>();
      for (int64_t node = 0; node < sums_[level].size(0); ++node) {
        above[node] = sum_of(below + node * kChildren);
      }
    } else {
      const at::Tensor sums = sums_[level].sum(1);
      sums_[level + 1].view({-1}).slice(0, 0, sums.size(0)).copy_(sums);
    }
  }
}

at::Tensor EnergyTree::draw(int64_t count, int64_t size, Rng& rng) const {
  const auto options = sums_[0].options();
  const at::Tensor u = at::rand({3, count}, rng.generator(), options);
  if (energies_.device().is_cpu()) {
    at::Tensor out = at::empty({count}, at::kLong);
    auto* to = out.mutable_data_ptr<int64_t>();
    const auto* share = u.const_data_ptr<double>();
    const auto* root = sums_[2].const_data_ptr<double>();
    const double all = sum_of(root);
    for (int64_t i = 0; i < count; ++i, ++share) {
      if (!(all > 0.)) {
        const auto even = static_cast<int64_t>(*share * static_cast<double>(size));
        to[i] = std::min(even, size - 1);
        continue;
      }
      const int64_t top = pick_child(root, all, share[2 * count]);
      const auto* nodes = sums_[1].const_data_ptr<double>() + top * kChildren;
      const int64_t node = pick_child(nodes, root[top], share[count]);
      const auto* entries =
          sums_[0].const_data_ptr<double>() + (top * kChildren + node) * kChildren;
      to[i] = (top * kChildren + node) * kChildren + pick_child(entries, nodes[node], *share);
    }
    return out;
  }
  at::Tensor node = at::zeros({count}, options.dtype(at::kLong));
  for (size_t level = sums_.size(); level-- > 0;) {
    // The first child whose running sum passes a uniform share of the node's.
    const at::Tensor running = sums_[level].index_select(0, node).cumsum(1);
    const at::Tensor share =
        u.select(0, static_cast<int64_t>(level)).unsqueeze(1) * running.slice(1, kChildren - 1);
    const at::Tensor child = (running <= share).sum(1).clamp_max_(kChildren - 1);
    node = node * kChildren + child;
    // Without any energy the last child is taken, which may not be there.
    if (level > 0) node.clamp_max_(sums_[level - 1].size(0) - 1);
  }
  const at::Tensor uniform = (u.select(0, 0) * static_cast<double>(size)).to(at::kLong);
  return at::where(sums_.back().sum() > 0., node, uniform.clamp_max_(size - 1));
}

}  // namespace grapeshot
