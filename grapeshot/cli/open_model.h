// grapeshot/cli/open_model.h: a network from a file, whatever it is in.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "grapeshot/cli/session.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {

/// What a command's help says of MODEL.
constexpr const char* kModelHelp = "An .onnx or .onnx.gz file, or TorchScript (.pt)";

/// Declares --shape.
void add_shape_option(CLI::App& app, std::string& shape);

/// "1,28,28"; throws Error{kInvalidArgument} for anything but sizes of at least 1.
[[nodiscard]] std::vector<int64_t> parse_shape(const std::string& text);

/// The shape of an input: of --shape, which is a list of sizes or the .npy file of an input, or,
/// where that is empty, of a row of the .npy file `data`; none where there is no such file.
[[nodiscard]] std::vector<int64_t> input_shape(const std::string& shape, const std::string& data);

/// The model as a graph of ONNX operators, of which TorchScript is one with a single node; null for
/// what a calling program gave.
[[nodiscard]] const onnx::OnnxModel* as_network(const Model& model);
/// Whether it is TorchScript, a module as a whole without layers to look into.
[[nodiscard]] bool is_script(const Model& model);
/// The graph; throws Error{kUnsupported} for a model without: `what` "needs an ONNX file".
[[nodiscard]] const onnx::OnnxModel& need_onnx(const Model& model, std::string_view what);

/// The absolute path of a file as it is found (perhaps .gz); throws Error{kNotFound} without one.
[[nodiscard]] std::string absolute_path(const std::string& path);

/// Reads `path`, or `path`.gz: ONNX, or TorchScript, which is told by its content and which needs
/// the `shape` of its input. An ONNX file says that itself. Throws Error as their readers do.
[[nodiscard]] std::unique_ptr<onnx::OnnxModel> open_network(const std::string& path,
                                                            std::vector<int64_t> shape = {});
/// What is given for `path`, or what is read from there.
[[nodiscard]] std::shared_ptr<const Model> open_model(const std::string& path,
                                                      std::vector<int64_t> shape,
                                                      const GivenModels& given);

}  // namespace grapeshot::cli
