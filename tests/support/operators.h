// tests/support/operators.h: small networks around every ONNX operator, in several settings each.
#pragma once

#include <string>
#include <vector>

#include "tests/support/nets.h"

namespace grapeshot::testing {

struct OperatorNet {
  std::string op;       ///< what the network is made for
  std::string setting;  ///< for messages
  onnx::Graph graph;
};

/// At least one network for every operator of the tables; opsets and attributes differ.
[[nodiscard]] std::vector<OperatorNet> operator_nets();

}  // namespace grapeshot::testing
