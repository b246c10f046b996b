#include "grapeshot/cli/problem.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/free_inputs.h"
#include "grapeshot/cli/given_model.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/profile_file.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/instances.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/onnx/graph.h"
#include "grapeshot/io/onnx/pair_model.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot::cli {
namespace {

// Files of ProblemFiles that a run remembers with their SHA-256.
constexpr const char* kInputFiles[] = {"instances", "data",       "labels", "frozen",
                                       "stats",     "vocabulary", "words"};

class Loader {
 public:
  explicit Loader(const GivenModels& given) : given_(given) {}

  size_t model(const std::string& path) {
    const auto known = index_.find(path);
    if (known != index_.end()) return known->second;
    // Read first: a file that has no end fails there, where there is a limit.
    std::shared_ptr<const Model> net = std::move(bases_[path]);
    if (!net) net = open_model(path, given_);
    problem_.models.push_back({path, sha256_file(path), std::move(net)});
    return index_[path] = problem_.models.size() - 1;
  }

  void add_spec(const std::string& model_path, const std::string& spec_path) {
    ProblemInstance instance;
    instance.spec = spec_path;
    instance.name = std::filesystem::path(spec_path).filename().string();
    if (properties::is_specification(spec_path)) {
      read_json_spec(model_path, instance);
    } else {
      // The specification first: it is cheaper, and more often wrong.
      instance.property = read_vnnlib(spec_path);
      instance.model = model(model_path);
      check_fits(*problem_.models[instance.model].model, instance.property, spec_path);
      // A box without a float32 input cannot be searched; an instance of nothing else is left
      // alone. JSON specifications leave them out themselves: their words count the boxes.
      auto& regions = instance.property.regions;
      const auto empty = [](const Region& region) { return region.box.empty; };
      if (!std::ranges::all_of(regions, empty)) std::erase_if(regions, empty);
    }
    instance.sha256 = sha256_file(spec_path);
    problem_.instances.push_back(std::move(instance));
  }

  void add_data(const ProblemFiles& files) {
    const size_t index = model(absolute_path(files.model));
    const Model& net = *problem_.models[index].model;
    const NpyArray x = read_npy(files.data);
    const int64_t n = x.shape.empty() ? 0 : x.shape[0];
    const auto size = static_cast<int64_t>(x.values.size());
    GRAPESHOT_CHECK(n > 0 && size == n * net.inputs(), kInvalidArgument, files.data, ": ", size,
                    " values in ", n, " rows; ", net.name(), " has ", net.inputs(),
                    " inputs a row");
    GRAPESHOT_CHECK(std::ranges::all_of(
                        x.values, [](double v) { return std::isfinite(static_cast<float>(v)); }),
                    kInvalidArgument, files.data,
                    ": holds NaN, infinite or larger values than float32");
    GRAPESHOT_CHECK(net.outputs() >= 2, kInvalidArgument, net.name(),
                    ": has one output; the label of --data needs at least two to compare");
    const std::vector<int64_t> labels = read_labels(files.labels, n, net.outputs());
    const FreeInputs free(files, net, n);
    if (!files.vocabulary.empty()) {
      problem_.vocabulary = std::make_unique<Vocabulary>(files.vocabulary, files.words,
                                                         need_onnx(net, "--vocabulary"));
    }
    for (int64_t i = 0; i < n; ++i) {
      const std::span<const double> row(x.values.data() + i * net.inputs(),
                                        static_cast<size_t>(net.inputs()));
      ProblemInstance instance;
      instance.model = index;
      instance.name = str(std::filesystem::path(files.data).filename().string(), "[", i, "]");
      instance.original = at::empty({net.inputs()});
      std::ranges::transform(row, instance.original.mutable_data_ptr<float>(),
                             [](double v) { return static_cast<float>(v); });
      int64_t label = labels[static_cast<size_t>(i)];
      if (label < 0) {
        // Without a label the reference is the prediction on the original, which never changes.
        label = net.evaluate(instance.original.unsqueeze(0)).argmax(1).item<int64_t>();
      }
      instance.property = top1_property(row, files.eps, label, net.outputs());
      free.restrict(i, row, instance.property.regions[0].box);
      const at::Tensor lo = at::tensor(instance.property.regions[0].box.lo);
      const at::Tensor hi = at::tensor(instance.property.regions[0].box.hi);
      instance.original = at::clamp(instance.original, lo, hi);
      problem_.instances.push_back(std::move(instance));
    }
  }

  void add_profile(const std::string& path) {
    GRAPESHOT_CHECK(problem_.models.size() == 1, kInvalidArgument, path,
                    ": reference statistics are of one model, the instances of ",
                    problem_.models.size());
    const ProblemModel& model = problem_.models[0];
    GRAPESHOT_CHECK(model.pair.empty(), kInvalidArgument, path,
                    ": reference statistics are of the model, the specification is about two runs "
                    "of it");
    problem_.profile =
        std::make_unique<Profile>(read_profile(path, model.sha256, model.model->name()));
  }

  Problem finish() {
    std::ranges::stable_sort(problem_.instances, {}, &ProblemInstance::model);
    return std::move(problem_);
  }

 private:
  // The file's network as it is, which may not be searched itself.
  const Model& base(const std::string& path) {
    if (const auto known = index_.find(path); known != index_.end()) {
      return *problem_.models[known->second].model;
    }
    std::shared_ptr<const Model>& net = bases_[path];
    if (!net) net = open_model(path, given_);
    return *net;
  }

  // The number of the network of two runs.
  size_t pair(const std::string& path, const properties::Pair& pair) {
    std::string bytes = onnx::pair_model(read_file(path), path,
                                         need_onnx(base(path), "a property of two runs"), pair);
    const std::string key = str(path, "\n", sha256(bytes));
    if (const auto known = index_.find(key); known != index_.end()) return known->second;
    auto net = std::make_shared<onnx::OnnxModel>(onnx::parse_graph(bytes, path));
    problem_.models.push_back({path, sha256_file(path), std::move(net), "", std::move(bytes)});
    return index_[key] = problem_.models.size() - 1;
  }

  void read_json_spec(const std::string& model_path, ProblemInstance& instance) {
    const Model& net = base(model_path);
    const properties::Subject subject{
        net.name(), net.inputs(), net.outputs(), net.input_shape(),
        [&net](std::span<const float> x) {
          const at::Tensor row = at::tensor(at::ArrayRef<float>(x.data(), x.size()), at::kDouble);
          const at::Tensor y = net.evaluate(row.unsqueeze(0)).flatten().contiguous();
          return std::vector<double>(y.const_data_ptr<double>(),
                                     y.const_data_ptr<double>() + y.numel());
        }};
    auto spec = std::make_shared<properties::Specification>(
        properties::read_specification(instance.spec, subject));
    instance.property = std::move(spec->property);
    instance.model = spec->pair ? pair(model_path, *spec->pair) : model(model_path);
    instance.json = std::move(spec);
  }

  static std::vector<int64_t> read_labels(const std::string& path, int64_t n, int64_t outputs) {
    if (path.empty()) return std::vector<int64_t>(static_cast<size_t>(n), -1);
    const NpyArray y = read_npy(path);
    GRAPESHOT_CHECK(static_cast<int64_t>(y.values.size()) == n, kInvalidArgument, path, ": ",
                    y.values.size(), " labels for ", n, " rows of data");
    std::vector<int64_t> labels;
    for (const double v : y.values) {
      GRAPESHOT_CHECK(v == std::floor(v) && v >= -1. && v < static_cast<double>(outputs),
                      kInvalidArgument, path, ": ", v, " is not a label from 0 to ", outputs - 1,
                      ", nor -1 for none");
      labels.push_back(static_cast<int64_t>(v));
    }
    return labels;
  }

  Problem problem_;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::shared_ptr<const Model>> bases_;
  const GivenModels& given_;
};

}  // namespace

properties::Words words_of(const ProblemInstance& instance) {
  return instance.json ? instance.json->words : properties::Words();
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(resolve_file(path)).lexically_normal().string();
}

const onnx::OnnxModel* as_onnx(const Model& model) {
  return dynamic_cast<const onnx::OnnxModel*>(&model);
}

const onnx::OnnxModel& need_onnx(const Model& model, std::string_view what) {
  const onnx::OnnxModel* net = as_onnx(model);
  GRAPESHOT_CHECK(net != nullptr, kInvalidArgument, model.name(), ": ", what,
                  " needs a model from an ONNX file");
  return *net;
}

void check_fits(const Model& model, const Property& property, const std::string& spec) {
  const auto check = [&](char variable, const char* kind, int64_t declared, int64_t expected) {
    GRAPESHOT_CHECK(declared == expected, kInvalidArgument, spec, ": declares ", declared, " ",
                    kind, "s (", variable, "_i), ", model.name(), " has ", expected);
  };
  check('X', "input", property.inputs, model.inputs());
  check('Y', "output", property.outputs, model.outputs());
}

std::vector<CampaignModel> Problem::campaign_models() const {
  std::vector<CampaignModel> out;
  for (const ProblemModel& each : models) out.push_back({each.model.get(), {}, profile.get()});
  for (const ProblemInstance& each : instances) {
    out[each.model].instances.push_back({&each.property, each.original});
  }
  return out;
}

Property top1_property(std::span<const double> x, double eps, int64_t label, int64_t outputs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Property property;
  property.inputs = static_cast<int64_t>(x.size());
  property.outputs = outputs;
  Region& region = property.regions.emplace_back();
  for (const double v : x) {
    auto lo = static_cast<float>(v - eps), hi = static_cast<float>(v + eps);
    if (lo < v - eps) lo = std::nextafter(lo, kInfinity);
    if (hi > v + eps) hi = std::nextafter(hi, -kInfinity);
    region.box.empty = region.box.empty || lo > hi;
    region.box.lo.push_back(lo);
    region.box.hi.push_back(hi);
  }
  for (int64_t j = 0; j < outputs; ++j) {
    if (j == label) continue;
    // Y_j >= Y_label, terms in ascending order.
    std::vector<Term> terms = {{static_cast<int32_t>(label), 1.}, {static_cast<int32_t>(j), -1.}};
    std::ranges::sort(terms, {}, &Term::output);
    region.cases.push_back({{{std::move(terms), 0.}}});
  }
  return property;
}

nlohmann::ordered_json to_json(const ProblemFiles& files) {
  const auto whole = [](const std::string& path) {
    return path.empty() ? path : absolute_path(path);
  };
  nlohmann::ordered_json out = {{"model", whole(files.model)},
                                {"specs", nlohmann::ordered_json::array()},
                                {"instances", whole(files.instances)},
                                {"data", whole(files.data)},
                                {"labels", whole(files.labels)},
                                {"eps", files.eps},
                                {"frozen", whole(files.frozen)},
                                {"mask", files.mask},
                                {"drop", files.drop},
                                {"vocabulary", whole(files.vocabulary)},
                                {"words", whole(files.words)},
                                {"stats", whole(files.stats)}};
  for (const std::string& spec : files.specs) out["specs"].push_back(absolute_path(spec));
  for (const char* key : kInputFiles) {
    const std::string path = out[key];
    if (!path.empty()) out[str(key, "_sha256")] = sha256_file(path);
  }
  return out;
}

ProblemFiles problem_files(const nlohmann::json& object, const std::string& path) {
  ProblemFiles files;
  const auto text = [&](const char* key) { return json_field<std::string>(object, key, path); };
  files.model = text("model");
  files.specs = json_field<std::vector<std::string>>(object, "specs", path);
  files.instances = text("instances");
  files.data = text("data");
  files.labels = text("labels");
  files.eps = json_field<double>(object, "eps", path);
  if (object.contains("stats")) files.stats = text("stats");
  if (object.contains("mask")) {
    files.frozen = text("frozen");
    files.mask = text("mask");
    files.drop = json_field<int64_t>(object, "drop", path);
    files.vocabulary = text("vocabulary");
    files.words = text("words");
  }
  for (const char* key : kInputFiles) {
    const std::string file = object.contains(key) ? text(key) : std::string();
    GRAPESHOT_CHECK(file.empty() || sha256_file(file) == text(str(key, "_sha256").c_str()),
                    kInvalidArgument, file, ": changed since the run began (its SHA-256 differs)");
  }
  return files;
}

Problem load_problem(const ProblemFiles& files, const GivenModels& given) {
  Loader loader(given);
  if (!files.instances.empty()) {
    for (const InstanceRow& row : read_instances(files.instances)) {
      loader.add_spec(row.model, row.spec);
    }
  } else if (!files.data.empty()) {
    loader.add_data(files);
  } else {
    const std::string model = absolute_path(files.model);
    for (const std::string& spec : files.specs) loader.add_spec(model, absolute_path(spec));
  }
  if (!files.stats.empty()) loader.add_profile(files.stats);
  return loader.finish();
}

}  // namespace grapeshot::cli
