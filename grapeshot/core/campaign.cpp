#include "grapeshot/core/campaign.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "grapeshot/base/cores.h"
#include "grapeshot/base/error.h"
#include "grapeshot/core/board.h"
#include "grapeshot/core/denormals.h"
#include "grapeshot/core/device.h"
#include "grapeshot/core/memory.h"
#include "grapeshot/core/precision.h"

namespace grapeshot {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kTick = std::chrono::milliseconds(250);

// How long: time, or where runs have to repeat themselves a share of the budget.
constexpr double kPatience_s = 0.5;
constexpr int64_t kPatienceShare = 50;

// Writing checkpoints takes no more than this share of the time.
constexpr double kWritingShare = 0.05;

class Campaign {
 public:
  Campaign(const std::vector<CampaignModel>& models, const LoopOptions& options,
           CampaignObserver& observer, const std::atomic<bool>& stop, const CampaignParts& parts)
      : options_(options),
        parts_(parts),
        observer_(observer),
        earlier_s_(parts.resume ? parts.resume->real("seconds") : 0.),
        deadline_(options.seconds > 0. ? std::max(options.seconds - earlier_s_, 0.) : kInfinity,
                  &stop),
        outer_(&stop),
        board_{.groups = {}, .ledger = Ledger(count_instances(models), options.per_instance)} {
    int64_t next = 0;
    (void)open_device(options.device);  // before torch settles for the processor
    at::set_num_threads(1);
    std::vector<const Model*> networks;
    for (const CampaignModel& each : models) networks.push_back(each.model);
    const int64_t cores = options.threads > 0 ? options.threads : core_count();
    room_ = share_memory(networks, options.memory_mib << 20, cores);
    board_.groups.reserve(models.size());  // shards point into it
    for (const CampaignModel& each : models) {
      Group& group = board_.groups.emplace_back();
      group.model = each.model;
      group.profile = each.profile;
      group.first = next;
      group.instances = each.instances;
      next += static_cast<int64_t>(each.instances.size());
    }
    for (Group& group : board_.groups) prepare(group);
    if (parts.resume) {
      const auto make = [this](size_t g, uint64_t seed, std::vector<int64_t> instances) -> Unit& {
        return make_unit(g, seed, std::move(instances));
      };
      board_.load(*parts.resume, make, [this](const Group& group, uint64_t seed, const Hit& hit) {
        int64_t borderline = 0;
        return examine(group, seed, hit, borderline);
      });
    }
  }

  CampaignResult run() {
    const int64_t lanes = room_.lanes;
    std::vector<std::thread> threads;
    try {
      for (int64_t lane = 0; lane < lanes; ++lane) threads.emplace_back([this] { run_lane(); });
    } catch (const std::system_error&) {
      // Fewer lanes do as well; none is a failure.
      if (threads.empty()) throw;
    }
    const auto started = static_cast<int64_t>(threads.size());
    result_.lanes = started;
    result_.threads = room_.threads;
    {
      std::unique_lock lock(mutex_);
      lanes_ = started;
      while (lanes_done_ < started) {
        wake_.wait_for(lock, kTick);
        report();
      }
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    std::unique_lock lock(mutex_);
    // What was cut short would not be repeated: then the last checkpoint stands.
    if (parts_.keep && !(cut_short_ && options_.candidates > 0)) keep();
    settle(/*all=*/true);
    result_.totals = snapshot();
    result_.instances = board_.ledger.take_instances();
    result_.interrupted = outer_->load();
    return std::move(result_);
  }

 private:
  void prepare(Group& group) {
    std::vector<const Property*> properties;
    bool differences = true;
    for (const CampaignInstance& instance : group.instances) {
      const Property& p = *instance.property;
      GRAPESHOT_CHECK(p.inputs == group.model->inputs() && p.outputs == group.model->outputs(),
                      kInvalidArgument, "the specification has ", p.inputs, " inputs and ",
                      p.outputs, " outputs, ", group.model->name(), " has ", group.model->inputs(),
                      " and ", group.model->outputs());
      properties.push_back(&p);
      differences = differences && compares_outputs_only(p);
    }
    group.specs.emplace(properties);
    group.originals = region_originals(group).to(open_device(options_.device));
    group.specs->move_to(group.originals.device());
    group.pass_rows = rows_within(*group.model, room_.pass_bytes, group.specs->bytes_per_row());
    group.bfloat16 = proposes_in_bfloat16(*group.model, options_, group.pass_rows);
    group.coverage = std::make_unique<SharedCoverage>(*group.model, options_, group.profile);
    group.head = differences && group.model->has_logits() ? Head::kLogits : Head::kOutputs;
    group.unbroken = static_cast<int64_t>(group.instances.size());
    std::vector<int64_t> all;
    for (int64_t i = 0; i < group.unbroken; ++i) {
      const auto& regions = group.instances[static_cast<size_t>(i)].property->regions;
      if (std::ranges::all_of(regions, [](const Region& r) { return r.box.empty; })) {
        group.retired.push_back(i);  // there is no input to try
      } else {
        all.push_back(i);
      }
    }
    group.unbroken = static_cast<int64_t>(all.size());
    if (options_.seconds_per_instance > 0.) {
      for (const int64_t i : all) board_.pending.emplace_back(&group - board_.groups.data(), i);
      result_.batch.push_back(0);
    } else {
      result_.batch.push_back(
          open_unit(static_cast<size_t>(&group - board_.groups.data()), all).worker->batch());
    }
  }

  Unit& open_unit(size_t g, std::vector<int64_t> instances) {
    const auto shard = static_cast<uint64_t>(board_.groups[g].shards++);
    return make_unit(g, derive_seed({options_.seed, g, shard}), std::move(instances));
  }

  Unit& make_unit(size_t g, uint64_t seed, std::vector<int64_t> instances) {
    Group& group = board_.groups[g];
    Unit& unit = board_.units.emplace_back();
    unit.group = g;
    unit.seed = seed;
    unit.instances = instances;
    unit.caught_up = group.retired.size();
    unit.worker = parts_.make(
        WorkerSetup{group.model, &*group.specs, group.head, group.originals, &*group.coverage,
                    unit.seed, std::move(instances), &*group.violations, room_.corpus_bytes,
                    group.pass_rows, group.bfloat16},
        options_);
    return unit;
  }

  // The next shard for a lane, or null when there is nothing left to do.
  Unit* next_unit() {
    Unit* best = nullptr;
    Unit* shared = nullptr;
    const auto before = [&](const Unit* a, const Unit* b) {
      const Group &ga = board_.groups[a->group], &gb = board_.groups[b->group];
      const auto share = [](const Group& g) {
        return static_cast<double>(g.cost) / static_cast<double>(std::max<int64_t>(1, g.unbroken));
      };
      return share(ga) < share(gb);
    };
    for (Unit& unit : board_.units) {
      if (board_.groups[unit.group].unbroken == 0) continue;
      Unit*& slot = unit.busy ? shared : best;
      if (!slot || before(&unit, slot)) slot = &unit;
    }
    if (best || !shared) return best;
    return &open_unit(shared->group,
                      board_.wanting(board_.groups[shared->group], options_.keep_going));
  }

  bool finished() const {
    const bool budget =
        options_.candidates > 0 && board_.ledger.totals().candidates >= options_.candidates;
    return budget || failure_ || deadline_.expired() ||
           std::ranges::all_of(board_.groups, [](const Group& g) { return g.unbroken == 0; });
  }

  void run_lane() {
    const FlushDenormals flush(true);
    const at::NoGradGuard no_grad;
    at::set_num_threads(static_cast<int>(room_.threads));  // oneDNN asks the calling thread's
    try {
      std::unique_lock lock(mutex_);
      if (options_.seconds_per_instance > 0.) {
        run_one_by_one(lock);
      } else {
        while (!finished()) {
          pause(lock);
          Unit* unit = next_unit();
          if (!unit) break;
          step(*unit, deadline_, lock);
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ++lanes_done_;
    if (paused_ > 0 && paused_ == lanes_ - lanes_done_) keep_all();
    wake_.notify_all();
  }

  // When a checkpoint is due, lanes wait here until the last one has come and written it.
  void pause(std::unique_lock<std::mutex>& lock) {
    const double wait_s =
        parts_.checkpoint_s > 0. ? std::max(parts_.checkpoint_s, keeping_s_ / kWritingShare) : 0.;
    const bool due = parts_.keep && lanes_ > 0 && seconds_since(kept_) >= wait_s;
    if (!due && paused_ == 0) return;
    if (paused_ == 0) pausing_ = Clock::now();
    if (++paused_ == lanes_ - lanes_done_) {
      keep_all();
      return;
    }
    const int64_t round = checkpoints_;
    go_on_.wait(lock, [&] { return checkpoints_ != round; });
  }

  // With every lane waiting.
  void keep_all() {
    try {
      keep();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
    keeping_s_ = seconds_since(pausing_);  // with the time that lanes waited
    paused_ = 0;
    ++checkpoints_;
    go_on_.notify_all();
  }

  void keep() {
    State state;
    state.put("seconds", elapsed_s());
    board_.save(state, options_.seconds_per_instance > 0.);
    parts_.keep(state);
    kept_ = Clock::now();
  }

  // --seconds-per-instance: each instance alone for its time.
  void run_one_by_one(std::unique_lock<std::mutex>& lock) {
    while (!board_.pending.empty() && !finished()) {
      const auto [g, i] = board_.pending.front();
      board_.pending.erase(board_.pending.begin());
      const Group& of = board_.groups[static_cast<size_t>(g)];
      if (!options_.keep_going && !board_.ledger.wants(of.first + i)) continue;  // by its family
      Unit& unit = open_unit(static_cast<size_t>(g), {i});
      Group& group = board_.groups[unit.group];
      result_.batch[unit.group] = unit.worker->batch();
      const Deadline own(options_.seconds_per_instance, outer_);
      const Clock::time_point began = instance_start_[group.first + i] = Clock::now();
      while (!own.expired() && !finished() && unit.worker->unbroken() > 0) {
        pause(lock);
        step(unit, own, lock);
      }
      // What was stopped before its time gets it when the campaign goes on.
      const bool stopped = seconds_since(began) < options_.seconds_per_instance;
      if (stopped && unit.worker->unbroken() > 0) {
        board_.pending.emplace(board_.pending.begin(), g, i);
      }
      unit.worker.reset();  // its corpus is not needed any more
      unit.corpus_size = 0;
    }
  }

  // One iteration of `unit`, unlocked while it computes.
  void step(Unit& unit, const Deadline& deadline, std::unique_lock<std::mutex>& lock) {
    Group& group = board_.groups[unit.group];
    catch_up(unit);
    unit.busy = true;
    lock.unlock();
    const auto began = Clock::now();
    Iteration iteration = unit.worker->iterate(deadline);
    std::vector<std::pair<Hit, Finding>> confirmed;
    int64_t borderline = 0;
    for (const Hit& hit : iteration.hits) {
      if (hit.is_nan) {
        note_nan(group, hit);
        continue;
      }
      std::optional<Finding> finding;
      if (wants(group, hit)) finding = examine(group, unit.seed, hit, borderline);
      unit.worker->judged(hit, finding.has_value());
      if (finding) confirmed.emplace_back(hit, std::move(*finding));
    }
    iteration.seconds = seconds_since(began);
    lock.lock();
    unit.busy = false;
    if (iteration.fewer_rows > 0) {
      observer_.on_note(out_of_memory_note(*group.model, iteration.fewer_rows));
    }
    cut_short_ = cut_short_ || (iteration.cut_short && deadline_.expired());
    board_.ledger.count(iteration, borderline, group.first);
    group.cost += std::max<int64_t>(1, iteration.cost);
    unit.corpus_size = unit.worker->corpus_size();
    board_.ledger.closest(group.first, unit.worker->best_margin(), unit.worker->best_input());
    for (auto& [hit, finding] : confirmed) take(unit.group, hit, std::move(finding));
    for (const int64_t i : iteration.exhausted) give_up(group, i);
    settle(/*all=*/false);
  }

  bool wants(const Group& group, const Hit& hit) {
    const std::lock_guard lock(mutex_);
    return board_.ledger.wants(group.first + hit.instance);
  }

  // Confirmed by the graph as read, one row at a time.
  void note_nan(Group& group, const Hit& hit) {
    const at::Tensor y = group.model->evaluate(hit.x.unsqueeze(0));
    if (!y.isnan().any().item<bool>()) return;
    const std::lock_guard lock(mutex_);
    InstanceResult& result = board_.ledger.of(group.first + hit.instance);
    if (!result.nan.defined()) result.nan = hit.x;
  }

  // A clear finding counts at once. One that rounding may undo elsewhere, but that two evaluations
  // agree on, waits a little for a better one.
  void take(size_t g, const Hit& hit, Finding finding) {
    if (finding.confirmation.clear) {
      accept(board_.groups[g], finding);
      return;
    }
    const int64_t instance = finding.instance;
    board_.reserve.try_emplace(instance, Reserve{g, hit, std::move(finding), Clock::now(),
                                                 board_.ledger.totals().candidates});
  }

  void settle(bool all) {
    for (auto it = board_.reserve.begin(); it != board_.reserve.end();) {
      Reserve& each = it->second;
      const int64_t tried = board_.ledger.totals().candidates - each.since_candidates;
      const bool waits = options_.candidates > 0 ? tried * kPatienceShare < options_.candidates
                                                 : seconds_since(each.since) < kPatience_s;
      if (!all && waits) {
        ++it;
        continue;
      }
      accept(board_.groups[each.group], each.finding);
      it = board_.reserve.erase(it);
    }
  }

  void give_up(Group& group, int64_t instance) {
    InstanceResult& result = board_.ledger.of(group.first + instance);
    if (result.exhausted || result.findings > 0 || board_.reserve.contains(group.first + instance))
      return;
    result.exhausted = true;
    retire(group, instance);
  }

  void retire(Group& group, int64_t instance) {
    group.retired.push_back(instance);
    --group.unbroken;
    for (Unit& unit : board_.units) {
      if (!unit.busy && unit.worker && &board_.groups[unit.group] == &group) catch_up(unit);
    }
  }

  std::optional<Finding> examine(const Group& group, uint64_t seed, const Hit& hit,
                                 int64_t& borderline) const {
    const at::Tensor x = hit.x.contiguous();
    const auto size = static_cast<size_t>(x.numel());
    Finding finding;
    finding.confirmation =
        confirm(*group.model, *group.instances[static_cast<size_t>(hit.instance)].property,
                {x.const_data_ptr<float>(), size});
    const bool clear = finding.confirmation.clear;
    const bool asks = parts_.opinion && finding.confirmation.holds;
    if (asks && (!clear || parts_.opinion_on_all)) {
      finding.opinion =
          parts_.opinion(&group - board_.groups.data(),
                         *group.instances[static_cast<size_t>(hit.instance)].property, x);
    }
    const bool agreed = finding.opinion.value_or(false);
    if (clear ? asks && parts_.opinion_on_all && !agreed : !agreed) {
      ++borderline;
      return std::nullopt;
    }
    finding.instance = group.first + hit.instance;
    finding.model = &group - board_.groups.data();
    finding.region =
        hit.region - group.specs->first_region().select(0, hit.instance).item<int64_t>();
    finding.x = x;
    finding.original = group.originals.select(0, hit.region).cpu().clone();
    finding.mutation = hit.mutation;
    finding.shard_seed = seed;
    finding.iteration = hit.iteration;
    finding.row = hit.row;
    finding.parent = hit.parent;
    return finding;
  }

  // Counts a confirmed finding and hands it on, unless another lane was faster.
  void accept(Group& group, Finding& finding) {
    const auto start = instance_start_.find(finding.instance);
    const double now = elapsed_s();
    const double alone_s = start == instance_start_.end() ? now : seconds_since(start->second);
    if (!board_.ledger.accept(finding, now, alone_s)) return;
    const bool enough = !board_.ledger.wants(finding.instance);
    if (enough && !options_.keep_going) retire(group, finding.instance - group.first);
    observer_.on_finding(finding);
    for (Finding& other : of_family(group, finding)) {
      if (!board_.ledger.accept(other, now, alone_s) || options_.keep_going) continue;
      if (!board_.ledger.wants(other.instance)) retire(group, other.instance - group.first);
    }
  }

  void catch_up(Unit& unit) {
    const Group& group = board_.groups[unit.group];
    for (; unit.caught_up < group.retired.size(); ++unit.caught_up) {
      unit.worker->retire(group.retired[unit.caught_up]);
    }
  }

  Progress snapshot() {
    Progress p = board_.standing();
    p.seconds = elapsed_s();
    p.lanes = result_.lanes;
    p.batch = result_.batch;
    return p;
  }

  void report() {
    try {
      observer_.on_progress(snapshot());
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }

  [[nodiscard]] double elapsed_s() const { return earlier_s_ + seconds_since(start_); }

  LoopOptions options_;
  const CampaignParts& parts_;
  CampaignObserver& observer_;
  double earlier_s_;  // before it was resumed
  Deadline deadline_;
  const std::atomic<bool>* outer_;
  const Clock::time_point start_ = Clock::now();
  Room room_;

  std::mutex mutex_;  // guards everything below; shards run outside of it
  std::condition_variable wake_;
  Board board_;
  std::map<int64_t, Clock::time_point> instance_start_;
  CampaignResult result_;
  std::exception_ptr failure_;
  int64_t lanes_ = 0, lanes_done_ = 0;
  bool cut_short_ = false;
  // Checkpoints.
  std::condition_variable go_on_;
  int64_t paused_ = 0, checkpoints_ = 0;
  Clock::time_point kept_ = Clock::now(), pausing_;
  double keeping_s_ = 0.;
};

}  // namespace

CampaignResult run_campaign(const std::vector<CampaignModel>& models, const LoopOptions& options,
                            CampaignObserver& observer, const std::atomic<bool>& stop,
                            const CampaignParts& parts) {
  return Campaign(models, options, observer, stop, parts).run();
}

}  // namespace grapeshot
