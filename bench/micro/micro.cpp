// bench/micro/micro.cpp: what the parts of an iteration cost, one thread, on the shipped networks.
//
//   ./dev bench micro [--benchmark_filter=REGEX]
//
// `rows` is the batch. Items per second are rows per second; parsing counts bytes.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include "grapeshot/core/confirm.h"
#include "grapeshot/core/corpus.h"
#include "grapeshot/core/coverage.h"
#include "grapeshot/core/denormals.h"
#include "grapeshot/core/mutate.h"
#include "grapeshot/core/spec.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/vnnlib.h"

namespace {

using namespace grapeshot;  // NOLINT(google-build-using-namespace)

const std::string kFolder = GRAPESHOT_EXAMPLES;
const char* const kNets[] = {"mlp", "cnn_bn", "resnet", "bnn", "attention"};

// A network with a specification of its own, and rows inside of its box.
struct Case {
  std::unique_ptr<onnx::OnnxModel> model;
  Property property;
  std::unique_ptr<SpecTensors> specs;

  [[nodiscard]] RowSpec spec(int64_t rows) const {
    return specs->gather(at::zeros({rows}, at::kLong));
  }
  [[nodiscard]] at::Tensor inputs(int64_t rows) const {
    Rng rng(uint64_t{1});
    const RowSpec s = spec(rows);
    return at::lerp(s.lo, s.hi, at::rand(s.lo.sizes(), rng.generator()));
  }
};

std::string spec_of(const std::string& net) {
  static const std::map<std::string, std::string> specs = {
      {"mlp", "mlp_top1_4_radius_0.08"},
      {"cnn_bn", "cnn_bn_top1_5_radius_0.10"},
      {"resnet", "resnet_top1_4_radius_0.08"},
      {"bnn", "bnn_top1_0_radius_0.20"},
      {"attention", "attention_top1_0_radius_0.15"},
  };
  return kFolder + "/vnnlib/" + specs.at(net) + ".vnnlib";
}

Case& case_of(const std::string& net) {
  static std::map<std::string, Case> cases;
  Case& c = cases[net];
  if (!c.model) {
    c.model = onnx::load_model(kFolder + "/" + net + ".onnx");
    c.property = read_vnnlib(spec_of(net));
    const Property* property = &c.property;
    c.specs = std::make_unique<SpecTensors>(std::span<const Property* const>(&property, 1));
  }
  return c;
}

void count(benchmark::State& state, int64_t rows) {
  state.SetItemsProcessed(state.iterations() * rows);
}

void parse_spec(benchmark::State& state) {
  const std::string path = spec_of("mlp"), text = read_file(path);
  for (auto _ : state) benchmark::DoNotOptimize(parse_vnnlib(text, path));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}
BENCHMARK(parse_spec);

void parse_model(benchmark::State& state, const char* net) {
  const std::string path = kFolder + "/" + net + ".onnx", bytes = read_file(path);
  for (auto _ : state) benchmark::DoNotOptimize(onnx::parse_graph(bytes, path));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}

// Binding, folding, lowering and the check of a batch against its rows.
void batchify(benchmark::State& state, const char* net) {
  const std::string path = kFolder + "/" + net + ".onnx";
  const onnx::Graph graph = onnx::parse_graph(read_file(path), path);
  for (auto _ : state) benchmark::DoNotOptimize(onnx::OnnxModel(graph));
}

void forward(benchmark::State& state, const char* net) {
  const Case& c = case_of(net);
  const at::Tensor x = c.inputs(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(c.model->forward(x, Head::kLogits));
  count(state, state.range(0));
  state.counters["MACs"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0) * c.model->macs()),
                         benchmark::Counter::kIsRate);
}

void gradient(benchmark::State& state, const char* net) {
  const Case& c = case_of(net);
  const at::Tensor x = c.inputs(state.range(0));
  const RowSpec spec = c.spec(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(c.model->gradient(
        x, Head::kLogits, Surrogate::kLoose,
        [&](const at::Tensor& y) { return loss_gradient(y, spec, Loss::kHinge); }));
  }
  count(state, state.range(0));
}

void trace(benchmark::State& state, const char* net) {
  const Case& c = case_of(net);
  const at::Tensor x = c.inputs(state.range(0));
  std::vector<int64_t> taps;
  for (size_t i = 0; i < c.model->taps().size(); ++i) taps.push_back(static_cast<int64_t>(i));
  for (auto _ : state) benchmark::DoNotOptimize(c.model->trace(x, Head::kLogits, taps));
  count(state, state.range(0));
}

void coverage(benchmark::State& state, const char* net) {
  const Case& c = case_of(net);
  std::vector<int64_t> taps, neurons;
  for (size_t i = 0; i < c.model->taps().size(); ++i) {
    taps.push_back(static_cast<int64_t>(i));
    neurons.push_back(c.model->taps()[i].neurons);
  }
  const Trace t = c.model->trace(c.inputs(state.range(0)), Head::kLogits, taps);
  const auto criterion = make_criterion(find_criterion("nc"), {.neurons = neurons});
  const Observation seen{t.y, t.activations};
  for (auto _ : state) benchmark::DoNotOptimize(criterion->update(seen));
  count(state, state.range(0));
}

void mutation(benchmark::State& state, const char* name) {
  const Case& c = case_of("cnn_bn");
  const int64_t rows = state.range(0);
  const at::Tensor x = c.inputs(rows), zero = at::zeros_like(x);
  const RowSpec spec = c.spec(rows);
  const at::Tensor eta = 0.1 * (spec.hi - spec.lo), stage = at::ones({rows});
  const Objective objective = [&](const at::Tensor&) {
    return zero;
  };  // the passes are not its own
  Rng rng(uint64_t{1});
  const Mutation& m = find_mutation(name);
  for (auto _ : state) {
    MutationContext context{spec.lo, spec.hi, eta,        0.1, stage,
                            false,   10,      &objective, rng, Deadline()};
    benchmark::DoNotOptimize(m.apply(x, context));
  }
  count(state, rows);
}

void verdict(benchmark::State& state, const char* net) {
  const Case& c = case_of(net);
  const at::Tensor y = c.model->forward(c.inputs(state.range(0)), Head::kLogits);
  const RowSpec spec = c.spec(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(margins(y, spec));
  count(state, state.range(0));
}

// A corpus of `size` entries: drawing 64 rows, inserting 64 new ones.
void corpus(benchmark::State& state) {
  constexpr int64_t kInputs = 5, kRows = 64;
  Rng rng(uint64_t{1});
  Corpus kept(at::zeros({1, kInputs}), state.range(0));
  const auto fresh = [&](int64_t n) { return at::rand({n, kInputs}, rng.generator()); };
  for (int64_t n = 1; n < state.range(0); n += 4096) {
    const int64_t more = std::min<int64_t>(4096, state.range(0) - n);
    (void)kept.insert(kept.gather(at::zeros({more}, at::kLong)), fresh(more), at::rand({more}));
  }
  for (auto _ : state) {
    const Seeds seeds = kept.gather(kept.draw(kRows, rng));
    benchmark::DoNotOptimize(kept.insert(seeds, fresh(kRows), at::rand({kRows})));
  }
  count(state, kRows);
}
BENCHMARK(corpus)->Arg(1000)->Arg(30000)->Arg(1000000);

void deduplicate(benchmark::State& state) {
  Rng rng(uint64_t{1});
  const at::Tensor x = at::rand({state.range(0), 784}, rng.generator());
  HashSet seen;
  for (auto _ : state) benchmark::DoNotOptimize(seen.insert(hash_rows(x)));
  count(state, state.range(0));
}
BENCHMARK(deduplicate)->Arg(64)->Arg(1024);

void confirmation(benchmark::State& state, const char* net) {
  const Case& c = case_of(net);
  const at::Tensor x = c.inputs(1);
  const std::span<const float> row{x.const_data_ptr<float>(), static_cast<size_t>(x.numel())};
  for (auto _ : state) benchmark::DoNotOptimize(confirm(*c.model, c.property, row));
}

void register_all() {
  for (const char* net : kNets) {
    const auto named = [&](const char* part) { return std::string(part) + "/" + net; };
    benchmark::RegisterBenchmark(named("parse_model").c_str(), parse_model, net);
    benchmark::RegisterBenchmark(named("batchify").c_str(), batchify, net);
    benchmark::RegisterBenchmark(named("confirm").c_str(), confirmation, net);
    using Run = void (*)(benchmark::State&, const char*);
    for (const auto& [part, run] :
         std::initializer_list<std::pair<const char*, Run>>{{"forward", forward},
                                                            {"gradient", gradient},
                                                            {"trace", trace},
                                                            {"coverage", coverage},
                                                            {"verdict", verdict}}) {
      benchmark::RegisterBenchmark(named(part).c_str(), run, net)->Arg(16)->Arg(256);
    }
  }
  for (const Mutation& each : mutations()) {
    const std::string name = "mutation/" + std::string(each.name);
    benchmark::RegisterBenchmark(name.c_str(), mutation, each.name.data())->Arg(16)->Arg(256);
  }
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const grapeshot::FlushDenormals flush(true);
  const at::NoGradGuard no_grad;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
