// grapeshot/io/onnx/pair_model.h: two runs of one network, written as an ONNX file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/properties/pair.h"

namespace grapeshot::onnx {

/// The bytes of a model whose only input is `pair`'s whole input, [D + E], and whose only output is
/// [y, z, what the relation adds], flat. It holds the nodes of `bytes` twice and its weights once,
/// those of external files too, so that it stands alone; any runtime can run it. `model` is
/// what `bytes`, of the file `path`, were loaded as. Margins are of the scores before a final
/// softmax, where there is one, which leaves their signs as they are.
/// Throws kUnsupported for opsets before 7, outputs that are not float32, and models of more than
/// 2 GiB.
[[nodiscard]] std::string pair_model(std::string_view bytes, const std::string& path,
                                     const OnnxModel& model, const properties::Pair& pair);

}  // namespace grapeshot::onnx
