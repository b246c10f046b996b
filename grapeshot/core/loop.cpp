#include "grapeshot/core/loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/memory.h"
#include "grapeshot/core/sign_step.h"

namespace grapeshot {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A lineage of the fair schedule ends after this many gradient steps.
constexpr int64_t kLineageSteps = 100;
// Share of new lineages that continue from a kept input instead of beginning afresh.
constexpr double kKeptShare = 0.2;
// Share of lineages that begin with tokens dropped, where a mutation may do that.
constexpr double kDropShare = 0.5;
// Hits of one instance that one iteration passes on: a second or third may be confirmed when
// rounding undoes the first.
constexpr int64_t kHitsPerInstance = 3;

int64_t pass_rows(const WorkerSetup& setup) {
  return setup.pass_rows > 0 ? setup.pass_rows : micro_batch(*setup.model);
}

int64_t batch_rows(const LoopOptions& options, const WorkerSetup& setup, bool paper) {
  if (options.batch != "auto") return std::stoll(options.batch);
  // The paper's B is the number of instances.
  if (paper) return static_cast<int64_t>(setup.instances.size());
  return pass_rows(setup);
}

int64_t corpus_capacity(int64_t bytes, int64_t inputs) {
  constexpr int64_t kBookkeeping = 80;  // bytes of an entry besides the input
  return std::clamp<int64_t>(bytes / (4 * inputs + kBookkeeping), 16, int64_t{1} << 20);
}

at::Tensor rows_of(const at::Tensor& t, const std::vector<int64_t>& rows) {
  return t.index_select(0, at::tensor(rows, at::kLong).to(t.device()));
}

at::Tensor draw_weighted(const std::vector<WeightedMutation>& mutations, int64_t count, Rng& rng,
                         at::Device device) {
  std::vector<double> weights;
  for (const WeightedMutation& each : mutations) weights.push_back(each.weight);
  return at::multinomial(at::tensor(weights).to(device), count, true, rng.generator());
}

}  // namespace

// What is about to be mutated. `mutation` ascends, so that every mutation has one run of rows.
struct Shard::Batch {
  Seeds seeds;
  at::Tensor stage;     // [B] float32
  at::Tensor mutation;  // [B] int64, index into mutations_
  at::Tensor margin;    // [B] to beat: the parent's for mutations that climb, +inf for the others
  at::Tensor instance;  // [B] int64 on the host
  RowSpec spec;
  at::Tensor eta;
  bool fresh = false;  // some lineage begins
};

// What became of it.
struct Shard::Judged {
  at::Tensor x, margin;            // [B, D], [B]: the candidates
  at::Tensor best_x, best_margin;  // the best of every row's iterates and its candidate
  at::Tensor gain;                 // [B]
  at::Tensor gaining;              // rows with one; undefined: none has
  bool gains = false;              // some may
  int64_t rows = 0;                // done before the deadline
};

Shard::Shard(const WorkerSetup& setup, const LoopOptions& options)
    : model_(setup.model),
      specs_(setup.specs),
      coverage_(setup.coverage),
      options_(options),
      mutations_(parse_mutations(options.mutations, options.weights, specs_->masks().any())),
      scale_(&find_scale(options.scale)),
      paper_(options.schedule == "paper"),
      head_(setup.head),
      seed_(setup.seed),
      batch_(batch_rows(options, setup, paper_)),
      micro_(even_pieces(batch_, pass_rows(setup))),
      bfloat16_(setup.bfloat16),
      drops_tokens_(std::ranges::any_of(
          mutations_, [](const WeightedMutation& each) { return each.mutation->masks; })),
      rng_(setup.seed, setup.originals.device()),
      corpus_(setup.originals, corpus_capacity(setup.corpus_bytes, setup.model->inputs())),
      violations_(setup.violations ? setup.violations : &own_violations_),
      active_(setup.instances),
      is_active_(at::zeros({setup.specs->instances()}, at::kBool)),
      best_margin_(at::full({setup.specs->instances()}, kInfinity)),
      best_input_(at::zeros({setup.specs->instances(), setup.model->inputs()})),
      region_turn_(static_cast<size_t>(setup.specs->instances()), 0) {
  confirmed_ = region_turn_;
  is_active_.index_fill_(0, at::tensor(active_, at::kLong), true);
  corpus_.retire(gone());
  const at::TensorOptions floats = setup.originals.options(), longs = floats.dtype(at::kLong);
  x_ = at::zeros({batch_, model_->inputs()}, floats);
  region_ = at::zeros({batch_}, longs);
  depth_ = at::zeros({batch_}, longs);
  id_ = at::zeros({batch_}, longs);
  mutation_ = at::zeros({batch_}, longs);
  stage_ = at::zeros({batch_}, floats);
  margin_ = at::full({batch_}, kInfinity, floats);
  over_ = at::ones({batch_}, floats.dtype(at::kBool));
}

void Shard::retire(int64_t instance) {
  std::erase(active_, instance);
  is_active_.index_fill_(0, at::tensor({instance}, at::kLong), false);
  if (paper_) return;
  const at::Tensor left = gone();
  corpus_.retire(left);
  over_.logical_or_(left.index_select(0, region_));
}

void Shard::judged(const Hit& hit, bool confirmed) {
  if (confirmed) ++confirmed_[static_cast<size_t>(hit.instance)];
}

// [R] bool: regions of instances that want nothing any more.
at::Tensor Shard::gone() const {
  return is_active_.logical_not().to(x_device()).index_select(0, specs_->instance());
}

at::Device Shard::x_device() const {
  return corpus_.originals().device();
}

void Shard::draw_paper(Batch& batch) {
  batch.seeds = corpus_.gather(corpus_.draw(batch_, rng_));
  batch.stage = at::ones_like(stage_);
  batch.margin = at::full_like(stage_, kInfinity);
  batch.mutation = draw_weighted(mutations_, 1, rng_, x_device()).expand({batch_}).contiguous();
  batch.instance = instances_of(batch.seeds.region);
  batch.spec = specs_->gather(batch.seeds.region);
  batch.eta = step_sizes(batch.spec);
}

// Rows whose lineage is over begin a new one: most on the instance whose turn it is, from a fresh
// start, some on a kept input.
bool Shard::begin_lineages() {
  const at::Tensor rows = over_.nonzero().squeeze(1);
  const int64_t n = rows.size(0);
  if (n == 0) {
    if (!lineage_spec_.lo.defined()) look_up_lineages();  // after load()
    return false;
  }
  std::vector<int64_t> turns;
  const at::Tensor first = specs_->first_region();
  const auto* begin = first.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t instance = active_[static_cast<size_t>(turn_++ % unbroken())];
    int64_t& turn = region_turn_[static_cast<size_t>(instance)];
    turns.push_back(begin[instance] + turn++ % (begin[instance + 1] - begin[instance]));
  }
  at::Tensor region = at::tensor(turns, at::kLong).to(x_device());
  at::Tensor x = corpus_.originals().index_select(0, region), id = region;
  at::Tensor depth = at::zeros_like(region), stage = at::zeros({n}, stage_.options());
  const at::Tensor some =
      (at::rand({n}, rng_.generator(), stage_.options()) < kKeptShare).nonzero().squeeze(1);
  const at::Tensor drawn = corpus_.draw(some.size(0), rng_);
  const Seeds found = corpus_.gather(drawn);
  const at::Tensor wanted =
      is_active_.to(x_device()).index_select(0, specs_->instance().index_select(0, found.region));
  const at::Tensor use = wanted.logical_and_(found.depth > 0).nonzero().squeeze(1);
  if (use.size(0) > 0) {
    corpus_.halve(drawn.index_select(0, use));
    const at::Tensor to = some.index_select(0, use);
    const auto take = [&](const at::Tensor& of, const at::Tensor& kept) {
      return of.index_copy(0, to, kept.index_select(0, use));
    };
    x = take(x, found.x);
    region = take(region, found.region);
    depth = take(depth, found.depth);
    id = take(id, found.id);
    // A kept input continues at half of a lineage's steps: near it, not across the box.
    stage.index_fill_(0, to, std::floor(0.5 * kLineageSteps / static_cast<double>(options_.steps)));
  }
  if (drops_tokens_) x = drop_tokens(x, specs_->gather(region).masks, kDropShare, rng_);
  const auto begin_with = [&](at::Tensor& of, const at::Tensor& value) {
    of = n == batch_ ? value : of.index_copy(0, rows, value);
  };
  begin_with(x_, x);
  begin_with(region_, region);
  begin_with(depth_, depth);
  begin_with(id_, id);
  begin_with(stage_, stage);
  begin_with(mutation_, draw_weighted(mutations_, n, rng_, x_device()));
  margin_ = margin_.index_fill(0, rows, kInfinity);
  over_ = at::zeros_like(over_);
  // Rows of one mutation lie together, so that it gets them without a copy.
  const at::Tensor order = mutation_.argsort(/*stable=*/true, 0, false);
  for (at::Tensor* each : {&x_, &region_, &depth_, &id_, &mutation_, &stage_, &margin_}) {
    *each = each->index_select(0, order);
  }
  look_up_lineages();
  return true;
}

// What stays the same until lineages begin.
void Shard::look_up_lineages() {
  lineage_instance_ = instances_of(region_);
  lineage_spec_ = specs_->gather(region_);
  lineage_eta_ = step_sizes(lineage_spec_);
  // Sign steps that shrink go on from the best of a generation, the others from the best so far.
  std::vector<float> climbs;
  for (const WeightedMutation& each : mutations_) {
    climbs.push_back(each.mutation->gradient ? kInfinity : -kInfinity);
  }
  lineage_climbs_ = at::tensor(climbs, margin_.options()).index_select(0, mutation_);
}

at::Tensor Shard::instances_of(const at::Tensor& region) const {
  return specs_->instance().index_select(0, region).cpu();
}

at::Tensor Shard::step_sizes(const RowSpec& spec) const {
  // The range of a ball is its diameter.
  const ScaleOptions options{options_.scale_factor, options_.eta};
  if (!spec.set.has_ball()) return scale_->apply(spec.lo, spec.hi, options);
  const at::Tensor radius = spec.set.radius.to(at::kFloat);
  return scale_->apply(-radius, radius, options);
}

void Shard::draw_fair(Batch& batch) {
  batch.fresh = begin_lineages();
  batch.seeds = {x_, region_, depth_, id_};
  batch.stage = stage_;
  batch.mutation = mutation_;
  batch.margin = margin_;
  batch.instance = lineage_instance_;
  batch.spec = lineage_spec_;
  batch.eta = lineage_eta_;
}

Shard::Batch Shard::draw() {
  Batch batch;
  paper_ ? draw_paper(batch) : draw_fair(batch);
  return batch;
}

// Mutates and judges rows [begin, end), which share a mutation.
void Shard::run_mutation(const Batch& batch, int64_t begin, int64_t end, const Mutation& mutation,
                         const Deadline& deadline, Judged& judged, Iteration& iteration) {
  const int64_t n = end - begin;
  const bool all = n == batch_;
  const auto rows = [&](const at::Tensor& t) {
    return all || t.size(0) == 1 ? t : t.slice(0, begin, end);
  };
  const RowSpec spec =
      with_bits_of(all ? batch.spec : batch.spec.slice(begin, end), rows(batch.seeds.x));
  const at::Tensor best_x = rows(judged.best_x), best_margin = rows(judged.best_margin);
  const auto judge = [&](const at::Tensor& x, const at::Tensor& margin) {
    keep_better(best_x, best_margin, x, margin);
    iteration.inputs_checked += n;
  };
  // What looks best in bfloat16 is judged in float32 afterwards.
  const at::Tensor likely_x = bfloat16_ ? rows(batch.seeds.x).clone() : at::Tensor();
  const at::Tensor likely_margin =
      bfloat16_ ? at::full({n}, kInfinity, best_margin.options()) : at::Tensor();
  const Loss loss = paper_ ? Loss::kCrossEntropy : Loss::kHinge;
  const Surrogate surrogate = iteration_ % 2 == 0 ? Surrogate::kLoose : Surrogate::kBounded;
  const Objective objective = [&](const at::Tensor& x) {
    at::Tensor margin;  // undefined where no gradient flows
    const Gradient g = iteration.gradient(
        *model_, bfloat16_ ? x.to(at::kBFloat16) : x, head_, surrogate, [&](const at::Tensor& y) {
          const Judgement judgement = grapeshot::judge(y.to(at::kFloat), spec, loss);
          margin = judgement.margin;
          return judgement.gradient;
        });
    if (!margin.defined()) margin = margins(g.y.to(at::kFloat), spec);
    if (bfloat16_) {
      keep_better(likely_x, likely_margin, x, margin);
      return g.x.to(at::kFloat);
    }
    judge(x, margin);
    return g.x;
  };
  MutationContext context{spec.lo,
                          spec.hi,
                          rows(batch.eta),
                          scale_->of_each_range ? options_.scale_factor : 0.,
                          options_.scale_factor,
                          rows(batch.stage),
                          batch.fresh,
                          options_.steps,
                          &objective,
                          rng_,
                          deadline,
                          spec.masks,
                          spec.set};
  const at::Tensor x = mutation.apply(rows(batch.seeds.x), context);
  // One forward pass for the candidate's verdict, with activations where they can still gain.
  const bool gains = coverage_->open();
  const Wanted wanted = gains ? coverage_->wanted() : Wanted();
  Trace trace;
  if (wanted.nothing()) {
    trace.y = iteration.forward(*model_, x, head_);
  } else {
    trace = iteration.trace(*model_, x, head_, wanted);
  }
  const at::Tensor margin = margins(trace.y, spec);
  judge(x, margin);
  if (all) {
    judged.margin = margin;
    judged.x = x;
  } else {
    judged.margin.slice(0, begin, end).copy_(margin);
    judged.x.slice(0, begin, end).copy_(x);
  }
  if (bfloat16_ && mutation.gradient) {
    judge(likely_x, margins(iteration.forward(*model_, likely_x, head_), spec));
  }
  if (gains) {  // last: what has fired gains nothing when memory asks for these rows again
    const at::Tensor gain = coverage_->update(wanted, trace);
    if (gain.defined()) {
      judged.gain.slice(0, begin, end).copy_(gain);
      judged.gains = true;
    }
  }
  judged.rows = end;
  iteration.candidates += n;
}

// Keeps the rows whose indices are given.
void Shard::keep(const Batch& batch, const Judged& judged, const at::Tensor& rows,
                 const at::Tensor& x, bool near_miss) {
  if (rows.size(0) == 0) return;
  const auto pick = [&](const at::Tensor& t) { return t.index_select(0, rows); };
  const at::Tensor q = (pick(judged.gain) > 0).to(at::kFloat),
                   v = (pick(judged.margin) <= 0).to(at::kFloat);
  const at::Tensor energy =
      near_miss ? at::full_like(q, options_.e_min)
                : (q * options_.alpha + v * options_.beta).clamp_min(options_.e_min);
  const Seeds& s = batch.seeds;
  (void)corpus_.insert({pick(s.x), pick(s.region), pick(s.depth), pick(s.id)}, pick(x), energy);
}

void Shard::keep_paper(const Batch& batch, const Judged& judged) {
  const at::Tensor which = (judged.gain > 0).logical_or_(judged.margin <= 0);
  keep(batch, judged, which.nonzero().squeeze(1), judged.x, false);
}

// The best iterate of every row is its lineage's next parent. The candidates that gained coverage
// are kept, and so is the best point of a lineage that ends, as a near miss.
void Shard::keep_fair(const Batch& batch, const Judged& judged) {
  const at::Tensor stage = batch.stage + 1;
  const at::Tensor ends = stage >= double{kLineageSteps} / static_cast<double>(options_.steps);
  if (judged.gaining.defined()) keep(batch, judged, judged.gaining, judged.x, false);
  keep(batch, judged, ends.nonzero().squeeze(1), judged.best_x, true);
  x_ = judged.best_x;
  margin_ = at::maximum(judged.best_margin, lineage_climbs_);
  stage_ = stage;
  depth_ = batch.seeds.depth + 1;
  over_ = ends;
}

// Best inputs per instance, and the hits. What is compared row by row is brought to the host once.
void Shard::note_best(const Batch& batch, const Judged& judged, Iteration& iteration) {
  const auto host = [&](const at::Tensor& t) { return t.cpu().contiguous(); };
  const at::Tensor margins = host(judged.best_margin);
  const auto* of = batch.instance.const_data_ptr<int64_t>();
  const auto* margin = margins.const_data_ptr<float>();
  const auto* active = is_active_.const_data_ptr<bool>();
  auto* best = best_margin_.mutable_data_ptr<float>();
  std::map<int64_t, int64_t> improved;  // instance -> row
  std::vector<int64_t> violating;
  for (int64_t r = 0; r < batch_; ++r) {
    if (!active[of[r]]) continue;
    if (margin[r] <= 0.f) violating.push_back(r);
    if (!(margin[r] < best[of[r]])) continue;
    best[of[r]] = margin[r];
    improved[of[r]] = r;
  }
  if (!improved.empty()) {
    std::vector<int64_t> where, rows;
    for (const auto& [i, r] : improved) {
      where.push_back(i);
      rows.push_back(r);
    }
    best_input_.index_copy_(0, at::tensor(where, at::kLong), rows_of(judged.best_x, rows).cpu());
  }
  // A campaign that keeps going wants no more of an instance that has its findings.
  std::erase_if(violating, [&](int64_t r) {
    return confirmed_[static_cast<size_t>(of[r])] >= options_.per_instance;
  });
  if (!violating.empty()) propose(batch, judged, violating, of, margin, iteration);
}

void Shard::propose(const Batch& batch, const Judged& judged, std::vector<int64_t> violating,
                    const int64_t* of, const float* margin, Iteration& iteration) {
  std::ranges::stable_sort(violating, {}, [&](int64_t r) { return margin[r]; });
  const at::Tensor rows = at::tensor(violating, at::kLong).to(judged.best_x.device());
  const at::Tensor hashes = hash_rows(judged.best_x, rows).cpu().contiguous();
  const auto* hash = hashes.const_data_ptr<int64_t>();
  std::map<int64_t, int64_t> hits;
  for (size_t k = 0; k < violating.size(); ++k) {
    const int64_t r = violating[k], i = of[r];
    // Lineages meet in the same corners: an input is proposed once for each instance.
    if (hits[i] >= kHitsPerInstance || !proposed_.insert(hash[2 * k] + i, hash[2 * k + 1] + i)) {
      continue;
    }
    ++hits[i];
    const auto which = batch.mutation.select(0, r).item<int64_t>();
    iteration.hits.push_back({i, batch.seeds.region.select(0, r).item<int64_t>(),
                              judged.best_x.select(0, r).cpu().clone(), margin[r], iteration_, r,
                              batch.seeds.id.select(0, r).item<int64_t>(),
                              std::string(mutations_[static_cast<size_t>(which)].mutation->name)});
  }
}

// By mutation, whose rows lie together.
std::vector<Made> Shard::made_by(const Judged& judged, const int64_t* which) const {
  std::vector<Made> out;
  const at::Tensor gaining = judged.gaining.defined() ? judged.gaining.cpu() : at::Tensor();
  const auto* gain = gaining.defined() ? gaining.const_data_ptr<int64_t>() : nullptr;
  const auto* end = gain ? gain + gaining.size(0) : nullptr;
  for (int64_t begin = 0; begin < judged.rows;) {
    const int64_t* next = std::upper_bound(which + begin, which + judged.rows, which[begin]);
    const auto* gained = std::lower_bound(gain, end, next - which);
    out.push_back({mutations_[static_cast<size_t>(which[begin])].mutation->name,
                   next - which - begin, gained - gain});
    gain = gained;
    begin = next - which;
  }
  return out;
}

Iteration Shard::iterate(const Deadline& deadline) {
  Iteration iteration;
  if (active_.empty() && !options_.keep_going) return iteration;
  rng_.reseed(derive_seed({seed_, static_cast<uint64_t>(iteration_)}));
  const Batch batch = draw();
  Judged judged;
  judged.x = at::empty_like(batch.seeds.x);
  judged.margin = at::full_like(batch.margin, kInfinity);
  judged.best_x = batch.seeds.x.clone();
  judged.best_margin = batch.margin.clone();
  judged.gain = at::zeros_like(batch.margin);
  const at::Tensor mutations = batch.mutation.cpu();
  const auto* which = mutations.const_data_ptr<int64_t>();
  int64_t most = micro_;
  for (int64_t begin = 0; begin < batch_ && !deadline.expired();) {
    const int64_t limit = std::min(begin + most, batch_);
    int64_t end = begin + 1;
    while (end < limit && which[end] == which[begin]) ++end;
    const Iteration before = iteration;
    try {
      run_mutation(batch, begin, end, *mutations_[static_cast<size_t>(which[begin])].mutation,
                   deadline, judged, iteration);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error) || end - begin == 1) throw;
      // As if nothing had been done, but with half of the rows.
      iteration = before;
      judged.gain.slice(0, begin, end).zero_();
      judged.margin.slice(0, begin, end).fill_(kInfinity);
      most = iteration.fewer_rows = (end - begin + 1) / 2;
      if (end - begin == micro_) micro_ = most;
      continue;
    }
    begin = end;
  }
  const auto* of = batch.instance.const_data_ptr<int64_t>();
  iteration.per_instance.assign(static_cast<size_t>(specs_->instances()), 0);
  for (int64_t r = 0; r < judged.rows; ++r) ++iteration.per_instance[static_cast<size_t>(of[r])];
  if (judged.gains) judged.gaining = judged.gain.nonzero().squeeze(1);
  iteration.made = made_by(judged, which);
  const at::Tensor violating = (judged.margin <= 0).nonzero().squeeze(1);
  iteration.violations = violating.size(0);
  if (iteration.violations > 0) {
    iteration.distinct_violations = violations_->insert(judged.x, violating);
  }
  note_best(batch, judged, iteration);
  paper_ ? keep_paper(batch, judged) : keep_fair(batch, judged);
  ++iteration_;
  iteration.cut_short = judged.rows < batch_ || deadline.expired();
  return iteration;
}

std::unique_ptr<Worker> make_shard(const WorkerSetup& setup, const LoopOptions& options) {
  return std::make_unique<Shard>(setup, options);
}

}  // namespace grapeshot
