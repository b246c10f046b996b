// grapeshot/cli/open_model.h: a network from a file, whatever it is in.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

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

/// Throws Error{kUnsupported} for TorchScript: `what` "needs an ONNX file".
void check_is_onnx(const onnx::OnnxModel& model, std::string_view what);

/// Reads `path`, or `path`.gz: ONNX, or TorchScript, which is told by its content and which needs
/// the `shape` of its input. An ONNX file says that itself. Throws Error as their readers do.
[[nodiscard]] std::unique_ptr<onnx::OnnxModel> open_model(const std::string& path,
                                                          std::vector<int64_t> shape = {});

}  // namespace grapeshot::cli
