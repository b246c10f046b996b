#include "grapeshot/cli/run_folder.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/data_report.h"
#include "grapeshot/cli/judgement.h"
#include "grapeshot/cli/machine.h"
#include "grapeshot/core/corpus.h"
#include "grapeshot/core/denormals.h"
#include "grapeshot/core/spec.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/vnnlib.h"
#include "grapeshot/io/witness.h"

namespace grapeshot::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Instance number and content, so that the same finding always has the same name.
std::string finding_id(const Finding& finding) {
  const at::Tensor hash = hash_rows(finding.x.unsqueeze(0));
  const auto bits = static_cast<uint64_t>(hash.select(1, 0).item<int64_t>());
  char id[40];
  std::snprintf(id, sizeof id, "%04" PRId64 "-%016" PRIx64, finding.instance, bits);
  return id;
}

// A field of a csv file.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

ordered_json numbers(const std::vector<double>& values) {
  ordered_json out = ordered_json::array();
  for (const double value : values) out.push_back(number(value));
  return out;
}

// The part of the property that holds with the finding's own bits of token masks: VNN-LIB says
// nothing of whole numbers.
Property at_bits_of(Property property, const at::Tensor& x) {
  const at::Tensor flat = x.to(at::kFloat).contiguous();
  const std::span bits(flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel()));
  for (Region& region : property.regions) region.box = with_bits_of(std::move(region.box), bits);
  return property;
}

// Inputs that are bits of masks and 0 where the original has 1.
std::vector<int32_t> dropped_bits(const Box& box, const at::Tensor& x) {
  std::vector<int32_t> out;
  for (const int32_t bit : box.droppable) {
    if (x[bit].item<float>() == 0.f) out.push_back(bit);
  }
  return out;
}

// The box and the case of a violation, for any tool that reads VNN-LIB; nothing where that has no
// words for it.
void write_region(const Property& property, const Verdict& verdict, const std::string& path) {
  const Region& region = property.regions[static_cast<size_t>(verdict.region)];
  Property one{property.inputs, property.outputs, {}};
  one.regions.push_back({region.box, {region.cases[static_cast<size_t>(verdict.case_index)]}});
  try {
    write_file(path, write_vnnlib(one, "the box and the case that a counterexample is in"));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
}

// As the finding's own outputs were computed.
std::vector<double> outputs_at(const Model& model, const at::Tensor& x) {
  const FlushDenormals keep_denormals(false);
  const at::Tensor y = model.evaluate(x.unsqueeze(0)).to(at::kDouble).contiguous();
  const auto* data = y.const_data_ptr<double>();
  return {data, data + y.numel()};
}

// A process that was killed, or whose disk was full, may leave half a line.
void end_at_line(const fs::path& path) {
  if (!fs::exists(path)) return;
  const std::string text = read_file(path.string());
  const size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  if (whole < text.size()) fs::resize_file(path, whole);
}

ordered_json file_hashes(const std::vector<std::string>& paths) {
  ordered_json out = ordered_json::array();
  for (const std::string& path : paths) {
    out.push_back({{"path", path}, {"sha256", sha256_file(path)}});
  }
  return out;
}

}  // namespace

void save_npy(const std::string& path, const at::Tensor& x, const std::vector<int64_t>& shape) {
  const at::Tensor flat = x.to(at::kFloat).contiguous();
  write_npy(path, {flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel())}, shape);
}

std::string witness_text(const ProblemInstance& instance, const at::Tensor& x,
                         std::span<const double> y) {
  const at::Tensor flat = x.contiguous();
  const std::span<const float> row(flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel()));
  if (!instance.query) return write_witness(row, y);
  return "sat\n" + query::write_assignment(*instance.query, row, y);
}

void save_witness(const std::string& path, const ProblemInstance& instance, const at::Tensor& x,
                  std::span<const double> y, const std::vector<int64_t>& shape) {
  if (path.ends_with(".npy")) return save_npy(path, x, shape);
  write_file(path, witness_text(instance, x, y));
}

ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

RunFolder::RunFolder(const std::string& path) : RunFolder(path, false) {}

RunFolder RunFolder::reopen(const std::string& path) {
  return {path, true};
}

RunFolder::RunFolder(const std::string& path, bool again)
    : path_(fs::absolute(path).lexically_normal().string()) {
  GRAPESHOT_CHECK(!again || fs::exists(fs::path(path_) / "run.json"), kNotFound, path,
                  ": no run folder (no run.json in it)");
  std::error_code failure;
  fs::create_directories(fs::path(path_) / "findings", failure);
  GRAPESHOT_CHECK(!failure, kInvalidArgument, path,
                  ": cannot make the run folder: ", failure.message());
  // `grapeshot status` has the lock for a moment when it looks.
  constexpr int kTries = 5;
  for (int tries = 0; !lock_.held() && tries < kTries; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock_ = FileLock((fs::path(path_) / "lock").string());
  }
  GRAPESHOT_CHECK(lock_.held(), kInvalidArgument, path, ": another process works on this run");
  if (!again) check_is_new(path);
  // A process that was killed while it wrote leaves a part.
  const fs::path checkpoint = fs::path(path_) / "checkpoint";
  for (const fs::directory_entry& each : fs::directory_iterator(checkpoint, failure)) {
    if (each.path().filename() != "state.pt") fs::remove(each.path(), failure);
  }
  if (again) end_at_line(fs::path(path_) / "stats.jsonl");
  stats_.open(fs::path(path_) / "stats.jsonl", again ? std::ios::app : std::ios::trunc);
  GRAPESHOT_CHECK(stats_.good(), kInvalidArgument, path, ": cannot be written");
}

void RunFolder::check_is_new(const std::string& path) {
  GRAPESHOT_CHECK(!fs::exists(fs::path(path) / "run.json"), kInvalidArgument, path,
                  ": holds an earlier run; `grapeshot resume` goes on with it, or choose another "
                  "--out");
}

void RunFolder::write_json(const std::string& name, const ordered_json& value) const {
  write_file((fs::path(path_) / name).string(), value.dump(2) + "\n");
}

void RunFolder::append_stats(const ordered_json& line) {
  stats_ << line.dump() << "\n" << std::flush;
  GRAPESHOT_CHECK(stats_.good(), kSystem, path_,
                  "/stats.jsonl: cannot be written, is the disk full?");
}

std::string RunFolder::write_finding(
    const Problem& problem, const Finding& finding, uint64_t seed, const ordered_json& more,
    const std::vector<std::pair<std::string, at::Tensor>>& inputs) const {
  const ProblemInstance& instance = problem.instances[static_cast<size_t>(finding.instance)];
  const ProblemModel& model = problem.models[instance.model];
  const std::string id = finding_id(finding);
  const fs::path place = fs::path(path_) / "findings" / id;
  // A campaign that was resumed comes by what it found after its last checkpoint once more.
  if (fs::exists(place / "finding.json")) return id;
  const fs::path draft = fs::path(path_) / "findings" / ("." + id);
  std::error_code failure;
  fs::remove_all(draft, failure);
  fs::create_directories(draft, failure);
  GRAPESHOT_CHECK(!failure, kSystem, draft.string(), ": cannot be made: ", failure.message());
  save_npy((draft / "input.npy").string(), finding.x, model.model->input_shape());
  save_npy((draft / "original.npy").string(), finding.original, model.model->input_shape());
  for (const auto& [name, x] : inputs) {
    save_npy((draft / name).string(), x, model.model->input_shape());
  }
  std::string spec = instance.spec;
  if (spec.empty()) {
    const Property own = at_bits_of(instance.property, finding.x);
    // VNN-LIB says nothing of balls, grids and groups.
    const bool json = own.regions[0].box.set.any();
    const std::string name = json ? kOwnJson : kOwnVnnlib;
    spec = (place / name).string();
    write_file((draft / name).string(), json ? properties::write_specification(own, instance.name)
                                             : write_vnnlib(own, instance.name));
  }
  const Confirmation& c = finding.confirmation;
  const Region& region = instance.property.regions[static_cast<size_t>(c.verdict32.region)];
  ordered_json out;
  out["id"] = id;
  out["model"] = model.path;
  out["model_sha256"] = model.sha256;
  if (!model.variant.empty()) out["variant"] = model.variant;
  out["spec"] = spec;
  out["spec_sha256"] = instance.spec.empty()
                           ? sha256_file((draft / fs::path(spec).filename()).string())
                           : instance.sha256;
  out["instance"] = finding.instance;
  out["instance_name"] = instance.name;
  out["region"] = c.verdict32.region;
  out["case"] = c.verdict32.case_index;
  out["margin"] = number(c.verdict32.margin);
  out["margin_float64"] = number(c.verdict64.margin);
  out["rounding"] = number(c.rounding);
  out["outputs"] = numbers(c.y32);
  out["original_outputs"] = numbers(outputs_at(*model.model, finding.original));
  out["property"] = output_kind(region, model.model->outputs()).name;
  if (c.verdict32.case_index >= 0) {  // not where an output is NaN
    out["violated"] = describe(region.cases[static_cast<size_t>(c.verdict32.case_index)]);
  }
  const Box& box = region.box;
  out["nearest_float32_inputs"] = box.nearest;
  if (instance.grid > 0.) out["grid"] = instance.grid;
  if (const Ball& ball = box.set.ball; ball.norm != BallNorm::kNone) {
    const at::Tensor flat = finding.x.to(at::kFloat).contiguous();
    out["norm"] = name_of(ball.norm);
    out["radius"] = ball.radius;
    out["distance"] =
        distance(ball.norm, {flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel())},
                 ball.centre, box.set.one_hot.get());
  }
  if (!box.droppable.empty()) out["dropped_inputs"] = dropped_bits(box, finding.x);
  if (problem.vocabulary) {
    out["tokens"] = problem.vocabulary->changes(finding.original, finding.x, box);
  }
  if (problem.rows && instance.row >= 0) {
    out["data"] = describe_change(*problem.rows, instance.row, finding, draft.string());
    const std::string words = words_of(
        out["data"], top1_label(instance.property.regions[0], instance.property.outputs), c.y32);
    if (!words.empty()) out["words"] = words;
  }
  out["mutation"] = finding.mutation;
  out["ids"] = {{"seed", seed},
                {"shard_seed", finding.shard_seed},
                {"iteration", finding.iteration},
                {"row", finding.row},
                {"parent", finding.parent}};
  if (instance.json) describe_json(problem, finding, draft.string(), out);
  if (instance.query) describe_query(problem, finding, draft.string(), out);
  if (!more.is_null()) out.update(more);
  out["replay"] = "grapeshot replay findings/" + id;
  write_file((draft / "finding.json").string(), out.dump(2) + "\n");
  fs::rename(draft, place, failure);
  GRAPESHOT_CHECK(!failure, kSystem, place.string(), ": cannot be written: ", failure.message());
  return id;
}

void RunFolder::describe_json(const Problem& problem, const Finding& finding,
                              const std::string& draft, ordered_json& out) const {
  const ProblemInstance& instance = problem.instances[static_cast<size_t>(finding.instance)];
  const properties::Specification& spec = *instance.json;
  const Confirmation& c = finding.confirmation;
  const at::Tensor x = finding.x.to(at::kFloat).contiguous();
  const std::span<const float> row(x.const_data_ptr<float>(), static_cast<size_t>(x.numel()));
  out["property"] = spec.kind;
  out["words"] = spec.words(row, c.y32, c.verdict32);
  out["spec_files"] = file_hashes(spec.files);
  write_region(instance.property, c.verdict32, (fs::path(draft) / "region.vnnlib").string());
  if (!spec.pair) return;
  out["network"] = write_network(problem, instance.model);
  const auto d = static_cast<size_t>(spec.pair->inputs),
             k = static_cast<size_t>(spec.pair->outputs);
  const std::vector<float> second = properties::second_input(*spec.pair, row);
  write_npy((fs::path(draft) / "first.npy").string(), row.first(d), spec.shape);
  write_npy((fs::path(draft) / "second.npy").string(), second, spec.shape);
  const auto part = [&](size_t begin) {
    return numbers({c.y32.begin() + static_cast<int64_t>(begin),
                    c.y32.begin() + static_cast<int64_t>(begin + k)});
  };
  out["first_outputs"] = part(0);
  out["second_outputs"] = part(k);
}

std::string RunFolder::write_network(const Problem& problem, size_t index) const {
  const fs::path place = fs::path(path_) / "networks" / str(index, ".onnx");
  fs::create_directories(place.parent_path());
  if (!fs::exists(place)) write_file(place.string(), problem.models[index].pair);
  return place.string();
}

void RunFolder::describe_query(const Problem& problem, const Finding& finding,
                               const std::string& draft, ordered_json& out) const {
  const ProblemInstance& instance = problem.instances[static_cast<size_t>(finding.instance)];
  const Confirmation& c = finding.confirmation;
  out["words"] = words_of(instance)({}, c.y32, c.verdict32);
  for (size_t n = 0; n < instance.networks.size(); ++n) {
    if (!instance.query->networks[n].has_file()) continue;
    out["networks"].push_back({{"name", instance.query->networks[n].name},
                               {"path", instance.networks[n]},
                               {"sha256", sha256_file(instance.networks[n])}});
  }
  write_file((fs::path(draft) / "counterexample.txt").string(),
             witness_text(instance, finding.x.to(at::kFloat), c.y32));
  if (instance.query->plain()) return;
  out["network"] = write_network(problem, instance.model);
}

void RunFolder::write_instances(const Problem& problem, const CampaignResult& result) const {
  const bool rows = std::ranges::any_of(problem.instances,
                                        [](const ProblemInstance& each) { return each.row >= 0; });
  std::string csv =
      str("instance,model,spec,verdict,findings,best_margin,candidates,seconds_to_first",
          rows ? ",row,eps,target" : "", "\n");
  for (size_t i = 0; i < problem.instances.size(); ++i) {
    const ProblemInstance& instance = problem.instances[i];
    const InstanceResult& r = result.instances[i];
    char rest[160];
    std::snprintf(rest, sizeof rest, "%s,%" PRId64 ",%.9g,%" PRId64 ",",
                  r.findings > 0 ? "broken" : "unbroken", r.findings, r.best_margin, r.candidates);
    csv += str(i, ",", quoted(problem.models[instance.model].path), ",",
               quoted(instance.spec.empty() ? instance.name : instance.spec), ",", rest,
               r.seconds_to_first < 0. ? std::string() : str(r.seconds_to_first));
    if (rows) {
      csv += str(",", instance.row, ",", instance.eps, ",",
                 instance.target < 0 ? std::string() : std::to_string(instance.target));
    }
    csv += "\n";
    if (r.findings == 0 && r.closest.defined()) {
      fs::create_directories(fs::path(path_) / "near");
      save_npy((fs::path(path_) / "near" / str(i, ".npy")).string(), r.closest,
               problem.models[instance.model].model->input_shape());
    }
  }
  write_file((fs::path(path_) / "instances.csv").string(), csv);
}

void RunFolder::write_checkpoint(const State& state) const {
  const fs::path folder = fs::path(path_) / "checkpoint";
  fs::create_directories(folder);
  const std::vector<char> bytes = state.encode();
  write_file((folder / "state.pt").string(), {bytes.data(), bytes.size()}, /*durable=*/true);
}

std::optional<State> RunFolder::read_checkpoint() const {
  const std::string path = (fs::path(path_) / "checkpoint" / "state.pt").string();
  if (!fs::exists(path)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  try {
    return State::decode(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), str(path, ": ", error.what()));
  }
}

std::string default_run_path(const std::string& model_path) {
  const std::time_t now = std::time(nullptr);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", std::localtime(&now));
  std::string name = fs::path(model_path).filename().string();
  name = name.substr(0, name.find(".onnx"));
  const std::string base = str("grapeshot-out/", time, "-", name);
  std::string path = base;
  for (int i = 2; fs::exists(path); ++i) path = str(base, "-", i);
  return path;
}

ordered_json describe_files(const Problem& problem) {
  ordered_json out;
  for (const ProblemModel& each : problem.models) {
    out["models"].push_back({{"path", each.path}, {"sha256", each.sha256}});
  }
  for (const ProblemInstance& each : problem.instances) {
    ordered_json spec = {{"model", each.model}, {"name", each.name}};
    if (!each.spec.empty()) {
      spec["path"] = each.spec;
      spec["sha256"] = each.sha256;
      if (each.json && !each.json->files.empty()) spec["files"] = file_hashes(each.json->files);
      if (each.query) spec["files"] = file_hashes(each.networks);
    }
    out["instances"].push_back(spec);
  }
  return out;
}

}  // namespace grapeshot::cli
