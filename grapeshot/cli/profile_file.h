// grapeshot/cli/profile_file.h: reference statistics (core/profile.h) as an .npz that NumPy reads.
//
//   about                             JSON as bytes: format, model_sha256, rows, taps, layer
//   low_<i>, high_<i>, deviation_<i>  of tap i, [neurons] float32
//   traces, predicted                 of the layer, [rows, neurons] float32 and [rows] float64
#pragma once

#include <string>

#include "grapeshot/core/profile.h"

namespace grapeshot::cli {

void write_profile(const std::string& path, const Profile& profile);

/// Throws Error naming the file: kParse for what write_profile has not written, kInvalidArgument
/// when it was made for a model whose file has another SHA-256 than `model_sha256`; `model` is for
/// the message.
[[nodiscard]] Profile read_profile(const std::string& path, const std::string& model_sha256,
                                   const std::string& model);

}  // namespace grapeshot::cli
