// grapeshot/io/onnx/value_proto.h: TensorProto, SequenceProto and OptionalProto to values, as the
// .pb files beside a model hold them.
#pragma once

#include <string>
#include <string_view>

#include "grapeshot/io/onnx/ops.h"

namespace grapeshot::onnx {

/// The value in a file of the type that `port` has; an empty Value for an empty optional. NaN is a
/// value like others. Throws Error{kParse} or {kUnsupported} that begins with `path`.
[[nodiscard]] Value parse_value(std::string_view bytes, const std::string& path, const Port& port);

}  // namespace grapeshot::onnx
