#include "grapeshot/cli/other_runtime.h"

#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "grapeshot/base/error.h"
#include "grapeshot/cli/run_folder.h"
#include "grapeshot/core/denormals.h"
#include "grapeshot/io/file.h"

namespace grapeshot::cli {
namespace {

using nlohmann::ordered_json;

// All is said of the library in one sentence, as of any other file that is not as it should be.
std::unique_ptr<OnnxRuntime> load(const std::string& path) {
  const std::string library = find_onnxruntime();
  GRAPESHOT_CHECK(!library.empty(), kInvalidArgument,
                  "--against onnxruntime: no libonnxruntime.so was found; set "
                  "GRAPESHOT_ONNXRUNTIME to its path");
  try {
    return std::make_unique<OnnxRuntime>(library, path);
  } catch (const Error& e) {
    throw Error(ErrorCode::kInvalidArgument, str("--against onnxruntime: ", e.what()));
  }
}

ordered_json numbers(const at::Tensor& y) {
  ordered_json out = ordered_json::array();
  for (int64_t k = 0; k < y.size(0); ++k) out.push_back(number(y[k].item<double>()));
  return out;
}

}  // namespace

OtherRuntime::OtherRuntime(const Model& model, std::string path)
    : path_(std::move(path)),
      sha256_(sha256_file(path_)),
      outputs_(model.outputs()),
      runtime_(load(path_)) {
  GRAPESHOT_CHECK(runtime_->inputs() == model.inputs(), kInvalidArgument, path_, ": has ",
                  runtime_->inputs(), " inputs, ", model.name(), " has ", model.inputs());
  (void)outputs(at::zeros({1, model.inputs()}));
}

at::Tensor OtherRuntime::outputs(const at::Tensor& x) const {
  // As any other program would run it.
  const FlushDenormals keep_denormals(false);
  const auto run = [&](const at::Tensor& rows) {
    const at::Tensor flat = rows.contiguous();
    const std::vector<double> y = runtime_->run(
        {flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel())}, rows.size(0));
    const int64_t expected = rows.size(0) * outputs_;
    GRAPESHOT_CHECK(std::ssize(y) == expected, kInvalidArgument, path_, ": gives ", y.size(),
                    " outputs for ", rows.size(0), rows.size(0) == 1 ? " row" : " rows",
                    " in ONNX Runtime, not ", expected);
    return at::tensor(y, at::kDouble).view({rows.size(0), outputs_});
  };
  const auto one_by_one = [&] {
    at::Tensor y = at::empty({x.size(0), outputs_}, at::kDouble);
    for (int64_t r = 0; r < x.size(0); ++r) y[r].copy_(run(x.narrow(0, r, 1))[0]);
    return y;
  };
  if (x.size(0) <= 1 || !runtime_->takes_batches() || batches_ == false) return one_by_one();
  if (batches_) return run(x);
  // A file may say that its rows are any number and mean one, or mix them.
  const at::Tensor alone = one_by_one();
  try {
    batches_ = at::allclose(run(x), alone, 1e-3, 1e-3, /*equal_nan=*/true);
  } catch (const Error&) {
    batches_ = false;
  }
  return alone;
}

ordered_json to_json(const diff::Comparison& c, double tolerance, const OtherRuntime& other) {
  return {{"names", {"grapeshot", str(kOnnxRuntime, " ", other.version())}},
          {"reference_model", other.path()},
          {"reference_model_sha256", other.sha256()},
          {"tolerance", tolerance},
          {"limit", number(c.limit)},
          {"differ_in", c.classes ? "class" : "values"},
          {"classes", {c.our_class, c.their_class}},
          {"class_float64", c.exact_class},
          {"outputs", {numbers(c.ours), numbers(c.theirs)}},
          {"outputs_float64", numbers(c.exact)},
          {"errors", {number(c.our_error), number(c.their_error)}},
          {"gap_float64", number(c.gap)},
          {"largest_relative_difference", number(c.difference)}};
}

std::string describe(const diff::Comparison& c, const OtherRuntime& other) {
  const std::string name = str(kOnnxRuntime, " ", other.version());
  std::string out = c.our_class == c.their_class
                        ? str("class ", c.our_class, " in both")
                        : str("class ", c.our_class, " here, ", c.their_class, " in ", name);
  out += str("; outputs differ by ", c.difference, " of the largest");
  if (!c.disagree()) out += str(", which ", c.limit, " allows");
  return out;
}

}  // namespace grapeshot::cli
