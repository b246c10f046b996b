#include "grapeshot/core/energy_tree.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/base/huge_pages.h"

namespace grapeshot {
namespace {

int64_t nodes_for(int64_t entries) {
  return (entries + EnergyTree::kChildren - 1) / EnergyTree::kChildren;
}

// N of them, in the same order always, so that sums made again are the same.
template <int64_t N>
double sum_of(const double* child) {
  using Lane = double __attribute__((vector_size(2 * sizeof(double))));
  Lane sums[2] = {};
  for (int64_t i = 0; i < N; i += 4) {
    Lane next[2];
    __builtin_memcpy(next, child + i, sizeof next);
    sums[0] += next[0];
    sums[1] += next[1];
  }
  return (sums[0][0] + sums[0][1]) + (sums[1][0] + sums[1][1]);
}

double sum_of_node(const double* child) {
  return sum_of<EnergyTree::kChildren>(child);
}

// The first child whose running sum passes `share` of their sum, or the last that has any.
int64_t pick_child(const double* child, double sum, double share) {
  constexpr int64_t kBlock = 16;  // whose sum is not waited for
  const double aim = share * sum;
  double running = 0.;
  int64_t last = EnergyTree::kChildren - 1;
  for (int64_t i = 0; i < EnergyTree::kChildren; i += kBlock) {
    const double block = sum_of<kBlock>(child + i);
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

void fetch(const double* child) {
  constexpr int64_t kLine = 8;
  for (int64_t i = 0; i < EnergyTree::kChildren; i += kLine) __builtin_prefetch(child + i);
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
    level = at::empty({below, kChildren}, options.dtype(at::kDouble));
    if (level.device().is_cpu()) {
      prefer_huge_pages(level.mutable_data_ptr(), static_cast<size_t>(level.nbytes()));
    }
    level.zero_();
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
        above[node] = sum_of_node(below + node * kChildren);
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
        above[node] = sum_of_node(below + node * kChildren);
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
    const double all = sum_of_node(root);
    if (!(all > 0.)) {
      for (int64_t i = 0; i < count; ++i) {
        to[i] = std::min(static_cast<int64_t>(share[i] * static_cast<double>(size)), size - 1);
      }
      return out;
    }
    // Level by level, so that what a draw waits for is fetched while the others are looked at.
    const auto *nodes = sums_[1].const_data_ptr<double>(),
               *entries = sums_[0].const_data_ptr<double>();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t top = pick_child(root, all, share[2 * count + i]);
      to[i] = top * kChildren + pick_child(nodes + top * kChildren, root[top], share[count + i]);
      fetch(entries + to[i] * kChildren);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t node = to[i];
      to[i] = node * kChildren + pick_child(entries + node * kChildren, nodes[node], share[i]);
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
