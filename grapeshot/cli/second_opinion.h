// grapeshot/cli/second_opinion.h: what ONNX Runtime says of a counterexample.
#pragma once

#include <string>

#include "grapeshot/cli/problem.h"
#include "grapeshot/core/campaign.h"

namespace grapeshot::cli {

/// The values of --confirm: auto (ONNX Runtime where it is found, for what rounding may undo), ort
/// (for everything; an error when it is not found), none. Sets what a campaign asks; `problem`
/// outlives it. Throws Error{kInvalidArgument} for another value, kSystem when it is not there.
void ask_onnxruntime(CampaignParts& parts, const Problem& problem, const std::string& confirm);

}  // namespace grapeshot::cli
