// grapeshot/io/onnx/joined_model.h: the networks of a VNN-LIB 2.0 query, written as one ONNX file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grapeshot/io/onnx/model.h"
#include "grapeshot/io/query.h"

namespace grapeshot::onnx {

/// A network's file: its bytes, and what they were loaded as.
struct NetworkFile {
  std::string path;
  std::string_view bytes;
  const OnnxModel* model = nullptr;
};

/// Throws kInvalidArgument, naming both files, when the network has other inputs or outputs than
/// network `index` of the query declares: in number or in shape, but for sizes of 1. Types are the
/// loader's concern: all inputs are float32.
void check_declared(const query::Query& query, size_t index, const OnnxModel& model);

/// The bytes of a model whose only input is the query's joined input [D] and whose only output is
/// [its base outputs, its extra outputs], flat; float32. `files` has one for every network of the
/// query, linked ones too; those of one path are written once. Extra outputs are what float32 makes
/// of the polynomials; query::settle_extras() says what they are.
/// Throws kUnsupported for opsets before 7 or that differ, outputs that are not float32, hidden
/// tensors that no node writes, polynomials of more than 2^22 terms together where each takes as
/// many as the longest, and models of more than 2 GiB.
[[nodiscard]] std::string joined_model(const query::Query& query,
                                       const std::vector<NetworkFile>& files);

}  // namespace grapeshot::onnx
