#include "grapeshot/core/campaign.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <list>
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
#include "grapeshot/core/denormals.h"

namespace grapeshot {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kTick = std::chrono::milliseconds(250);

// One model with what its shards share.
struct Group {
  const Model* model = nullptr;
  int64_t first = 0;  // campaign number of its first instance
  std::vector<CampaignInstance> instances;
  std::optional<SpecTensors> specs;
  at::Tensor originals;  // [R, D]
  std::unique_ptr<SharedCoverage> coverage;
  std::unique_ptr<SharedViolations> violations = std::make_unique<SharedViolations>();
  Head head = Head::kOutputs;
  std::vector<int64_t> retired;  // in this order, for shards to catch up with
  int64_t unbroken = 0, cost = 0, shards = 0;
};

struct Unit {
  size_t group = 0;
  std::unique_ptr<Worker> worker;
  uint64_t seed = 0;
  size_t caught_up = 0;  // of group.retired
  int64_t corpus_size = 0;
  bool busy = false;
};

// A finding that waits for a clearer one.
struct Reserve {
  Group* group;
  Finding finding;
  Clock::time_point since;
};

constexpr double kPatience_s = 0.5;

at::Tensor region_originals(const Group& group) {
  // The centre of each region's box, or what the instance brought along.
  const at::Tensor lo = group.specs->lo(), hi = group.specs->hi();
  at::Tensor x = box_centre(lo, hi);
  const at::Tensor first = group.specs->first_region();
  for (size_t i = 0; i < group.instances.size(); ++i) {
    if (!group.instances[i].original.defined()) continue;
    const int64_t r = first.select(0, static_cast<int64_t>(i)).item<int64_t>();
    x.select(0, r).copy_(group.instances[i].original);
  }
  return x;
}

class Campaign {
 public:
  Campaign(const std::vector<CampaignModel>& models, const LoopOptions& options,
           CampaignObserver& observer, const std::atomic<bool>& stop, const CampaignParts& parts)
      : options_(options),
        parts_(parts),
        observer_(observer),
        deadline_(options.seconds > 0. ? options.seconds : kInfinity, &stop),
        outer_(&stop) {
    int64_t next = 0;
    // A shard per model, and one more for each lane that joins another.
    corpus_bytes_ = (options.memory_mib << 20) /
                    (static_cast<int64_t>(models.size()) + std::max<int64_t>(1, options.threads));
    groups_.reserve(models.size());  // shards point into it
    for (const CampaignModel& each : models) {
      Group& group = groups_.emplace_back();
      group.model = each.model;
      group.first = next;
      group.instances = each.instances;
      next += static_cast<int64_t>(each.instances.size());
    }
    result_.instances.resize(static_cast<size_t>(next));
    for (InstanceResult& each : result_.instances) each.best_margin = kInfinity;
    totals_.instances = next;
    for (Group& group : groups_) prepare(group);
  }

  CampaignResult run() {
    const int64_t lanes = options_.threads > 0 ? options_.threads : core_count();
    at::set_num_threads(1);
    std::vector<std::thread> threads;
    try {
      for (int64_t lane = 0; lane < lanes; ++lane) threads.emplace_back([this] { run_lane(); });
    } catch (const std::system_error&) {
      // Fewer lanes do as well; none is a failure.
      if (threads.empty()) throw;
    }
    const auto started = static_cast<int64_t>(threads.size());
    result_.lanes = started;
    {
      std::unique_lock lock(mutex_);
      while (lanes_done_ < started) {
        wake_.wait_for(lock, kTick);
        report(lock);
      }
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    std::unique_lock lock(mutex_);
    settle(0.);
    result_.totals = snapshot();
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
    group.originals = region_originals(group);
    group.coverage = std::make_unique<SharedCoverage>(*group.model, options_);
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
      for (const int64_t i : all) pending_.emplace_back(&group - groups_.data(), i);
      result_.batch.push_back(0);
    } else {
      result_.batch.push_back(
          open_unit(static_cast<size_t>(&group - groups_.data()), all).worker->batch());
    }
  }

  Unit& open_unit(size_t g, std::vector<int64_t> instances) {
    Group& group = groups_[g];
    Unit& unit = units_.emplace_back();
    unit.group = g;
    unit.seed = derive_seed({options_.seed, g, static_cast<uint64_t>(group.shards++)});
    unit.caught_up = group.retired.size();
    unit.worker = parts_.make(
        WorkerSetup{group.model, &*group.specs, group.head, group.originals, &*group.coverage,
                    unit.seed, std::move(instances), &*group.violations, corpus_bytes_},
        options_);
    return unit;
  }

  InstanceResult& result_of(const Group& group, int64_t instance) {
    return result_.instances[static_cast<size_t>(group.first + instance)];
  }

  // The next shard for a lane, or null when there is nothing left to do.
  Unit* next_unit() {
    Unit* best = nullptr;
    Unit* shared = nullptr;
    const auto before = [&](const Unit* a, const Unit* b) {
      const Group &ga = groups_[a->group], &gb = groups_[b->group];
      const auto share = [](const Group& g) {
        return static_cast<double>(g.cost) / static_cast<double>(std::max<int64_t>(1, g.unbroken));
      };
      return share(ga) < share(gb);
    };
    for (Unit& unit : units_) {
      if (groups_[unit.group].unbroken == 0) continue;
      Unit*& slot = unit.busy ? shared : best;
      if (!slot || before(&unit, slot)) slot = &unit;
    }
    if (best || !shared) return best;
    const std::vector<int64_t> instances = wanting(groups_[shared->group]);
    return &open_unit(shared->group, instances);
  }

  std::vector<int64_t> wanting(const Group& group) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < static_cast<int64_t>(group.instances.size()); ++i) {
      const bool gone = std::ranges::find(group.retired, i) != group.retired.end();
      if (!gone && (options_.keep_going || result_of(group, i).findings < options_.per_instance)) {
        out.push_back(i);
      }
    }
    return out;
  }

  bool finished() const {
    const bool budget = options_.candidates > 0 && totals_.candidates >= options_.candidates;
    return budget || retired_all() || failure_ || deadline_.expired();
  }

  bool retired_all() const {
    return std::ranges::all_of(groups_, [](const Group& g) { return g.unbroken == 0; });
  }

  void run_lane() {
    const FlushDenormals flush(true);
    const at::NoGradGuard no_grad;
    at::set_num_threads(1);  // oneDNN asks the calling thread's setting
    try {
      std::unique_lock lock(mutex_);
      if (options_.seconds_per_instance > 0.) {
        run_one_by_one(lock);
      } else {
        while (!finished()) {
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
    wake_.notify_all();
  }

  // --seconds-per-instance: each instance alone for its time.
  void run_one_by_one(std::unique_lock<std::mutex>& lock) {
    while (!pending_.empty() && !finished()) {
      const auto [g, i] = pending_.front();
      pending_.erase(pending_.begin());
      Unit& unit = open_unit(static_cast<size_t>(g), {i});
      Group& group = groups_[unit.group];
      result_.batch[unit.group] = unit.worker->batch();
      const Deadline own(options_.seconds_per_instance, outer_);
      instance_start_[group.first + i] = Clock::now();
      while (!own.expired() && !finished() && unit.worker->unbroken() > 0) step(unit, own, lock);
      unit.worker.reset();  // its corpus is not needed any more
      unit.corpus_size = 0;
    }
  }

  // One iteration of `unit`, unlocked while it computes.
  void step(Unit& unit, const Deadline& deadline, std::unique_lock<std::mutex>& lock) {
    Group& group = groups_[unit.group];
    catch_up(unit);
    unit.busy = true;
    lock.unlock();
    const Iteration iteration = unit.worker->iterate(deadline);
    std::vector<Finding> confirmed;
    int64_t borderline = 0;
    for (const Hit& hit : iteration.hits) {
      if (hit.is_nan) {
        note_nan(group, hit);
        continue;
      }
      auto finding = examine(unit, hit, borderline);
      unit.worker->judged(hit, finding.has_value());
      if (finding) confirmed.push_back(std::move(*finding));
    }
    lock.lock();
    unit.busy = false;
    totals_.borderline += borderline;
    totals_.candidates += iteration.candidates;
    totals_.inputs_checked += iteration.inputs_checked;
    totals_.violations += iteration.violations;
    totals_.distinct_violations += iteration.distinct_violations;
    totals_.cost += iteration.cost;
    group.cost += std::max<int64_t>(1, iteration.cost);
    for (size_t i = 0; i < iteration.per_instance.size(); ++i) {
      result_of(group, static_cast<int64_t>(i)).candidates += iteration.per_instance[i];
    }
    unit.corpus_size = unit.worker->corpus_size();
    note_closest(unit);
    for (Finding& finding : confirmed) take(group, std::move(finding));
    for (const int64_t i : iteration.exhausted) give_up(group, i);
    settle(kPatience_s);
  }

  // Confirmed by the graph as read, one row at a time.
  void note_nan(Group& group, const Hit& hit) {
    const at::Tensor y = group.model->evaluate(hit.x.unsqueeze(0));
    if (!y.isnan().any().item<bool>()) return;
    const std::lock_guard lock(mutex_);
    InstanceResult& result = result_of(group, hit.instance);
    if (!result.nan.defined()) result.nan = hit.x;
  }

  // A clear finding counts at once. One that rounding may undo elsewhere, but that two evaluations
  // agree on, waits a little for a better one.
  void take(Group& group, Finding finding) {
    if (finding.confirmation.clear) {
      accept(group, finding);
      return;
    }
    reserve_.try_emplace(finding.instance, Reserve{&group, std::move(finding), Clock::now()});
  }

  void settle(double patience_s) {
    for (auto it = reserve_.begin(); it != reserve_.end();) {
      if (seconds_since(it->second.since) < patience_s) {
        ++it;
        continue;
      }
      accept(*it->second.group, it->second.finding);
      it = reserve_.erase(it);
    }
  }

  void give_up(Group& group, int64_t instance) {
    InstanceResult& result = result_of(group, instance);
    if (result.exhausted || result.findings > 0 || reserve_.contains(group.first + instance))
      return;
    result.exhausted = true;
    group.retired.push_back(instance);
    --group.unbroken;
    for (Unit& unit : units_) {
      if (!unit.busy && unit.worker && &groups_[unit.group] == &group) catch_up(unit);
    }
  }

  std::optional<Finding> examine(const Unit& unit, const Hit& hit, int64_t& borderline) {
    Group& group = groups_[unit.group];
    {
      const std::lock_guard lock(mutex_);
      if (result_of(group, hit.instance).findings >= options_.per_instance) return std::nullopt;
    }
    const at::Tensor x = hit.x.contiguous();
    const auto size = static_cast<size_t>(x.numel());
    Finding finding;
    finding.confirmation =
        confirm(*group.model, *group.instances[static_cast<size_t>(hit.instance)].property,
                {x.const_data_ptr<float>(), size});
    const bool clear = finding.confirmation.clear;
    const bool asks = parts_.opinion && finding.confirmation.holds;
    if (asks && (!clear || parts_.opinion_on_all)) {
      finding.opinion = parts_.opinion(
          &group - groups_.data(), *group.instances[static_cast<size_t>(hit.instance)].property, x);
    }
    const bool agreed = finding.opinion.value_or(false);
    if (clear ? asks && parts_.opinion_on_all && !agreed : !agreed) {
      ++borderline;
      return std::nullopt;
    }
    finding.instance = group.first + hit.instance;
    finding.model = &group - groups_.data();
    finding.region =
        hit.region - group.specs->first_region().select(0, hit.instance).item<int64_t>();
    finding.x = x;
    finding.original = group.originals.select(0, hit.region).clone();
    finding.mutation = hit.mutation;
    finding.shard_seed = unit.seed;
    finding.iteration = hit.iteration;
    finding.row = hit.row;
    finding.parent = hit.parent;
    return finding;
  }

  // Counts a confirmed finding and hands it on, unless another lane was faster.
  void accept(Group& group, Finding& finding) {
    InstanceResult& result = result_.instances[static_cast<size_t>(finding.instance)];
    if (result.findings >= options_.per_instance) return;
    // One input may break several instances.
    const at::Tensor key = hash_rows(finding.x.unsqueeze(0)) + finding.instance;
    if (!reported_.insert(key).item<bool>()) return;
    const auto start = instance_start_.find(finding.instance);
    finding.seconds = seconds_since(start_);
    if (result.findings++ == 0) {
      ++totals_.broken;
      result.seconds_to_first =
          start == instance_start_.end() ? finding.seconds : seconds_since(start->second);
      result.closest = finding.x;
      result.best_margin = finding.confirmation.verdict32.margin;
    }
    ++totals_.findings;
    if (totals_.ttfv_s < 0.) totals_.ttfv_s = finding.seconds;
    if (result.findings >= options_.per_instance) {
      const int64_t own = finding.instance - group.first;
      if (!options_.keep_going) {
        group.retired.push_back(own);
        --group.unbroken;
        for (Unit& unit : units_) {
          if (!unit.busy && unit.worker && &groups_[unit.group] == &group) catch_up(unit);
        }
      }
    }
    observer_.on_finding(finding);
  }

  void catch_up(Unit& unit) {
    const Group& group = groups_[unit.group];
    for (; unit.caught_up < group.retired.size(); ++unit.caught_up) {
      unit.worker->retire(group.retired[unit.caught_up]);
    }
  }

  // What the shard got closest to, for the instances without a finding.
  void note_closest(const Unit& unit) {
    const Group& group = groups_[unit.group];
    const at::Tensor margins = unit.worker->best_margin();
    const auto* margin = margins.const_data_ptr<float>();
    for (int64_t i = 0; i < static_cast<int64_t>(group.instances.size()); ++i) {
      InstanceResult& result = result_of(group, i);
      if (result.findings > 0 || margin[i] >= result.best_margin) continue;
      result.best_margin = margin[i];
      result.closest = unit.worker->best_input().select(0, i).clone();
    }
  }

  Progress snapshot() {
    Progress p = totals_;
    p.seconds = seconds_since(start_);
    p.best_margin = kInfinity;
    for (const InstanceResult& each : result_.instances) {
      if (each.findings == 0) p.best_margin = std::min(p.best_margin, each.best_margin);
    }
    p.corpus_size = 0;
    for (const Unit& unit : units_) p.corpus_size += unit.corpus_size;
    for (Group& group : groups_) {
      const auto values = group.coverage->values();
      p.coverage.resize(values.size());
      for (size_t k = 0; k < values.size(); ++k) {
        p.coverage[k].first = values[k].first;
        p.coverage[k].second += values[k].second / static_cast<double>(groups_.size());
      }
    }
    return p;
  }

  void report(std::unique_lock<std::mutex>&) {
    try {
      observer_.on_progress(snapshot());
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }

  LoopOptions options_;
  const CampaignParts& parts_;
  CampaignObserver& observer_;
  Deadline deadline_;
  const std::atomic<bool>* outer_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Group> groups_;
  int64_t corpus_bytes_ = 0;  // of one shard

  std::mutex mutex_;  // guards everything below; shards run outside of it
  std::condition_variable wake_;
  std::list<Unit> units_;
  std::vector<std::pair<std::ptrdiff_t, int64_t>> pending_;
  std::map<int64_t, Clock::time_point> instance_start_;
  HashSet reported_;
  Progress totals_;
  CampaignResult result_;
  std::exception_ptr failure_;
  int64_t lanes_done_ = 0;
  std::map<int64_t, Reserve> reserve_;  // by instance
};

}  // namespace

CampaignResult run_campaign(const std::vector<CampaignModel>& models, const LoopOptions& options,
                            CampaignObserver& observer, const std::atomic<bool>& stop,
                            const CampaignParts& parts) {
  return Campaign(models, options, observer, stop, parts).run();
}

}  // namespace grapeshot
