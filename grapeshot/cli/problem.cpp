#include "grapeshot/cli/problem.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <type_traits>

#include <ATen/ATen.h>

#include "grapeshot/base/directed.h"
#include "grapeshot/base/error.h"
#include "grapeshot/cli/free_inputs.h"
#include "grapeshot/cli/json_file.h"
#include "grapeshot/cli/network_files.h"
#include "grapeshot/cli/open_model.h"
#include "grapeshot/cli/profile_file.h"
#include "grapeshot/cli/rows.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/instances.h"
#include "grapeshot/io/onnx/graph.h"
#include "grapeshot/io/onnx/joined_model.h"
#include "grapeshot/io/onnx/pair_model.h"
#include "grapeshot/io/properties/reader.h"
#include "grapeshot/io/vnnlib.h"

namespace grapeshot::cli {
namespace {

// Files of ProblemFiles that a run remembers with their SHA-256. Those of the data may be folders,
// arrays of an archive or, but for the first, no files but names of columns.
constexpr const char* kInputFiles[] = {"instances", "stats", "vocabulary", "words"};
constexpr const char* kDataFiles[] = {"data", "labels", "frozen", "eps_file"};

// Absolute, where it is a file and not a name.
std::string whole_place(const std::string& text) {
  std::error_code ignored;
  const std::string path = data::find_place(text).path;
  const bool there =
      std::filesystem::exists(path, ignored) || std::filesystem::exists(path + ".gz", ignored);
  return there ? data::absolute_place(text) : text;
}

// Of what whole_place() made absolute, "" of names.
std::string sha256_of_place(const std::string& place, const data::Request& request) {
  return std::filesystem::path(place).is_absolute() ? data::fingerprint(place, request) : "";
}

class Loader {
 public:
  Loader(const ProblemFiles& files, const GivenModels& given)
      : networks_(files.networks), shape_(input_shape(files.shape, files.data)), given_(given) {}

  // `shape` is for TorchScript.
  size_t model(const std::string& path, const std::vector<int64_t>& shape) {
    const auto known = index_.find(path);
    if (known != index_.end()) return known->second;
    // Read first: a file that has no end fails there, where there is a limit.
    std::shared_ptr<const Model> net = std::move(bases_[path]);
    if (!net) net = open_model(path, shape, given_);
    problem_.models.push_back({path, sha256_file(path), std::move(net)});
    return index_[path] = problem_.models.size() - 1;
  }

  void add_spec(const std::string& model_path, const std::string& spec_path,
                double grid_step = 0.) {
    ProblemInstance instance;
    instance.spec = spec_path;
    instance.name = std::filesystem::path(spec_path).filename().string();
    if (properties::is_specification(spec_path)) {
      check_no_networks(spec_path);
      read_json_spec(model_path, instance);
    } else {
      const std::string text = read_file(spec_path);
      if (query::is_query(text)) {
        read_query(model_path, text, instance);
      } else {
        check_no_networks(spec_path);
        // The specification first: it is cheaper, and more often wrong.
        instance.property = parse_vnnlib(text, spec_path);
        drop_empty(instance.property);
        // TorchScript without a shape takes the inputs as they are numbered.
        const std::vector<int64_t> flat = {instance.property.inputs};
        instance.model = model(model_path, shape_.empty() ? flat : shape_);
        check_fits(*problem_.models[instance.model].model, instance.property, spec_path);
      }
    }
    GRAPESHOT_CHECK(!(grid_step > 0.) || !instance.json || !instance.json->pair, kUnsupported,
                    spec_path, ": compares two runs, with which --grid and --integer do not go");
    keep_to_grid(instance.property, grid_step, spec_path);
    instance.grid = grid_step;
    instance.sha256 = sha256_file(spec_path);
    problem_.instances.push_back(std::move(instance));
  }

  void add_data(const ProblemFiles& files) {
    const size_t index = model(absolute_path(files.model), shape_);
    const Model& net = *problem_.models[index].model;
    problem_.rows = std::make_unique<DataRows>(files, net);
    const DataRows& rows = *problem_.rows;
    const int64_t n = rows.size();
    GRAPESHOT_CHECK(n > 0, kInvalidArgument, files.data, ": holds no row");
    const at::Tensor x = rows.x().to(at::kFloat);
    GRAPESHOT_CHECK(x.isfinite().all().item<bool>(), kInvalidArgument, files.data,
                    ": holds NaN, infinite or larger values than float32");
    GRAPESHOT_CHECK(net.outputs() >= 2, kInvalidArgument, net.name(),
                    ": has one output; the label of --data needs at least two to compare");
    const std::vector<int64_t> labels = labels_of(rows, files, net.outputs());
    const std::vector<bool> left_out = misread_rows(files, net, x, labels);
    const DataBoxes boxes(files, rows);
    const FreeInputs free(files, net, rows);
    const Perturbation perturbation(files.change, rows, net.outputs(), files.data);
    if (!files.vocabulary.empty()) {
      problem_.vocabulary = std::make_unique<Vocabulary>(files.vocabulary, files.words,
                                                         need_onnx(net, "--vocabulary"));
    }
    for (int64_t i = 0; i < n; ++i) {
      if (left_out[static_cast<size_t>(i)]) continue;
      const std::span<const double> row(rows.x().const_data_ptr<double>() + i * net.inputs(),
                                        static_cast<size_t>(net.inputs()));
      const std::string name = rows.name(i);
      int64_t label = labels[static_cast<size_t>(i)];
      if (label < 0) {
        // Without a label the reference is the prediction on the original, which never changes.
        const at::Tensor x32 = at::tensor(at::ArrayRef<double>(row.data(), row.size()), at::kFloat);
        label = net.evaluate(x32.unsqueeze(0)).argmax(1).item<int64_t>();
      }
      const auto box_of = [&](double eps) { return boxes.box(i, eps); };
      for (PerturbedRow& each : perturbation.of(i, row, label, free, box_of)) {
        const bool several = files.change.eps.size() > 1;
        add_perturbed(index, several ? str(name, " eps ", each.eps) : name, i, std::move(each));
      }
    }
    GRAPESHOT_CHECK(!problem_.instances.empty(), kInvalidArgument, files.data,
                    ": every row has the label of --target");
  }

  void add_perturbed(size_t model, const std::string& name, int64_t row, PerturbedRow&& of) {
    // Instances of one row and target are a family.
    const bool known = !problem_.instances.empty() && problem_.instances.back().row == row &&
                       problem_.instances.back().target == of.target;
    families_ += known ? 0 : 1;
    ProblemInstance& instance = problem_.instances.emplace_back();
    instance.model = model;
    instance.name = name;
    if (of.target >= 0) instance.name += str(" to ", of.target);
    instance.property = std::move(of.property);
    instance.original = std::move(of.original);
    instance.row = row;
    instance.eps = of.eps;
    instance.target = of.target;
    instance.family = families_;
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
  void check_no_networks(const std::string& spec) const {
    GRAPESHOT_CHECK(networks_.empty(), kInvalidArgument, spec,
                    ": names no network; --network is for VNN-LIB 2.0, which does");
  }

  // A box without a float32 input cannot be searched; an instance of nothing else is left alone.
  // JSON specifications leave them out themselves: their words count the boxes.
  static void drop_empty(Property& property) {
    const auto empty = [](const Region& region) { return region.box.empty; };
    if (!std::ranges::all_of(property.regions, empty)) std::erase_if(property.regions, empty);
  }

  // The file's network as it is, which may not be searched itself.
  const Model& base(const std::string& path) {
    if (const auto known = index_.find(path); known != index_.end()) {
      return *problem_.models[known->second].model;
    }
    std::shared_ptr<const Model>& net = bases_[path];
    if (!net) net = open_model(path, shape_, given_);
    return *net;
  }

  // The number of a network that was written from that of `path` and perhaps others.
  size_t written(const std::string& path, std::string bytes, const std::string& own = {},
                 onnx::OnnxModel::Settle settle = {}) {
    const std::string key = str(path, "\n", sha256(bytes), own);
    if (const auto known = index_.find(key); known != index_.end()) return known->second;
    auto net = std::make_shared<onnx::OnnxModel>(onnx::parse_graph(bytes, path));
    if (settle) net->settle_with(std::move(settle));
    problem_.models.push_back({path, sha256_file(path), std::move(net), "", std::move(bytes)});
    return index_[key] = problem_.models.size() - 1;
  }

  void read_query(const std::string& model_path, std::string_view text, ProblemInstance& instance) {
    auto query = std::make_shared<query::Query>(query::parse_query(text, instance.spec));
    instance.networks = network_files(*query, model_path, networks_);
    std::vector<onnx::NetworkFile> files;
    std::map<std::string, std::string> bytes;
    for (size_t n = 0; n < query->networks.size(); ++n) {
      const std::string& path = instance.networks[n];
      const onnx::OnnxModel& net = need_onnx(base(path), "VNN-LIB 2.0");
      onnx::check_declared(*query, n, net);
      if (!query->plain() && !bytes.contains(path)) bytes[path] = read_file(path);
      files.push_back({path, bytes[path], &net});
    }
    drop_empty(query->property);
    instance.property = query->property;
    if (query->plain()) {
      instance.model = model(instance.networks[0], shape_);
    } else {
      // A model of its own: what extra outputs mean is in digits that its float32 numbers drop.
      instance.model = written(instance.networks[0], onnx::joined_model(*query, files),
                               query->extras.empty() ? std::string() : instance.spec,
                               [query](std::span<const double> x, std::span<double> y) {
                                 query::settle_extras(*query, x, y);
                               });
    }
    instance.query = std::move(query);
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
    instance.model =
        spec->pair
            ? written(model_path,
                      onnx::pair_model(read_file(model_path), model_path,
                                       need_onnx(net, "a specification of two runs"), *spec->pair))
            : model(model_path, shape_);
    instance.json = std::move(spec);
  }

  // Rows whose labels the model does not predict: they tell nothing by a change.
  std::vector<bool> misread_rows(const ProblemFiles& files, const Model& net, const at::Tensor& x,
                                 const std::vector<int64_t>& labels) {
    std::vector<bool> out(labels.size(), false);
    const bool labelled = std::ranges::any_of(labels, [](int64_t label) { return label >= 0; });
    if (files.misclassified || !labelled) return out;
    const at::Tensor predicted = predictions(net, x);
    for (size_t i = 0; i < labels.size(); ++i) {
      out[i] = labels[i] >= 0 && predicted.const_data_ptr<int64_t>()[i] != labels[i];
      problem_.misread += out[i] ? 1 : 0;
    }
    GRAPESHOT_CHECK(problem_.misread < std::ssize(out), kInvalidArgument, labels_place(files),
                    ": no input is predicted as its label says; --misclassified keeps them");
    return out;
  }

  const std::vector<std::string>& networks_;  // as ProblemFiles has them
  Problem problem_;
  std::vector<int64_t> shape_;  // of an input of TorchScript, or none
  int64_t families_ = 0;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::shared_ptr<const Model>> bases_;
  const GivenModels& given_;
};

}  // namespace

properties::Words words_of(const ProblemInstance& instance) {
  if (instance.json) return instance.json->words;
  if (!instance.query) return {};
  return [query = instance.query](std::span<const float>, std::span<const double>,
                                  const Verdict& verdict) {
    return query->describe(query->property.regions[static_cast<size_t>(verdict.region)]
                               .cases[static_cast<size_t>(verdict.case_index)]);
  };
}

std::function<std::string(int64_t)> input_names(const ProblemInstance& instance) {
  if (!instance.query) return {};
  return [query = instance.query](int64_t input) { return query->input_name(input); };
}

Witness read_witness_for(const std::string& path, const ProblemInstance& instance) {
  if (!instance.query) return read_witness(path);
  const std::string bytes = read_file(path);
  if (!query::is_assignment(bytes)) return read_witness(path);
  query::Assignment read = query::parse_assignment(*instance.query, bytes, path);
  return {std::move(read.x), std::move(read.y)};
}

bool needs_networks(const std::string& spec) {
  return properties::is_specification(spec) || query::is_query(read_file(spec));
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
    out[each.model].instances.push_back({&each.property, each.original, each.family});
  }
  return out;
}

Box box_around(std::span<const double> x, double eps) {
  Box box;
  for (const double v : x) {
    box.lo.push_back(to_float(add(v, -eps, Toward::kAbove), Toward::kAbove));
    box.hi.push_back(to_float(add(v, eps, Toward::kBelow), Toward::kBelow));
    box.empty = box.empty || box.lo.back() > box.hi.back();
  }
  return box;
}

Property top1_property(std::span<const double> x, double eps, int64_t label, int64_t outputs) {
  return top1_property(box_around(x, eps), label, outputs);
}

Property top1_property(Box box, int64_t label, int64_t outputs) {
  Property property;
  property.inputs = std::ssize(box.lo);
  property.outputs = outputs;
  Region& region = property.regions.emplace_back();
  region.box = std::move(box);
  for (int64_t j = 0; j < outputs; ++j) {
    if (j != label) region.cases.push_back({{properties::no_less(j, label)}});
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
                                {"data", whole_place(files.data)},
                                {"labels", whole_place(files.labels)},
                                {"frozen", whole_place(files.frozen)},
                                {"mask", files.mask},
                                {"drop", files.drop},
                                {"vocabulary", whole(files.vocabulary)},
                                {"words", whole(files.words)},
                                {"stats", whole(files.stats)},
                                {"shape", files.shape},
                                {"eps_file", whole_place(files.eps_file)},
                                {"low", files.low},
                                {"high", files.high},
                                {"misclassified", files.misclassified}};
  out.update(to_json(files.change));
  describe_data(files, [&](std::string_view name, const auto& member, std::string_view) {
    out[std::string(name)] = member;
  });
  for (const std::string& spec : files.specs) out["specs"].push_back(absolute_path(spec));
  for (const std::string& each : files.networks) {
    const auto [name, file] = network_option(each);
    out["networks"].push_back(str(name, "=", absolute_path(file)));
  }
  for (const char* key : kInputFiles) {
    const std::string path = out[key];
    if (!path.empty()) out[str(key, "_sha256")] = sha256_file(path);
  }
  for (const char* key : kDataFiles) {
    const std::string sha256 = sha256_of_place(out[key], request_of(files));
    if (!sha256.empty()) out[str(key, "_sha256")] = sha256;
  }
  return out;
}

ProblemFiles problem_files(const nlohmann::json& object, const std::string& path) {
  ProblemFiles files;
  const auto text = [&](const char* key) { return json_field<std::string>(object, key, path); };
  files.model = text("model");
  files.specs = json_field<std::vector<std::string>>(object, "specs", path);
  if (object.contains("networks")) {
    files.networks = json_field<std::vector<std::string>>(object, "networks", path);
  }
  files.instances = text("instances");
  files.data = text("data");
  files.labels = text("labels");
  files.change = perturbation_options(object, path);
  if (object.contains("stats")) files.stats = text("stats");
  if (object.contains("shape")) files.shape = text("shape");
  if (object.contains("mask")) {
    files.frozen = text("frozen");
    files.mask = text("mask");
    files.drop = json_field<int64_t>(object, "drop", path);
    files.vocabulary = text("vocabulary");
    files.words = text("words");
  }
  // A run from before these options took all rows, in the units of the network.
  files.misclassified = true;
  if (object.contains("misclassified")) {
    files.eps_file = text("eps_file");
    files.low = text("low");
    files.high = text("high");
    files.misclassified = json_field<bool>(object, "misclassified", path);
    describe_data(files, [&](std::string_view name, auto& member, std::string_view) {
      using Member = std::remove_reference_t<decltype(member)>;
      member = json_field<Member>(object, std::string(name).c_str(), path);
    });
  }
  const auto check = [&](const char* key, auto sha256_of) {
    const std::string known = str(key, "_sha256");
    if (!object.contains(known)) return;
    const std::string file = text(key);
    GRAPESHOT_CHECK(sha256_of(file) == text(known.c_str()), kInvalidArgument, file,
                    ": changed since the run began (its SHA-256 differs)");
  };
  for (const char* key : kInputFiles) check(key, sha256_file);
  for (const char* key : kDataFiles) {
    check(key, [&](const std::string& file) { return sha256_of_place(file, request_of(files)); });
  }
  return files;
}

Problem load_problem(const ProblemFiles& files, const GivenModels& given) {
  Loader loader(files, given);
  if (!files.instances.empty()) {
    for (const InstanceRow& row : read_instances(files.instances)) {
      loader.add_spec(row.model, row.spec, files.change.step());
    }
  } else if (!files.data.empty()) {
    loader.add_data(files);
  } else {
    const std::string model = files.model.empty() ? std::string() : absolute_path(files.model);
    for (const std::string& spec : files.specs) {
      loader.add_spec(model, absolute_path(spec), files.change.step());
    }
  }
  if (!files.stats.empty()) loader.add_profile(files.stats);
  return loader.finish();
}

}  // namespace grapeshot::cli
