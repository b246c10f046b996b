#include "grapeshot/core/board.h"

#include <algorithm>
#include <span>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot {

int64_t count_instances(const std::vector<CampaignModel>& models) {
  int64_t n = 0;
  for (const CampaignModel& each : models) n += std::ssize(each.instances);
  return n;
}
namespace {

std::vector<int64_t> counts_of(const State& state, const std::string& at, size_t n) {
  std::vector<int64_t> counts = state.integers(at + "counts");
  GRAPESHOT_CHECK(counts.size() == n, kParse, "its '", at, "counts' do not fit");
  return counts;
}

}  // namespace

at::Tensor region_originals(const Group& group) {
  const at::Tensor lo = group.specs->lo(), hi = group.specs->hi();
  const SetRows& set = group.specs->set();
  at::Tensor x = set.has_ball() ? set.centre.clone() : box_centre(lo, hi);
  const at::Tensor first = group.specs->first_region();
  for (size_t i = 0; i < group.instances.size(); ++i) {
    if (!group.instances[i].original.defined()) continue;
    const int64_t r = first.select(0, static_cast<int64_t>(i)).item<int64_t>();
    x.select(0, r).copy_(group.instances[i].original);
  }
  return set.any() ? project(x, set, lo, hi) : x;
}

std::vector<Finding> of_family(const Group& group, const Finding& finding) {
  std::vector<Finding> out;
  const int64_t own = finding.instance - group.first;
  const int64_t family = group.instances[static_cast<size_t>(own)].family;
  if (family < 0) return out;
  const at::Tensor x = finding.x.contiguous();
  const std::span values(x.const_data_ptr<float>(), static_cast<size_t>(x.numel()));
  for (int64_t i = 0; i < std::ssize(group.instances); ++i) {
    const CampaignInstance& other = group.instances[static_cast<size_t>(i)];
    if (i == own || other.family != family) continue;
    Finding copy = finding;
    Confirmation& c = copy.confirmation;
    c.verdict32 = judge(*other.property, values, c.y32);
    c.verdict64 = judge(*other.property, values, c.y64);
    if (!c.verdict32.violates || !c.verdict64.violates) continue;
    copy.instance = group.first + i;
    copy.region = c.verdict32.region;
    out.push_back(std::move(copy));
  }
  return out;
}

std::vector<int64_t> Board::wanting(const Group& group, bool keep_going) const {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < std::ssize(group.instances); ++i) {
    const bool gone = std::ranges::find(group.retired, i) != group.retired.end();
    if (!gone && (keep_going || ledger.wants(group.first + i))) out.push_back(i);
  }
  return out;
}

Group& Board::group_at(int64_t g) {
  GRAPESHOT_CHECK(g >= 0 && g < std::ssize(groups), kParse, "it is of a campaign of other models");
  return groups[static_cast<size_t>(g)];
}

Progress Board::standing() const {
  Progress p = ledger.standing();
  for (const Unit& unit : units) p.corpus_size += unit.corpus_size;
  for (const Group& group : groups) {
    const auto values = group.coverage->values();
    p.coverage.resize(values.size());
    for (size_t k = 0; k < values.size(); ++k) {
      const bool share = find_criterion(p.coverage[k].first = values[k].first).share;
      p.coverage[k].second += values[k].second / (share ? double(groups.size()) : 1.);
    }
  }
  return p;
}

void Board::save(State& state, bool one_by_one) const {
  ledger.save(state, "ledger/");
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    const std::string at = str("model/", g, "/");
    state.put(at + "counts", {group.cost, group.shards, group.unbroken});
    state.put(at + "retired", group.retired);
    group.coverage->save(state, at + "coverage/");
    group.violations->save(state, at + "violations/");
  }
  std::vector<int64_t> waiting;
  int64_t workers = 0;
  for (const Unit& unit : units) {
    if (!unit.worker) continue;
    const auto group = static_cast<int64_t>(unit.group);
    if (one_by_one) {
      for (const int64_t i : unit.worker->active()) waiting.insert(waiting.end(), {group, i});
      continue;
    }
    const std::string at = str("worker/", workers++, "/");
    state.put(at + "counts", {group, static_cast<int64_t>(unit.seed),
                              static_cast<int64_t>(unit.caught_up), unit.corpus_size});
    state.put(at + "instances", unit.instances);
    unit.worker->save(state, at);
  }
  for (const auto& [g, i] : pending) waiting.insert(waiting.end(), {g, i});
  state.put("pending", waiting);
  state.put("workers", workers);
  int64_t reserved = 0;
  for (const auto& [instance, each] : reserve) {
    const std::string at = str("reserve/", reserved++, "/");
    const Hit& hit = each.hit;
    state.put(at + "counts",
              {static_cast<int64_t>(each.group), hit.instance, hit.region, hit.iteration, hit.row,
               hit.parent, static_cast<int64_t>(each.finding.shard_seed), each.since_candidates});
    state.put(at + "x", hit.x);
    state.put(at + "mutation", hit.mutation);
  }
  state.put("reserve", reserved);
}

void Board::load(const State& state, const MakeUnit& make, const Examine& examine) {
  ledger.load(state, "ledger/");
  for (size_t g = 0; g < groups.size(); ++g) {
    Group& group = groups[g];
    const std::string at = str("model/", g, "/");
    const std::vector<int64_t> counts = counts_of(state, at, 3);
    group.cost = counts[0];
    group.shards = counts[1];
    group.unbroken = counts[2];
    group.retired = state.integers(at + "retired");
    group.coverage->load(state, at + "coverage/");
    group.violations->load(state, at + "violations/");
  }
  const std::vector<int64_t> waiting = state.integers("pending");
  pending.clear();
  for (size_t i = 0; i + 1 < waiting.size(); i += 2) {
    (void)group_at(waiting[i]);
    pending.emplace_back(waiting[i], waiting[i + 1]);
  }
  units.clear();
  const int64_t workers = state.integer("workers"), reserved = state.integer("reserve");
  for (int64_t u = 0; u < workers; ++u) {
    const std::string at = str("worker/", u, "/");
    const std::vector<int64_t> counts = counts_of(state, at, 4);
    (void)group_at(counts[0]);
    Unit& unit = make(static_cast<size_t>(counts[0]), static_cast<uint64_t>(counts[1]),
                      state.integers(at + "instances"));
    unit.caught_up = static_cast<size_t>(counts[2]);
    unit.corpus_size = counts[3];
    unit.worker->load(state, at);
  }
  for (int64_t k = 0; k < reserved; ++k) {
    const std::string at = str("reserve/", k, "/");
    const std::vector<int64_t> c = counts_of(state, at, 8);
    Hit hit{.instance = c[1],
            .region = c[2],
            .x = state.tensor(at + "x"),
            .iteration = c[3],
            .row = c[4],
            .parent = c[5],
            .mutation = state.text(at + "mutation")};
    auto finding = examine(group_at(c[0]), static_cast<uint64_t>(c[6]), hit);
    if (!finding) continue;
    const int64_t instance = finding->instance;
    reserve.try_emplace(instance, Reserve{static_cast<size_t>(c[0]), std::move(hit),
                                          std::move(*finding), Clock::now(), c[7]});
  }
}

}  // namespace grapeshot
