#include "grapeshot/core/loop.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A lineage of the fair schedule ends after this many gradient steps.
constexpr int64_t kLineageSteps = 100;
// Share of new lineages that continue from a kept input instead of beginning afresh.
constexpr double kKeptShare = 0.2;
// Hits of one instance that one iteration passes on: a second or third may be confirmed when
// rounding undoes the first.
constexpr int64_t kHitsPerInstance = 3;

int64_t batch_rows(const LoopOptions& options, const WorkerSetup& setup, bool paper) {
  if (options.batch != "auto") return std::stoll(options.batch);
  // The paper's B is the number of instances.
  if (paper) return static_cast<int64_t>(setup.instances.size());
  return micro_batch(*setup.model);
}

int64_t corpus_capacity(int64_t bytes, int64_t inputs) {
  constexpr int64_t kBookkeeping = 64;  // bytes of an entry besides the input
  return std::clamp<int64_t>(bytes / (4 * inputs + kBookkeeping), 16, int64_t{1} << 16);
}

at::Tensor draw_weighted(const std::vector<WeightedMutation>& mutations, int64_t count, Rng& rng) {
  std::vector<double> weights;
  for (const WeightedMutation& each : mutations) weights.push_back(each.weight);
  return at::multinomial(at::tensor(weights), count, true, rng.generator());
}

}  // namespace

// What is about to be mutated. `mutation` ascends, so that every mutation has one run of rows.
struct Shard::Batch {
  Seeds seeds;
  at::Tensor stage;     // [B] float32
  at::Tensor mutation;  // [B] int64, index into mutations_
  at::Tensor row;       // [B] int64, the lineage (fair)
  at::Tensor margin;    // [B] to beat: the parent's for mutations that climb, +inf for the others
  RowSpec spec;
  at::Tensor eta, reach;
};

// What became of it.
struct Shard::Judged {
  at::Tensor x, margin;            // [B, D], [B]: the candidates
  at::Tensor best_x, best_margin;  // the best of every row's iterates and its candidate
  at::Tensor gain;                 // [B]
  int64_t rows = 0;                // done before the deadline
};

Shard::Shard(const WorkerSetup& setup, const LoopOptions& options)
    : model_(setup.model),
      specs_(setup.specs),
      coverage_(setup.coverage),
      options_(options),
      mutations_(parse_mutations(options.mutations, options.weights)),
      scale_(&find_scale(options.scale)),
      paper_(options.schedule == "paper"),
      head_(setup.head),
      seed_(setup.seed),
      batch_(batch_rows(options, setup, paper_)),
      micro_(even_pieces(batch_, micro_batch(*setup.model))),
      rng_(setup.seed),
      corpus_(setup.originals, corpus_capacity(setup.corpus_bytes, setup.model->inputs())),
      violations_(setup.violations ? setup.violations : &own_violations_),
      active_(setup.instances),
      is_active_(at::zeros({setup.specs->instances()}, at::kBool)),
      best_margin_(at::full({setup.specs->instances()}, kInfinity)),
      best_input_(at::zeros({setup.specs->instances(), setup.model->inputs()})),
      region_turn_(static_cast<size_t>(setup.specs->instances()), 0) {
  is_active_.index_fill_(0, at::tensor(active_, at::kLong), true);
  corpus_.retire(is_active_.logical_not().index_select(0, specs_->instance()));
  x_ = at::zeros({batch_, model_->inputs()});
  region_ = at::zeros({batch_}, at::kLong);
  depth_ = at::zeros({batch_}, at::kLong);
  id_ = at::zeros({batch_}, at::kLong);
  mutation_ = at::zeros({batch_}, at::kLong);
  stage_ = at::zeros({batch_});
  margin_ = at::full({batch_}, kInfinity);
  over_ = at::ones({batch_}, at::kBool);
}

void Shard::retire(int64_t instance) {
  std::erase(active_, instance);
  is_active_.index_fill_(0, at::tensor({instance}, at::kLong), false);
  if (paper_) return;
  const at::Tensor gone = is_active_.logical_not().index_select(0, specs_->instance());
  corpus_.retire(gone);
  over_.logical_or_(gone.index_select(0, region_));
}

void Shard::draw_paper(Batch& batch) {
  batch.seeds = corpus_.gather(corpus_.draw(batch_, rng_));
  batch.stage = at::ones({batch_});
  batch.margin = at::full({batch_}, kInfinity);
  batch.mutation = draw_weighted(mutations_, 1, rng_).expand({batch_}).contiguous();
  batch.row = at::arange(batch_);
}

// Rows whose lineage is over begin a new one: most on the instance whose turn it is, from a fresh
// start, some on a kept input.
void Shard::begin_lineages() {
  const at::Tensor rows = over_.nonzero().squeeze(1);
  const int64_t n = rows.size(0);
  if (n == 0) return;
  std::vector<int64_t> turns;
  const at::Tensor first = specs_->first_region();
  const auto* begin = first.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t instance = active_[static_cast<size_t>(turn_++ % unbroken())];
    int64_t& turn = region_turn_[static_cast<size_t>(instance)];
    turns.push_back(begin[instance] + turn++ % (begin[instance + 1] - begin[instance]));
  }
  const at::Tensor fresh_region = at::tensor(turns, at::kLong);
  const at::Tensor drawn = corpus_.draw(n, rng_);
  const Seeds kept = corpus_.gather(drawn);
  const at::Tensor use_kept = at::rand({n}, rng_.generator())
                                  .lt(kKeptShare)
                                  .logical_and_(kept.depth > 0)
                                  .logical_and_(is_active_.index_select(
                                      0, specs_->instance().index_select(0, kept.region)));
  corpus_.halve(drawn.masked_select(use_kept));
  const at::Tensor fresh_x = corpus_.originals().index_select(0, fresh_region);
  x_.index_copy_(0, rows, at::where(use_kept.unsqueeze(1), kept.x, fresh_x));
  region_.index_copy_(0, rows, at::where(use_kept, kept.region, fresh_region));
  depth_.index_copy_(0, rows, at::where(use_kept, kept.depth, at::zeros_like(kept.depth)));
  id_.index_copy_(0, rows, at::where(use_kept, kept.id, fresh_region));
  // A kept input continues at half of a lineage's steps: near it, not across the box.
  const double half = std::floor(0.5 * kLineageSteps / static_cast<double>(options_.steps));
  stage_.index_copy_(0, rows, use_kept.to(at::kFloat) * half);
  mutation_.index_copy_(0, rows, draw_weighted(mutations_, n, rng_));
  margin_.index_fill_(0, rows, kInfinity);
  over_.fill_(false);
}

void Shard::draw_fair(Batch& batch) {
  begin_lineages();
  batch.row = mutation_.argsort(/*stable=*/true, 0, false);
  const auto pick = [&](const at::Tensor& t) { return t.index_select(0, batch.row); };
  batch.seeds = {pick(x_), pick(region_), pick(depth_), pick(id_)};
  batch.stage = pick(stage_);
  batch.mutation = pick(mutation_);
  batch.margin = pick(margin_);
}

Shard::Batch Shard::draw() {
  Batch batch;
  if (paper_) {
    draw_paper(batch);
  } else {
    draw_fair(batch);
  }
  batch.spec = specs_->gather(batch.seeds.region);
  batch.eta = scale_->apply(batch.spec.lo, batch.spec.hi, {options_.scale_factor, options_.eta});
  batch.reach = batch.eta / options_.scale_factor;
  return batch;
}

// Mutates and judges rows [begin, end), which share a mutation.
void Shard::run_mutation(const Batch& batch, int64_t begin, int64_t end, const Mutation& mutation,
                         const Deadline& deadline, Judged& judged, Iteration& iteration) {
  const int64_t n = end - begin;
  const RowSpec spec = batch.spec.slice(begin, end);
  const auto rows = [&](const at::Tensor& t) {
    return t.size(0) == 1 ? t : t.slice(0, begin, end);
  };
  const at::Tensor best_x = judged.best_x.slice(0, begin, end);
  const at::Tensor best_margin = judged.best_margin.slice(0, begin, end);
  const auto judge = [&](const at::Tensor& x, const at::Tensor& y) {
    const at::Tensor margin = margins(y, spec);
    const at::Tensor better = margin < best_margin;
    at::where_out(const_cast<at::Tensor&>(best_x), better.unsqueeze(1), x, best_x);
    at::minimum_out(const_cast<at::Tensor&>(best_margin), best_margin, margin);
    iteration.inputs_checked += n;
    return margin;
  };
  const Loss loss = paper_ ? Loss::kCrossEntropy : Loss::kHinge;
  const Surrogate surrogate = iteration_ % 2 == 0 ? Surrogate::kLoose : Surrogate::kBounded;
  const Objective objective = [&](const at::Tensor& x) {
    const Gradient g = model_->gradient(
        x, head_, surrogate, [&](const at::Tensor& y) { return loss_gradient(y, spec, loss); });
    judge(x, g.y);
    iteration.cost += 3 * n * model_->macs();
    return g.x;
  };
  MutationContext context{spec.lo,           spec.hi,        rows(batch.eta), rows(batch.reach),
                          rows(batch.stage), options_.steps, &objective,      rng_,
                          deadline};
  const at::Tensor x = mutation.apply(batch.seeds.x.slice(0, begin, end), context);
  // One forward pass for the candidate's verdict, with activations where they can still gain.
  const std::vector<int64_t> taps = coverage_->wanted();
  at::Tensor y;
  if (taps.empty()) {
    y = model_->forward(x, head_);
  } else {
    Trace trace = model_->trace(x, head_, taps);
    y = trace.y;
    const at::Tensor gain = coverage_->update(trace.activations);
    if (gain.defined()) judged.gain.slice(0, begin, end).copy_(gain);
  }
  judged.margin.slice(0, begin, end).copy_(judge(x, y));
  judged.x.slice(0, begin, end).copy_(x);
  judged.rows = end;
  iteration.cost += n * model_->macs();
  iteration.candidates += n;
}

at::Tensor Shard::energy(const Judged& judged) const {
  const at::Tensor q = (judged.gain > 0).to(at::kFloat), v = (judged.margin <= 0).to(at::kFloat);
  return (q * options_.alpha + v * options_.beta).clamp_min(options_.e_min);
}

void Shard::keep_paper(const Batch& batch, const Judged& judged) {
  const at::Tensor keep = (judged.gain > 0).logical_or_(judged.margin <= 0).nonzero().squeeze(1);
  const auto pick = [&](const at::Tensor& t) { return t.index_select(0, keep); };
  const Seeds& s = batch.seeds;
  (void)corpus_.insert({pick(s.x), pick(s.region), pick(s.depth), pick(s.id)}, pick(judged.x),
                       pick(energy(judged)));
}

// The best iterate of every row is its lineage's next parent. The candidates that gained coverage
// are kept, and so is the best point of a lineage that ends, as a near miss.
void Shard::keep_fair(const Batch& batch, const Judged& judged) {
  const at::Tensor stage = batch.stage + 1;
  const at::Tensor ends = stage * static_cast<double>(options_.steps) >= double{kLineageSteps};
  const auto keep = [&](const at::Tensor& which, const at::Tensor& x, const at::Tensor& energy) {
    const at::Tensor rows = which.nonzero().squeeze(1);
    const auto pick = [&](const at::Tensor& t) { return t.index_select(0, rows); };
    const Seeds& s = batch.seeds;
    (void)corpus_.insert({pick(s.x), pick(s.region), pick(s.depth), pick(s.id)}, pick(x),
                         pick(energy));
  };
  keep(judged.gain > 0, judged.x, energy(judged));
  keep(ends, judged.best_x, at::full({batch_}, options_.e_min));
  const Seeds& s = batch.seeds;
  x_.index_copy_(0, batch.row, judged.best_x);
  // Sign steps that shrink go on from the best of this generation, the others from the best so far.
  std::vector<float> climbs;
  for (const WeightedMutation& each : mutations_) {
    climbs.push_back(each.mutation->gradient ? kInfinity : -kInfinity);
  }
  margin_.index_copy_(
      0, batch.row,
      at::maximum(judged.best_margin, at::tensor(climbs).index_select(0, batch.mutation)));
  stage_.index_copy_(0, batch.row, stage);
  depth_.index_copy_(0, batch.row, s.depth + 1);
  over_.index_copy_(0, batch.row, ends);
}

// Best inputs per instance, and the hits.
void Shard::note_best(const Batch& batch, const Judged& judged, Iteration& iteration) {
  const at::Tensor instance = specs_->instance().index_select(0, batch.seeds.region);
  const at::Tensor better = (judged.best_margin < best_margin_.index_select(0, instance))
                                .logical_or_(judged.best_margin <= 0)
                                .logical_and_(is_active_.index_select(0, instance));
  // Ascending, so that the best row of an instance comes first.
  const at::Tensor order = judged.best_margin.argsort(/*stable=*/true, 0, false);
  const at::Tensor rows = order.masked_select(better.index_select(0, order));
  const auto* row = rows.const_data_ptr<int64_t>();
  const auto* of = instance.const_data_ptr<int64_t>();
  const auto* margin = judged.best_margin.const_data_ptr<float>();
  int64_t violating = 0;
  while (violating < rows.size(0) && margin[row[violating]] <= 0.f) ++violating;
  const at::Tensor hashes =
      violating > 0 ? hash_rows(judged.best_x.index_select(0, rows.slice(0, 0, violating)))
                    : at::Tensor();
  std::vector<int64_t> hits(static_cast<size_t>(specs_->instances()), 0);
  for (int64_t k = 0; k < rows.size(0); ++k) {
    const int64_t r = row[k], i = of[r];
    const at::Tensor x = judged.best_x.select(0, r);
    if (margin[r] < best_margin_.select(0, i).item<float>()) {
      best_margin_.select(0, i).fill_(margin[r]);
      best_input_.select(0, i).copy_(x);
    }
    if (k < violating && hits[static_cast<size_t>(i)] < kHitsPerInstance) {
      // Lineages meet in the same corners: an input is proposed once for each instance.
      if (!proposed_.insert(hashes.slice(0, k, k + 1) + i).item<bool>()) continue;
      ++hits[static_cast<size_t>(i)];
      const auto which = batch.mutation.select(0, r).item<int64_t>();
      iteration.hits.push_back(
          {i, batch.seeds.region.select(0, r).item<int64_t>(), x.clone(), margin[r], iteration_,
           batch.row.select(0, r).item<int64_t>(), batch.seeds.id.select(0, r).item<int64_t>(),
           std::string(mutations_[static_cast<size_t>(which)].mutation->name)});
    }
  }
}

Iteration Shard::iterate(const Deadline& deadline) {
  Iteration iteration;
  if (active_.empty() && !options_.keep_going) return iteration;
  rng_.reseed(derive_seed({seed_, static_cast<uint64_t>(iteration_)}));
  const Batch batch = draw();
  Judged judged;
  judged.x = batch.seeds.x.clone();
  judged.margin = at::full({batch_}, kInfinity);
  judged.best_x = batch.seeds.x.clone();
  judged.best_margin = batch.margin.clone();
  judged.gain = at::zeros({batch_});
  const auto* which = batch.mutation.const_data_ptr<int64_t>();
  for (int64_t begin = 0; begin < batch_ && !deadline.expired();) {
    const int64_t limit = std::min(begin + micro_, batch_);
    int64_t end = begin + 1;
    while (end < limit && which[end] == which[begin]) ++end;
    run_mutation(batch, begin, end, *mutations_[static_cast<size_t>(which[begin])].mutation,
                 deadline, judged, iteration);
    begin = end;
  }
  const at::Tensor tried = specs_->instance().index_select(0, batch.seeds.region);
  const at::Tensor counts =
      at::bincount(tried.slice(0, 0, judged.rows), {}, specs_->instances()).contiguous();
  const auto* count = counts.const_data_ptr<int64_t>();
  iteration.per_instance.assign(count, count + counts.numel());
  const at::Tensor violating = (judged.margin <= 0).nonzero().squeeze(1);
  iteration.violations = violating.size(0);
  if (iteration.violations > 0) {
    iteration.distinct_violations = violations_->insert(judged.x.index_select(0, violating));
  }
  note_best(batch, judged, iteration);
  if (paper_) {
    keep_paper(batch, judged);
  } else {
    keep_fair(batch, judged);
  }
  ++iteration_;
  iteration.cut_short = judged.rows < batch_ || deadline.expired();
  return iteration;
}

void Shard::save(State& state, const std::string& at) const {
  state.put(at + "turns", {iteration_, turn_});
  state.put(at + "region_turn", region_turn_);
  state.put(at + "active", active_);
  corpus_.save(state, at + "corpus/");
  proposed_.save(state, at + "proposed/");
  for (const auto& [name, t] : remembered()) state.put(at + name, t);
}

void Shard::load(const State& state, const std::string& at) {
  const std::vector<int64_t> turns = state.integers(at + "turns");
  region_turn_ = state.integers(at + "region_turn");
  active_ = state.integers(at + "active");
  GRAPESHOT_CHECK(turns.size() == 2 && std::ssize(region_turn_) == specs_->instances(), kParse,
                  "its '", at, "turns' do not fit");
  iteration_ = turns[0];
  turn_ = turns[1];
  is_active_.fill_(false).index_fill_(0, at::tensor(active_, at::kLong), true);
  corpus_.load(state, at + "corpus/");
  proposed_.load(state, at + "proposed/");
  for (const auto& [name, t] : remembered()) state.fill(at + name, t);
}

std::vector<std::pair<std::string, at::Tensor>> Shard::remembered() const {
  return {{"x", x_},
          {"region", region_},
          {"depth", depth_},
          {"id", id_},
          {"mutation", mutation_},
          {"stage", stage_},
          {"margin", margin_},
          {"over", over_},
          {"best_margin", best_margin_},
          {"best_input", best_input_}};
}

std::unique_ptr<Worker> make_shard(const WorkerSetup& setup, const LoopOptions& options) {
  return std::make_unique<Shard>(setup, options);
}

}  // namespace grapeshot
