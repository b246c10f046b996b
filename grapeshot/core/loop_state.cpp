// The shard's memory as tensors by name, for checkpoints.
#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/core/loop.h"

namespace grapeshot {

void Shard::save(State& state, const std::string& at) const {
  state.put(at + "turns", {iteration_, turn_});
  state.put(at + "region_turn", region_turn_);
  state.put(at + "confirmed", confirmed_);
  state.put(at + "active", active_);
  corpus_.save(state, at + "corpus/");
  proposed_.save(state, at + "proposed/");
  for (const auto& [name, t] : remembered()) state.put(at + name, t);
}

void Shard::load(const State& state, const std::string& at) {
  const std::vector<int64_t> turns = state.integers(at + "turns");
  region_turn_ = state.integers(at + "region_turn");
  confirmed_ = state.integers(at + "confirmed");
  active_ = state.integers(at + "active");
  GRAPESHOT_CHECK(turns.size() == 2 && std::ssize(region_turn_) == specs_->instances() &&
                      confirmed_.size() == region_turn_.size(),
                  kParse, "its '", at, "turns' do not fit");
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

}  // namespace grapeshot
