// grapeshot/io/onnx/lower.h: an equal network with less work in it.
//
// A pass is one function and one row of the table in lower.cpp. Every pass keeps the outputs equal
// to float rounding; the tests hold each model's lowered graph against the graph as read.
// Transposes need no pass: they are views, so that a network in NHWC runs channels-last as it is.
#pragma once

#include <span>
#include <string_view>

#include "grapeshot/io/onnx/program.h"

namespace grapeshot::onnx {

using PassFn = void (*)(Network& network, const Recording& recording);

struct Pass {
  std::string_view name, summary;
  PassFn run;
};

/// All passes, in the order in which `lower` applies them.
[[nodiscard]] std::span<const Pass> passes();

/// Sets network.logits when the output is a softmax over everything the network returns.
void find_logits(Network& network, const Recording& recording);

/// `network` (constants folded) after all passes.
[[nodiscard]] Network lower(const Network& network, const Recording& recording);

}  // namespace grapeshot::onnx
