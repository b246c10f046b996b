#include "grapeshot/cli/open_model.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include "grapeshot/base/error.h"
#include "grapeshot/base/text.h"
#include "grapeshot/io/data/data.h"
#include "grapeshot/io/file.h"
#include "grapeshot/io/npy.h"
#include "grapeshot/io/torchscript/torchscript.h"

namespace grapeshot::cli {

void add_shape_option(CLI::App& app, std::string& shape) {
  app.add_option("--shape", shape,
                 "Of one input of a TorchScript MODEL, without the axis of rows, as 1,28,28, or a "
                 ".npy file of one (default: that of a row of --data)");
}

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> out;
  for (const std::string_view part : split_at(',', text)) {
    int64_t size = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), size);
    GRAPESHOT_CHECK(failure == std::errc() && end == part.data() + part.size() && size >= 1,
                    kInvalidArgument, "--shape: '", printable(text),
                    "' is no list of sizes from 1 on, such as 1,28,28");
    out.push_back(size);
  }
  return out;
}

std::vector<int64_t> input_shape(const std::string& shape, const std::string& data) {
  if (shape.ends_with(".npy")) return read_npy(shape).shape;
  if (!shape.empty()) return parse_shape(shape);
  if (!data.ends_with(".npy") && !data.ends_with(".npy.gz")) return {};
  std::vector<int64_t> out = data::read(data, {.begin = 0, .end = 1}).shape;
  if (!out.empty()) out.erase(out.begin());
  return out;
}

const onnx::OnnxModel* as_network(const Model& model) {
  return dynamic_cast<const onnx::OnnxModel*>(&model);
}

bool is_script(const Model& model) {
  const onnx::OnnxModel* net = as_network(model);
  return net != nullptr && torchscript::is_torchscript(net->network());
}

const onnx::OnnxModel& need_onnx(const Model& model, std::string_view what) {
  const onnx::OnnxModel* net = as_network(model);
  GRAPESHOT_CHECK(net != nullptr, kUnsupported, model.name(), ": is a function of Python: ", what,
                  " needs an ONNX file");
  GRAPESHOT_CHECK(!is_script(model), kUnsupported, model.name(),
                  ": is TorchScript, a module as a whole: ", what, " needs an ONNX file");
  return *net;
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(resolve_file(path)).lexically_normal().string();
}

std::unique_ptr<onnx::OnnxModel> open_network(const std::string& path, std::vector<int64_t> shape) {
  const std::string bytes = read_file(path);
  if (torchscript::is_torch_file(bytes, path)) {
    return torchscript::parse_torchscript(bytes, path, std::move(shape));
  }
  return std::make_unique<onnx::OnnxModel>(onnx::parse_graph(bytes, path));
}

std::shared_ptr<const Model> open_model(const std::string& path, std::vector<int64_t> shape,
                                        const GivenModels& given) {
  const auto known = given.find(path);
  if (known != given.end()) return known->second;
  return open_network(path, std::move(shape));
}

}  // namespace grapeshot::cli
