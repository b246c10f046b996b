#include "grapeshot/core/corpus.h"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "grapeshot/base/clones.h"
#include "grapeshot/base/error.h"

namespace grapeshot {

namespace {

// Multilinear hashing of the rows' 32-bit words modulo 2^64 with odd weights from a fixed stream:
// [2, width].
const at::Tensor& hash_weights(int64_t width) {
  thread_local std::map<int64_t, at::Tensor> known;
  at::Tensor& weights = known[width];
  if (!weights.defined()) {
    Rng rng(uint64_t{0x6861736865730001});
    const at::Tensor drawn =
        at::randint(int64_t{1} << 62, {width, 2}, rng.generator(), at::kLong).mul_(2).add_(1);
    weights = drawn.t().contiguous();
  }
  return weights;
}

GRAPESHOT_CLONES void hash_row(const int32_t* words, const uint64_t* weights, int64_t width,
                               uint64_t* out) {
  uint64_t first = 0, second = 0;
  for (int64_t i = 0; i < width; ++i) {
    const auto word = static_cast<uint64_t>(int64_t{words[i]});
    first += word * weights[i];
    second += word * weights[width + i];
  }
  out[0] = first;
  out[1] = second;
}

}  // namespace

at::Tensor hash_rows(const at::Tensor& x) {
  if (x.device().is_cpu()) return hash_rows(x, at::arange(x.size(0), at::kLong));
  const at::Tensor wide = x.contiguous().view(at::kInt).to(at::kLong);
  const at::Tensor weights = hash_weights(x.size(1)).to(x.device());
  return at::stack({(wide * weights[0]).sum(1), (wide * weights[1]).sum(1)}, 1);
}

at::Tensor hash_rows(const at::Tensor& x, const at::Tensor& rows) {
  if (!x.device().is_cpu()) return hash_rows(x.index_select(0, rows));
  const int64_t width = x.size(1), n = rows.size(0);
  const at::Tensor& weights = hash_weights(width);
  const at::Tensor words = x.contiguous().view(at::kInt);
  at::Tensor out = at::empty({n, 2}, at::kLong);
  const auto* word = words.const_data_ptr<int32_t>();
  const auto* row = rows.const_data_ptr<int64_t>();
  const auto* weight = reinterpret_cast<const uint64_t*>(weights.const_data_ptr<int64_t>());
  auto* to = reinterpret_cast<uint64_t*>(out.mutable_data_ptr<int64_t>());
  for (int64_t i = 0; i < n; ++i) hash_row(word + row[i] * width, weight, width, to + 2 * i);
  return out;
}

namespace {

// Columns of what is known about an entry, side by side so that they are found with one look.
constexpr int64_t kRegion = 0, kDepth = 1, kId = 2, kParent = 3;

}  // namespace

at::Tensor HashSet::insert(const at::Tensor& hashes) {
  const at::Tensor host = hashes.cpu().contiguous();
  at::Tensor fresh = at::empty({host.size(0)}, at::kBool);
  const auto* h = host.const_data_ptr<int64_t>();
  auto* out = fresh.mutable_data_ptr<bool>();
  if (size() > kLimit) seen_.clear();
  for (int64_t i = 0; i < host.size(0); ++i) out[i] = seen_.emplace(h[2 * i], h[2 * i + 1]).second;
  return fresh;
}

bool HashSet::insert(int64_t first, int64_t second) {
  if (size() > kLimit) seen_.clear();
  return seen_.emplace(first, second).second;
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
      capacity_(std::max(originals.size(0) + 1, std::min(capacity, EnergyTree::kCapacity))),
      originals_(originals.clone()),
      x_(at::empty({capacity_, originals.size(1)}, originals.options())),
      about_(at::empty({capacity_, 4}, originals.options().dtype(at::kLong))),
      energy_(capacity_, originals.options()) {
  // Of few entries each fills pages of its own, and pages that are never written cost nothing.
  constexpr int64_t kMany = int64_t{1} << 18;
  if (x_.device().is_cpu() && capacity_ >= kMany) {
    for (const at::Tensor& each : {x_, about_}) {
      prefer_huge_pages(each.mutable_data_ptr(), static_cast<size_t>(each.nbytes()));
    }
  }
  const int64_t n = originals_count_;
  x_.slice(0, 0, n).copy_(originals);
  about_.slice(0, 0, n).zero_();
  about_.select(1, kRegion).slice(0, 0, n).copy_(at::arange(n));
  about_.select(1, kId).slice(0, 0, n).copy_(at::arange(n));
  about_.select(1, kParent).slice(0, 0, n).fill_(-1);
  energy_.energies().slice(0, 0, n).fill_(1.);
  energy_.sum_up();
  // Two regions may share an original; both stay.
  (void)seen_.insert(hash_rows(originals));
  size_ = next_ = next_id_ = n;
}

at::Tensor Corpus::draw(int64_t count, Rng& rng) const {
  return energy_.draw(count, size_, rng);
}

Seeds Corpus::gather(const at::Tensor& index) const {
  if (x_.device().is_cpu()) {
    // Entries that lie apart: all of them are on their way before the first is waited for.
    const auto* x = x_.const_data_ptr<float>();
    const auto* about = about_.const_data_ptr<int64_t>();
    const auto* at = index.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < index.size(0); ++i) {
      __builtin_prefetch(x + at[i] * x_.size(1));
      __builtin_prefetch(about + at[i] * about_.size(1));
    }
  }
  const at::Tensor about = about_.index_select(0, index).t().contiguous();
  return {x_.index_select(0, index), about.select(0, kRegion), about.select(0, kDepth),
          about.select(0, kId)};
}

int64_t Corpus::insert(const Seeds& parents, const at::Tensor& x, const at::Tensor& energy) {
  if (x.size(0) == 0) return 0;
  at::Tensor fresh = seen_.insert(hash_rows(x)).nonzero().squeeze(1).to(x.device());
  // Of more rows than the ring has room for, the last ones stay.
  fresh = fresh.slice(0, std::max<int64_t>(0, fresh.size(0) - (capacity_ - originals_count_)));
  const int64_t n = fresh.size(0);
  if (n == 0) return 0;
  // The slots: on to the end of the ring, then again from behind the originals.
  const int64_t ring = capacity_ - originals_count_;
  const int64_t begin = next_ - originals_count_;
  const at::Tensor offset = at::arange(begin, begin + n, about_.options());
  const at::Tensor slot = at::remainder(offset, ring) + originals_count_;
  const auto pick = [&](const at::Tensor& t) { return t.index_select(0, fresh); };
  x_.index_copy_(0, slot, pick(x));
  energy_.set(slot, pick(energy));
  const at::Tensor id = at::arange(next_id_, next_id_ + n, about_.options());
  about_.index_copy_(
      0, slot, at::stack({pick(parents.region), pick(parents.depth) + 1, id, pick(parents.id)}, 1));
  next_id_ += n;
  next_ = originals_count_ + (next_ - originals_count_ + n) % ring;
  size_ = std::min(capacity_, size_ + n);
  return n;
}

void Corpus::halve(const at::Tensor& index) {
  energy_.set(index, energy_.get(index) * 0.5);
}

void Corpus::save(State& state, const std::string& at) const {
  state.put(at + "counts", {size_, next_, next_id_});
  const auto put = [&](const char* name, const at::Tensor& t) {
    state.put(at + name, t.slice(0, 0, size_));
  };
  for (const auto& [name, t] : columns()) put(name, t);
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
  for (const auto& [name, t] : columns()) fill(name, t);
  energy_.sum_up();
  seen_.load(state, at + "seen/");
}

std::vector<std::pair<const char*, at::Tensor>> Corpus::columns() const {
  return {{"x", x_}, {"about", about_}, {"energy", energy_.energies()}};
}

void Corpus::retire(const at::Tensor& gone) {
  const at::Tensor region = about_.select(1, kRegion).slice(0, 0, size_);
  energy_.energies().slice(0, 0, size_).masked_fill_(gone.index_select(0, region), 0.);
  energy_.sum_up();
}

}  // namespace grapeshot
