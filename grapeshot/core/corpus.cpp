#include "grapeshot/core/corpus.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot {

at::Tensor hash_rows(const at::Tensor& x) {
  // Multilinear hashing of the rows' 32-bit words modulo 2^64 with odd weights from a fixed stream.
  Rng rng(uint64_t{0x6861736865730001});
  const at::Tensor weights =
      at::randint(int64_t{1} << 62, {x.size(1), 2}, rng.generator(), at::kLong).mul_(2).add_(1);
  const at::Tensor words = x.contiguous().view(at::kInt).to(at::kLong);
  return at::stack({(words * weights.select(1, 0)).sum(1), (words * weights.select(1, 1)).sum(1)},
                   1);
}

at::Tensor HashSet::insert(const at::Tensor& hashes) {
  const at::Tensor host = hashes.cpu().contiguous();
  at::Tensor fresh = at::empty({host.size(0)}, at::kBool);
  const auto* h = host.const_data_ptr<int64_t>();
  auto* out = fresh.mutable_data_ptr<bool>();
  if (size() > kLimit) seen_.clear();
  for (int64_t i = 0; i < host.size(0); ++i) out[i] = seen_.emplace(h[2 * i], h[2 * i + 1]).second;
  return fresh;
}

void HashSet::save(State& state, const std::string& at) const {
  at::Tensor hashes = at::empty({size(), 2}, at::kLong);
  auto* out = hashes.mutable_data_ptr<int64_t>();
  for (const auto& [first, second] : seen_) {
    *out++ = first;
    *out++ = second;
  }
  state.put(at + "hashes", hashes);
}

void HashSet::load(const State& state, const std::string& at) {
  seen_.clear();
  const at::Tensor hashes = state.tensor(at + "hashes");
  GRAPESHOT_CHECK(hashes.dim() == 2 && hashes.size(1) == 2 && hashes.scalar_type() == at::kLong,
                  kParse, "its '", at, "hashes' is of another shape");
  (void)insert(hashes);
}

Corpus::Corpus(const at::Tensor& originals, int64_t capacity)
    : originals_count_(originals.size(0)),
      capacity_(std::max(capacity, originals.size(0) + 1)),
      originals_(originals.clone()),
      x_(at::empty({capacity_, originals.size(1)}, originals.options())),
      region_(at::zeros({capacity_}, at::kLong)),
      energy_(at::zeros({capacity_})),
      depth_(at::zeros({capacity_}, at::kLong)),
      id_(at::zeros({capacity_}, at::kLong)),
      parent_(at::full({capacity_}, -1, at::kLong)) {
  const int64_t n = originals_count_;
  x_.slice(0, 0, n).copy_(originals);
  region_.slice(0, 0, n).copy_(at::arange(n));
  id_.slice(0, 0, n).copy_(at::arange(n));
  energy_.slice(0, 0, n).fill_(1.);
  // Two regions may share an original; both stay.
  (void)seen_.insert(hash_rows(originals));
  size_ = next_ = next_id_ = n;
}

at::Tensor Corpus::draw(int64_t count, Rng& rng) const {
  const at::Tensor energy = energy_.slice(0, 0, size_);
  // A uniform draw when no entry has energy.
  const at::Tensor usable = energy.sum().item<float>() > 0.f ? energy : at::ones_like(energy);
  return at::multinomial(usable, count, true, rng.generator());
}

Seeds Corpus::gather(const at::Tensor& index) const {
  return {x_.index_select(0, index), region_.index_select(0, index), depth_.index_select(0, index),
          id_.index_select(0, index)};
}

int64_t Corpus::insert(const Seeds& parents, const at::Tensor& x, const at::Tensor& energy) {
  if (x.size(0) == 0) return 0;
  at::Tensor fresh = seen_.insert(hash_rows(x)).nonzero().squeeze(1);
  // Of more rows than the ring has room for, the last ones stay.
  fresh = fresh.slice(0, std::max<int64_t>(0, fresh.size(0) - (capacity_ - originals_count_)));
  const int64_t n = fresh.size(0);
  if (n == 0) return 0;
  // The slots: on to the end of the ring, then again from behind the originals.
  const int64_t ring = capacity_ - originals_count_;
  const at::Tensor offset = at::arange(next_ - originals_count_, next_ - originals_count_ + n);
  const at::Tensor slot = at::remainder(offset, ring) + originals_count_;
  const auto pick = [&](const at::Tensor& t) { return t.index_select(0, fresh); };
  x_.index_copy_(0, slot, pick(x));
  region_.index_copy_(0, slot, pick(parents.region));
  energy_.index_copy_(0, slot, pick(energy));
  depth_.index_copy_(0, slot, pick(parents.depth) + 1);
  parent_.index_copy_(0, slot, pick(parents.id));
  id_.index_copy_(0, slot, at::arange(next_id_, next_id_ + n));
  next_id_ += n;
  next_ = originals_count_ + (next_ - originals_count_ + n) % ring;
  size_ = std::min(capacity_, size_ + n);
  return n;
}

void Corpus::halve(const at::Tensor& index) {
  energy_.index_copy_(0, index, energy_.index_select(0, index) * 0.5);
}

void Corpus::save(State& state, const std::string& at) const {
  state.put(at + "counts", {size_, next_, next_id_});
  const auto put = [&](const char* name, const at::Tensor& t) {
    state.put(at + name, t.slice(0, 0, size_));
  };
  put("x", x_);
  put("region", region_);
  put("energy", energy_);
  put("depth", depth_);
  put("id", id_);
  put("parent", parent_);
  seen_.save(state, at + "seen/");
}

void Corpus::load(const State& state, const std::string& at) {
  const std::vector<int64_t> counts = state.integers(at + "counts");
  GRAPESHOT_CHECK(counts.size() == 3 && counts[0] >= originals_count_ && counts[0] <= capacity_ &&
                      counts[1] >= originals_count_ && counts[1] <= capacity_,
                  kParse, "its '", at, "counts' do not fit");
  size_ = counts[0];
  next_ = counts[1];
  next_id_ = counts[2];
  const auto fill = [&](const char* name, const at::Tensor& t) {
    state.fill(at + name, t.slice(0, 0, size_));
  };
  fill("x", x_);
  fill("region", region_);
  fill("energy", energy_);
  fill("depth", depth_);
  fill("id", id_);
  fill("parent", parent_);
  seen_.load(state, at + "seen/");
}

void Corpus::retire(const at::Tensor& gone) {
  energy_.masked_fill_(gone.index_select(0, region_), 0.);
}

}  // namespace grapeshot
