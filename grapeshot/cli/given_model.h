// grapeshot/cli/given_model.h: a model that a calling program has loaded already, or one of a file.
#pragma once

#include <memory>
#include <string>

#include "grapeshot/cli/session.h"
#include "grapeshot/io/onnx/model.h"

namespace grapeshot::cli {

/// What is given for `path`, or what is read from there.
[[nodiscard]] inline std::shared_ptr<const Model> open_model(const std::string& path,
                                                             const GivenModels& given) {
  const auto known = given.find(path);
  if (known != given.end()) return known->second;
  return onnx::load_model(path);
}

}  // namespace grapeshot::cli
