// grapeshot/io/onnx/tensor_proto.h: one TensorProto to one tensor.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "grapeshot/io/onnx/proto.h"

namespace grapeshot::onnx {

struct NamedTensor {
  std::string name;
  at::Tensor t;
};

enum class NotANumber { kRefused, kAllowed };

/// The tensor; messages start with `path: place 'name'`, e.g. place = "initializer". External data
/// is read from files in the folder of `path`, links followed, and from nowhere else.
/// `external` counts the bytes of external data of a model, which --max-file-mib limits as a whole.
/// Throws as parse_graph does.
[[nodiscard]] NamedTensor read_tensor(protozero::pbf_reader reader, const std::string& path,
                                      const std::string& place, uint64_t& external,
                                      NotANumber nan = NotANumber::kRefused);

/// A TensorProto of float32 values [shape...], serialised.
[[nodiscard]] std::string write_tensor(const std::string& name, std::span<const float> values,
                                       const std::vector<int64_t>& shape);

}  // namespace grapeshot::onnx
