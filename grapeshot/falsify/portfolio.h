// grapeshot/falsify/portfolio.h: which attack runs when.
//
// A worker of a campaign whose iterations are rounds of attacks. It begins with the cheapest ones,
// gives every attack that can work a round, and then draws them by what they achieved for their
// work on these very instances: the share by which margins came down. No choice depends on a clock,
// a file's name or a benchmark.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grapeshot/falsify/attack.h"
#include "grapeshot/falsify/search.h"

namespace grapeshot::falsify {

class Portfolio final : public Worker {
 public:
  /// `setup.seed` decides all that is random. Throws kNotFound for an unknown attack.
  Portfolio(const WorkerSetup& setup, const LoopOptions& options);

  [[nodiscard]] Iteration iterate(const Deadline& deadline) override;
  void retire(int64_t instance) override;
  void judged(const Hit& hit, bool confirmed) override { search_.judged(hit, confirmed); }
  [[nodiscard]] const std::vector<int64_t>& active() const override { return search_.active(); }
  [[nodiscard]] int64_t batch() const override;
  [[nodiscard]] int64_t corpus_size() const override { return 0; }
  [[nodiscard]] const at::Tensor& best_margin() const override { return search_.best_margin(); }
  [[nodiscard]] const at::Tensor& best_input() const override { return search_.best_input(); }

  /// Near misses, what attacks achieved and the random stream; not what attacks keep between their
  /// rounds: those begin anew.
  void save(State& state, const std::string& at) const override;
  void load(const State& state, const std::string& at) override;

 private:
  struct Record {
    const Attack* attack;
    int64_t rounds = 0;
    double gain = 0., work = 0.;  ///< decayed sums
  };

  [[nodiscard]] std::vector<int64_t> next_group() const;
  [[nodiscard]] Record& choose(const std::vector<int64_t>& group);
  [[nodiscard]] double prior(const Record& record, const std::vector<int64_t>& group) const;

  Search search_;
  std::vector<Record> records_;
  int64_t rounds_ = 0;
};

/// A Portfolio, as a campaign asks for it.
[[nodiscard]] std::unique_ptr<Worker> make_portfolio(const WorkerSetup& setup,
                                                     const LoopOptions& options);

}  // namespace grapeshot::falsify
