#include "grapeshot/cli/second_opinion.h"

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/core/denormals.h"
#include "grapeshot/io/onnxruntime.h"

namespace grapeshot::cli {
namespace {

// Sessions by model, made when one is first asked for.
class Runtimes {
 public:
  Runtimes(std::string library, const Problem& problem)
      : library_(std::move(library)), problem_(problem) {}

  // Throws what kept the model from loading, to every caller: several lanes may ask at once.
  const OnnxRuntime& of(int64_t model) {
    const std::lock_guard lock(mutex_);
    if (const auto refused = refused_.find(model); refused != refused_.end()) throw refused->second;
    auto& runtime = runtimes_[model];
    if (!runtime) {
      const ProblemModel& of = problem_.models[static_cast<size_t>(model)];
      try {
        runtime = std::make_unique<OnnxRuntime>(library_, of.path, of.pair);
      } catch (const Error& error) {
        refused_.emplace(model, error);  // it is not loaded again
        throw;
      }
    }
    return *runtime;
  }

 private:
  std::string library_;
  const Problem& problem_;
  std::mutex mutex_;
  std::map<int64_t, Error> refused_;
  std::map<int64_t, std::unique_ptr<OnnxRuntime>> runtimes_;
};

}  // namespace

void ask_onnxruntime(CampaignParts& parts, const Problem& problem, const std::string& confirm) {
  GRAPESHOT_CHECK(confirm == "auto" || confirm == "ort" || confirm == "none", kInvalidArgument,
                  "--confirm: '", confirm, "' is not one of auto, ort, none");
  if (confirm == "none") return;
  const std::string library = find_onnxruntime();
  GRAPESHOT_CHECK(confirm == "auto" || !library.empty(), kSystem,
                  "--confirm ort: no libonnxruntime.so was found; set GRAPESHOT_ONNXRUNTIME to "
                  "its path");
  for (const ProblemModel& each : problem.models) {
    if (confirm == "ort") (void)need_onnx(*each.model, "ONNX Runtime, which --confirm ort asks,");
  }
  if (library.empty()) return;
  const bool must = confirm == "ort";
  parts.opinion_on_all = must;
  parts.opinion = [runtimes = std::make_shared<Runtimes>(library, problem), &problem, must](
                      int64_t model, const Property& property,
                      const at::Tensor& x) -> std::optional<bool> {
    const std::span<const float> row{x.const_data_ptr<float>(), static_cast<size_t>(x.numel())};
    // As any other program would run it.
    const FlushDenormals keep_denormals(false);
    try {
      std::vector<double> y = runtimes->of(model).run(row);
      if (std::ssize(y) != property.outputs) return false;
      const std::vector<double> wide(row.begin(), row.end());
      const Model& ours = *problem.models[static_cast<size_t>(model)].model;
      if (const onnx::OnnxModel* net = as_network(ours)) net->settle(wide, y);
      return judge(property, row, y).violates;
    } catch (const Error&) {
      if (must) throw;
      return std::nullopt;
    }
  };
}

}  // namespace grapeshot::cli
