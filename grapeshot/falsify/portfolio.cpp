#include "grapeshot/falsify/portfolio.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"

namespace grapeshot::falsify {
namespace {

// Instances of one round at most: each gets rows enough to get anywhere.
constexpr int64_t kGroup = 32;
// What a round achieved counts half as much after so many more rounds of the same attack.
constexpr double kMemory = 0.8;
// Attacks are drawn by what they achieved, and in this share by their prior alone.
constexpr double kCurious = 0.3;
// Rounds grow, once all attacks had theirs, up to this.
constexpr double kMostEffort = 8.;

// How far a margin came down, from 0 to 1.
double progress(float before, float after) {
  if (!(after < before)) return 0.;
  if (after <= 0.f || !(before < std::numeric_limits<float>::infinity())) return 1.;
  return static_cast<double>((before - after) / std::max(std::abs(before), 1e-12f));
}

}  // namespace

Portfolio::Portfolio(const WorkerSetup& setup, const LoopOptions& options)
    : search_(setup, options.batch == "auto" ? 0 : std::stoll(options.batch)) {
  for (const Attack* attack : parse_attacks(options.attacks)) records_.push_back({attack});
}

int64_t Portfolio::batch() const {
  return search_.rows_for(1);
}

void Portfolio::retire(int64_t instance) {
  search_.retire(instance);
}

std::vector<int64_t> Portfolio::next_group() const {
  const std::vector<int64_t>& all = active();
  const auto size = std::ssize(all);
  if (size <= kGroup) return all;
  // Every attack sees every group in turn.
  const int64_t begin = rounds_ * kGroup % size;
  std::vector<int64_t> out;
  for (int64_t i = 0; i < kGroup; ++i) out.push_back(all[static_cast<size_t>((begin + i) % size)]);
  std::ranges::sort(out);
  return out;
}

double Portfolio::prior(const Record& record, const std::vector<int64_t>& group) const {
  double sum = 0.;
  for (const int64_t i : group) sum += record.attack->prior(search_, i);
  return sum / static_cast<double>(group.size());
}

Portfolio::Record& Portfolio::choose(const std::vector<int64_t>& group) {
  std::vector<double> priors, merits;
  for (const Record& record : records_) {
    priors.push_back(prior(record, group));
    merits.push_back(record.work > 0. ? record.gain / record.work : 0.);
  }
  // First those that never ran, the most promising first; in table order where they are alike.
  const Record* fresh = nullptr;
  double most = 0.;
  for (size_t i = 0; i < records_.size(); ++i) {
    // Everybody begins with the first rows of the table: they cost next to nothing.
    const bool opening = records_[i].attack->round == centre;
    const double value = opening ? 1e9 : records_[i].attack->round == sprint ? 1e6 : priors[i];
    if (records_[i].rounds == 0 && priors[i] > 0.2 && value > most) {
      most = value;
      fresh = &records_[i];
    }
  }
  if (fresh) return const_cast<Record&>(*fresh);
  double total_prior = 0., total_merit = 0.;
  for (size_t i = 0; i < records_.size(); ++i) {
    total_prior += priors[i];
    merits[i] *= priors[i] > 0. ? 1. : 0.;
    total_merit += merits[i];
  }
  double draw = coins(1, search_.rng()).item<double>();
  for (size_t i = 0; i < records_.size(); ++i) {
    const double by_prior =
        total_prior > 0. ? priors[i] / total_prior : 1. / static_cast<double>(records_.size());
    const double by_merit = total_merit > 0. ? merits[i] / total_merit : by_prior;
    draw -= kCurious * by_prior + (1. - kCurious) * by_merit;
    if (draw < 0.) return records_[i];
  }
  return records_.back();
}

Iteration Portfolio::iterate(const Deadline& deadline) {
  Iteration out;
  // Where nothing is free there is one input a region, whatever the attacks.
  const auto pinned =
      std::ranges::find_if(active(), [&](int64_t i) { return search_.features(i).free.empty(); });
  if (pinned != active().end()) {
    const int64_t instance = *pinned;
    search_.begin_round({instance}, 1., out, deadline);
    centre(search_);
    search_.end_round("centre", rounds_++);
    if (search_.exhausted(instance) && out.hits.empty()) out.exhausted.push_back(instance);
    return out;
  }
  std::vector<int64_t> group = next_group();
  const bool hopeless = std::ranges::all_of(
      records_, [&](const Record& record) { return prior(record, group) <= 0.; });
  if (hopeless) {  // no attack of those asked for works on these
    out.per_instance.assign(static_cast<size_t>(search_.specs().instances()), 0);
    out.exhausted = group;
    return out;
  }
  Record& record = choose(group);
  std::erase_if(group, [&](int64_t i) { return record.attack->prior(search_, i) <= 0.; });
  if (group.empty()) {  // of those left none can use it
    out.per_instance.assign(static_cast<size_t>(search_.specs().instances()), 0);
    return out;
  }
  const double effort = std::clamp(
      static_cast<double>(rounds_) / (4. * static_cast<double>(records_.size())), 1., kMostEffort);
  const at::Tensor before = best_margin().clone();
  // The first round through a table of attacks is meant to be over soon.
  const bool first = rounds_ < 2;
  search_.begin_round(group, first ? 0.25 : effort, out, deadline);
  record.attack->round(search_);
  search_.end_round(record.attack->name, rounds_);
  out.cut_short = deadline.expired();
  ++rounds_;
  ++record.rounds;
  double gain = 0.;
  for (const int64_t i : group) {
    gain += progress(before.const_data_ptr<float>()[i], best_margin().const_data_ptr<float>()[i]);
  }
  record.gain = kMemory * record.gain + gain / static_cast<double>(group.size());
  record.work = kMemory * record.work + static_cast<double>(std::max<int64_t>(out.cost, 1));
  return out;
}

void Portfolio::save(State& state, const std::string& at) const {
  search_.save(state, at + "search/");
  std::vector<int64_t> rounds = {rounds_};
  std::vector<double> merit;
  for (const Record& each : records_) {
    rounds.push_back(each.rounds);
    merit.insert(merit.end(), {each.gain, each.work});
  }
  state.put(at + "rounds", rounds);
  state.put(at + "merit", at::tensor(merit, at::kDouble));
}

void Portfolio::load(const State& state, const std::string& at) {
  search_.load(state, at + "search/");
  const std::vector<int64_t> rounds = state.integers(at + "rounds");
  GRAPESHOT_CHECK(rounds.size() == records_.size() + 1, kParse, "it is of other attacks");
  const at::Tensor merit = at::empty({2 * std::ssize(records_)}, at::kDouble);
  state.fill(at + "merit", merit);
  rounds_ = rounds[0];
  for (size_t i = 0; i < records_.size(); ++i) {
    records_[i].rounds = rounds[i + 1];
    records_[i].gain = merit.const_data_ptr<double>()[2 * i];
    records_[i].work = merit.const_data_ptr<double>()[2 * i + 1];
  }
}

std::unique_ptr<Worker> make_portfolio(const WorkerSetup& setup, const LoopOptions& options) {
  return std::make_unique<Portfolio>(setup, options);
}

}  // namespace grapeshot::falsify
