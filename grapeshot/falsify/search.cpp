#include "grapeshot/falsify/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot::falsify {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// How much lower than a proposal that rounding may undo the next one has to be, as a share of the
// largest output: half of what a confirmation wants to see at least.
constexpr float kRounding = 1e-6f;

// Work between two looks at the clock: some 50 ms.
constexpr int64_t kPieceMacs = 500'000'000;
// Work of a round: some 100 ms of a small network, a second of one that is slow for its size.
constexpr double kRoundMacs = 3e9;
constexpr int64_t kMostRows = 512;

at::Tensor longs(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

Features features_of(const SpecTensors& specs, int64_t instance) {
  const auto* first = specs.first_region().const_data_ptr<int64_t>();
  Features f;
  f.regions = first[instance + 1] - first[instance];
  const at::Tensor lo = specs.lo().slice(0, first[instance], first[instance + 1]);
  const at::Tensor hi = specs.hi().slice(0, first[instance], first[instance + 1]);
  const at::Tensor free = (lo < hi).any(0).nonzero().squeeze(1).contiguous();
  f.free.assign(free.const_data_ptr<int64_t>(), free.const_data_ptr<int64_t>() + free.numel());
  return f;
}

}  // namespace

at::Tensor hinge(const at::Tensor& y, const RowSpec& spec, int64_t) {
  return loss_gradient(y, spec, Loss::kHinge);
}

at::Tensor lowest_margins(const Bounds& y, const RowSpec& spec) {
  if (spec.label.defined()) {
    const at::Tensor label = spec.label.unsqueeze(1);
    return y.lo.gather(1, label).squeeze(1) - y.hi.scatter(1, label, -kInfinity).amax(1);
  }
  const int64_t n = y.lo.size(0), c = spec.b.size(1), m = spec.b.size(2);
  const at::Tensor a = spec.a.reshape({n, c * m, -1});
  const at::Tensor low =
      at::bmm(a.clamp_min(0), y.lo.unsqueeze(2)) + at::bmm(a.clamp_max(0), y.hi.unsqueeze(2));
  return (low.view({n, c, m}) - spec.b).amax(2).amin(1);
}

// Rows [begin, begin + margin.size(0)) of a batch that were judged together.
struct Search::Piece {
  const at::Tensor& x;       // [m, D]
  const at::Tensor& y;       // [m, K]
  const at::Tensor& margin;  // [m]
  const Rows& rows;
  int64_t begin;
};

Search::Search(const WorkerSetup& setup, int64_t most_rows)
    : setup_(setup),
      most_rows_(most_rows > 0 ? most_rows : kMostRows),
      rng_(setup.seed),
      micro_(
          std::clamp<int64_t>(kPieceMacs / std::max<int64_t>(1, setup.model->macs()), 1,
                              setup.pass_rows > 0 ? setup.pass_rows : micro_batch(*setup.model))),
      active_(setup.instances),
      round_(setup.instances) {
  const int64_t instances = setup.specs->instances(), inputs = setup.model->inputs();
  for (int64_t i = 0; i < instances; ++i) features_.push_back(features_of(*setup.specs, i));
  const auto size = static_cast<size_t>(instances);
  region_turn_.assign(size, 0);
  wanted_.assign(size, 0.f);
  hit_.assign(size, false);
  scale_.assign(size, 0.f);
  tried_.resize(size);
  violations_ = setup.violations ? setup.violations : &own_violations_;
  best_margin_ = at::full({instances}, kInfinity);
  best_input_ = at::zeros({instances, inputs});
  near_x_ = at::zeros({instances, kNear, inputs});
  near_margin_ = at::full({instances, kNear}, kInfinity);
  near_region_ = at::zeros({instances, kNear}, at::kLong);
}

const Features& Search::features(int64_t instance) const {
  return features_[static_cast<size_t>(instance)];
}

bool Search::has_bounds() const {
  if (!has_bounds_) {
    const at::Tensor any = setup_.originals.slice(0, 0, 1);
    has_bounds_ = model().bounds(any, any, head()).has_value();
  }
  return *has_bounds_;
}

bool Search::over() const {
  return deadline_.expired() ||
         std::ranges::all_of(round_, [&](int64_t i) { return hit_[static_cast<size_t>(i)]; });
}

int64_t Search::rows_for(int64_t passes) const {
  const double rows =
      effort_ * kRoundMacs /
      (static_cast<double>(passes) * static_cast<double>(std::max<int64_t>(1, model().macs())));
  // Small networks spend their time on calls: more steps would cost more than more rows.
  const auto wanted = static_cast<int64_t>(std::min<double>(rows, static_cast<double>(most_rows_)));
  return std::max<int64_t>({wanted, std::ssize(round_), 4});
}

Rows Search::rows_of(const at::Tensor& region) const {
  return {region, specs().instance().index_select(0, region), specs().gather(region)};
}

Rows Search::rows(int64_t count) {
  const auto* first = specs().first_region().const_data_ptr<int64_t>();
  std::vector<int64_t> region;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t instance = round_[static_cast<size_t>(turn_++ % std::ssize(round_))];
    int64_t& turn = region_turn_[static_cast<size_t>(instance)];
    region.push_back(first[instance] + turn++ % (first[instance + 1] - first[instance]));
  }
  return rows_of(longs(region));
}

Rows Search::rows_of_instance(int64_t instance, int64_t count) {
  const auto* first = specs().first_region().const_data_ptr<int64_t>();
  int64_t& turn = region_turn_[static_cast<size_t>(instance)];
  std::vector<int64_t> region;
  for (int64_t i = 0; i < count; ++i) {
    region.push_back(first[instance] + turn++ % (first[instance + 1] - first[instance]));
  }
  return rows_of(longs(region));
}

at::Tensor Search::real_case(const Rows& rows, const at::Tensor& which) const {
  if (rows.spec.label.defined()) return which % (model().outputs() - 1);
  // A case that is not there has bounds of -inf.
  const at::Tensor there = (rows.spec.b > -kInfinity).all(2).sum(1).clamp_min(1);
  return which % there;
}

Stand Search::stand_at(const std::vector<int64_t>& instances, int64_t count) const {
  const auto* first = specs().first_region().const_data_ptr<int64_t>();
  std::vector<int64_t> flat, home;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t instance = instances[static_cast<size_t>(i % std::ssize(instances))];
    const at::Tensor row = near_margin_.select(0, instance);
    const auto* margins = row.const_data_ptr<float>();
    const auto known =
        std::count_if(margins, margins + kNear, [](float m) { return m < kInfinity; });
    const int64_t turn = i / std::ssize(instances);
    flat.push_back(instance * kNear + (known == 0 ? 0 : turn % known));
    home.push_back(first[instance]);
  }
  const at::Tensor at = longs(flat);
  const at::Tensor margin = near_margin_.view({-1}).index_select(0, at);
  const at::Tensor fresh = margin == kInfinity;
  const at::Tensor region =
      at::where(fresh, longs(home), near_region_.view({-1}).index_select(0, at));
  const at::Tensor x = at::where(fresh.unsqueeze(1), setup_.originals.index_select(0, region),
                                 near_x_.view({-1, model().inputs()}).index_select(0, at));
  return {rows_of(region), x, margin};
}

Stand Search::near(int64_t count) const {
  return stand_at(round_, count);
}

Stand Search::near_of(int64_t instance, int64_t count) const {
  return stand_at({instance}, count);
}

at::Tensor Search::originals(const Rows& rows) const {
  return setup_.originals.index_select(0, rows.region);
}

at::Tensor Search::outputs(const at::Tensor& x) {
  const int64_t n = x.size(0), piece = even_pieces(n, micro_);
  at::Tensor out = at::zeros({n, model().outputs()});
  for (int64_t begin = 0; begin < n && !over(); begin += piece) {
    const int64_t end = std::min(n, begin + piece);
    out.slice(0, begin, end).copy_(iteration_->forward(model(), x.slice(0, begin, end), head()));
  }
  return out;
}

// Attacks think in boxes: what else inputs keep to is kept here for all of them.
at::Tensor Search::inside(const at::Tensor& x, const Rows& rows) {
  return rows.spec.set.any() ? project(x, rows.spec) : x;
}

at::Tensor Search::evaluate(const at::Tensor& proposed, const Rows& rows) {
  const at::Tensor x = inside(proposed, rows);
  const int64_t n = rows.size(), piece = even_pieces(n, micro_);
  at::Tensor out = at::full({n}, kInfinity);
  for (int64_t begin = 0; begin < n && !over(); begin += piece) {
    const int64_t end = std::min(n, begin + piece);
    const at::Tensor part = x.slice(0, begin, end);
    const at::Tensor y = iteration_->forward(model(), part, head());
    const at::Tensor margin = margins(y, rows.spec.slice(begin, end));
    out.slice(0, begin, end).copy_(margin);
    note({part, y, margin, rows, begin});
  }
  return out;
}

Climb Search::climb(const at::Tensor& proposed, const Rows& rows, const RowLoss& loss) {
  const at::Tensor x = inside(proposed, rows);
  const int64_t n = rows.size(), piece = even_pieces(n, micro_);
  Climb out{at::full({n}, kInfinity), at::zeros_like(x)};
  for (int64_t begin = 0; begin < n && !over(); begin += piece) {
    const int64_t end = std::min(n, begin + piece);
    const at::Tensor part = x.slice(0, begin, end);
    const RowSpec spec = rows.spec.slice(begin, end);
    const Gradient g =
        iteration_->gradient(model(), part, head(), surrogate_.slice(begin, end),
                             [&](const at::Tensor& y) { return loss(y, spec, begin); });
    const at::Tensor margin = margins(g.y, spec);
    out.margin.slice(0, begin, end).copy_(margin);
    // A gradient that overflowed points nowhere.
    at::nan_to_num_out(
        const_cast<at::Tensor&>(static_cast<const at::Tensor&>(out.gradient.slice(0, begin, end))),
        g.x, 0., 0., 0.);
    gradient_rows_ += end - begin;
    dead_rows_ += (out.gradient.slice(0, begin, end) == 0).all(1).sum().item<int64_t>();
    note({part, g.y, margin, rows, begin});
  }
  return out;
}

const std::vector<float>& Search::reach_of(int64_t region) {
  constexpr int64_t kCorners = 24;
  auto& reach = reach_[region];
  if (!reach.empty() || over()) return reach;
  const at::Tensor lo = specs().lo().slice(0, region, region + 1);
  const at::Tensor hi = specs().hi().slice(0, region, region + 1);
  const at::Tensor coin = at::rand({kCorners, lo.size(1)}, rng_.generator());
  reach = model().reach(at::where(coin < 0.5, lo, hi));
  iteration_->cost += kCorners * model().macs();
  return reach;
}

void Search::turn_surrogate(const Rows& rows) {
  if (!model().has_surrogates()) return;
  const int64_t turn = surrogate_turn_++ % 4;
  surrogate_ = turn == 3 ? Surrogate::kBounded : Surrogate::kLoose;
  if (turn % 2 != 0) return;
  // A factor of its own for every row.
  constexpr double kLeast = 1., kSpan = 8.;
  std::vector<at::Tensor> windows;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const std::vector<float>& reach = reach_of(rows.region.const_data_ptr<int64_t>()[i]);
    if (reach.empty()) return;
    windows.push_back(at::tensor(reach));
  }
  const at::Tensor factor = kLeast * at::pow(kSpan, at::rand({rows.size(), 1}, rng_.generator()));
  surrogate_ = Surrogate(at::stack(windows) * factor);
}

double Search::dead_gradients() const {
  return gradient_rows_ == 0
             ? -1.
             : static_cast<double>(dead_rows_) / static_cast<double>(gradient_rows_);
}

void Search::keep_near(int64_t instance, int64_t region, const at::Tensor& x, float margin) {
  auto* margins = near_margin_.select(0, instance).mutable_data_ptr<float>();
  const at::Tensor kept = near_x_.select(0, instance);
  auto* regions = near_region_.select(0, instance).mutable_data_ptr<int64_t>();
  int64_t place = 0;
  while (place < kNear && margins[place] <= margin) {
    if (margins[place] == margin && regions[place] == region && kept.select(0, place).equal(x)) {
      return;
    }
    ++place;
  }
  if (place == kNear) return;
  for (int64_t k = kNear - 1; k > place; --k) {
    margins[k] = margins[k - 1];
    regions[k] = regions[k - 1];
    kept.select(0, k).copy_(kept.select(0, k - 1));
  }
  margins[place] = margin;
  regions[place] = region;
  kept.select(0, place).copy_(x);
}

// The best row of every instance; scalars on the host, since the passes are there as well.
void Search::note(const Piece& piece) {
  const int64_t n = piece.margin.size(0);
  iteration_->inputs_checked += n;
  iteration_->candidates += n;
  const at::Tensor margin = piece.margin.contiguous();
  const auto* m = margin.const_data_ptr<float>();
  const auto* instance = piece.rows.instance.const_data_ptr<int64_t>() + piece.begin;
  const auto* region = piece.rows.region.const_data_ptr<int64_t>() + piece.begin;
  if (!met_nan_ && piece.x.isfinite().all().item<bool>() && piece.y.isnan().any().item<bool>()) {
    met_nan_ = true;
    const int64_t row = piece.y.isnan().any(1).nonzero().select(0, 0).item<int64_t>();
    hits_.push_back({.instance = instance[row],
                     .region = region[row],
                     .x = piece.x.select(0, row).clone(),
                     .margin = kInfinity,
                     .is_nan = true});
  }
  std::map<int64_t, int64_t> nearest;  // instance -> row
  for (int64_t i = 0; i < n; ++i) {
    iteration_->per_instance[static_cast<size_t>(instance[i])] += 1;
    const auto slot = static_cast<size_t>(instance[i]);
    if (features_[slot].free.empty()) tried_[slot].insert(region[i]);
    const auto [entry, fresh] = nearest.try_emplace(instance[i], i);
    if (!fresh && m[i] < m[entry->second]) entry->second = i;
  }
  auto* best = best_margin_.mutable_data_ptr<float>();
  for (const auto& [which, row] : nearest) {
    if (!(m[row] < kInfinity) || !(m[row] > -kInfinity)) continue;
    const at::Tensor x = piece.x.select(0, row);
    keep_near(which, region[row], x, m[row]);
    if (m[row] < best[which]) {
      best[which] = m[row];
      best_input_.select(0, which).copy_(x);
    }
    const auto slot = static_cast<size_t>(which);
    if (hit_[slot] || !(m[row] <= wanted_[slot])) continue;
    hit_[slot] = true;
    hits_.push_back({.instance = which, .region = region[row], .x = x.clone(), .margin = m[row]});
    scale_[slot] = piece.y.select(0, row).abs().max().item<float>();
  }
  const at::Tensor violating = (margin <= 0).nonzero().squeeze(1);
  iteration_->violations += violating.numel();
  if (violating.numel() > 0) {
    iteration_->distinct_violations += violations_->insert(piece.x, violating);
  }
}

void Search::judged(const Hit& hit, bool confirmed) {
  if (hit.is_nan) return;
  const auto slot = static_cast<size_t>(hit.instance);
  // More findings of the instance are wanted elsewhere; and what was refused leads nowhere.
  const float step = std::max(kRounding * scale_[slot], 1e-12f);
  const bool close = hit.margin > -100.f * step;
  if (confirmed || !close) {
    near_margin_.select(0, hit.instance).fill_(kInfinity);
    return;
  }
  // Rounding undoes it: the next one has to be clearly lower.
  wanted_[slot] = std::min(1.5f * hit.margin, hit.margin - step);
}

bool Search::exhausted(int64_t instance) const {
  const auto slot = static_cast<size_t>(instance);
  return features_[slot].free.empty() && std::ssize(tried_[slot]) == features_[slot].regions;
}

void Search::begin_round(std::vector<int64_t> instances, double effort, Iteration& iteration,
                         const Deadline& deadline) {
  round_ = std::move(instances);
  effort_ = effort;
  iteration_ = &iteration;
  iteration.per_instance.assign(features_.size(), 0);
  deadline_ = deadline;
  surrogate_ = Surrogate::kLoose;
  std::fill(hit_.begin(), hit_.end(), false);
}

void Search::end_round(std::string_view attack, int64_t round) {
  for (Hit& hit : hits_) {
    hit.mutation = attack;
    hit.iteration = round;
    iteration_->hits.push_back(std::move(hit));
  }
  hits_.clear();
  iteration_->made.push_back({attack, iteration_->candidates});
  std::ranges::stable_sort(iteration_->hits, {}, &Hit::margin);
}

void Search::save(State& state, const std::string& at) const {
  state.put(at + "active", active_);
  state.put(at + "region_turn", region_turn_);
  state.put(at + "counts", {turn_, surrogate_turn_, gradient_rows_, dead_rows_, met_nan_ ? 1 : 0});
  state.put(at + "random", rng_.state());
  const auto remember = [&](const char* name, const std::vector<float>& values) {
    state.put(at + name, at::tensor(values));
  };
  remember("wanted", wanted_);
  remember("scale", scale_);
  state.put(at + "best_margin", best_margin_);
  state.put(at + "best_input", best_input_);
  state.put(at + "near_x", near_x_);
  state.put(at + "near_margin", near_margin_);
  state.put(at + "near_region", near_region_);
  for (size_t i = 0; i < tried_.size(); ++i) {
    if (tried_[i].empty()) continue;
    state.put(str(at, "tried/", i), std::vector<int64_t>(tried_[i].begin(), tried_[i].end()));
  }
}

void Search::load(const State& state, const std::string& at) {
  active_ = state.integers(at + "active");
  region_turn_ = state.integers(at + "region_turn");
  const std::vector<int64_t> counts = state.integers(at + "counts");
  GRAPESHOT_CHECK(counts.size() == 5 && region_turn_.size() == features_.size(), kParse, "its '",
                  at, "counts' do not fit");
  turn_ = counts[0];
  surrogate_turn_ = counts[1];
  gradient_rows_ = counts[2];
  dead_rows_ = counts[3];
  met_nan_ = counts[4] != 0;
  rng_.set_state(state.tensor(at + "random"));
  const auto recall = [&](const char* name, std::vector<float>& values) {
    const at::Tensor t = at::empty({std::ssize(values)});
    state.fill(at + name, t);
    values.assign(t.const_data_ptr<float>(), t.const_data_ptr<float>() + t.numel());
  };
  recall("wanted", wanted_);
  recall("scale", scale_);
  state.fill(at + "best_margin", best_margin_);
  state.fill(at + "best_input", best_input_);
  state.fill(at + "near_x", near_x_);
  state.fill(at + "near_margin", near_margin_);
  state.fill(at + "near_region", near_region_);
  for (size_t i = 0; i < tried_.size(); ++i) {
    const std::string name = str(at, "tried/", i);
    if (!state.has(name)) continue;
    const std::vector<int64_t> regions = state.integers(name);
    tried_[i] = {regions.begin(), regions.end()};
  }
}

void Search::retire(int64_t instance) {
  std::erase(active_, instance);
  std::erase_if(memory_, [&](const auto& entry) { return entry.first.second == instance; });
}

}  // namespace grapeshot::falsify
