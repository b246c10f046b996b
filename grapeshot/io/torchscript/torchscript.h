// grapeshot/io/torchscript/torchscript.h: TorchScript files (torch.jit.save) as Models.
//
// The module is one node of a network (io/onnx/program.h), so that batches, rows one by one,
// gradients and float64 are what they are for ONNX: the rows of a batch are the module's first
// axis. It has no taps: nothing is known of the layers inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/io/onnx/model.h"

namespace grapeshot::torchscript {

/// Whether it may be such a file, or another one that Python's torch writes: a zip archive, a
/// pickle, or of a name that ends in .pt, .pth, .ts or .pt2.
[[nodiscard]] bool is_torch_file(std::string_view bytes, std::string_view path);

/// The module in `bytes`, in evaluation mode, for inputs of `shape` without the axis of rows.
/// Throws Error that begins with `path`: kParse for damaged files and for archives of something
/// else (a state dict, a pickled module, an exported program), which it names; kInvalidArgument for
/// an empty shape or one that the module does not take; kUnsupported for a forward() of other than
/// one tensor, and for outputs that are no tensor, tuple or list of tensors.
[[nodiscard]] std::unique_ptr<onnx::OnnxModel> parse_torchscript(std::string_view bytes,
                                                                 const std::string& path,
                                                                 std::vector<int64_t> shape);

/// Whether the network is such a module.
[[nodiscard]] bool is_torchscript(const onnx::Network& network);

/// The op_type of its one node.
constexpr std::string_view kNodeType = "TorchScript";

}  // namespace grapeshot::torchscript
